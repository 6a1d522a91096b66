import { useSearch } from '@tanstack/react-router'
import { Page } from '../components/page.tsx'
import { Tabs } from '../components/tabs.tsx'
import { LogOutButton } from '../features/access/log-out-button.tsx'
import { AboutTab } from '../features/settings/about-tab.tsx'
import { GalleriesTab } from '../features/settings/galleries-tab.tsx'
import { InForceTab } from '../features/settings/in-force-tab.tsx'
import { KeysTab } from '../features/settings/keys-tab.tsx'

const tabs = [
  { id: 'keys', label: 'Keys', sentence: 'Who may call.' },
  { id: 'galleries', label: 'Galleries', sentence: 'Where backends and models come from.' },
  { id: 'in-force', label: 'In force', sentence: 'How this controller was started.' },
  { id: 'about', label: 'About', sentence: 'What runs here.' },
] as const

export function SettingsPage() {
  const { tab } = useSearch({ from: '/settings' })
  const chosen = tabs.find(({ id }) => id === tab) ?? tabs[0]
  return (
    <Page title="Settings" sentence={chosen.sentence} actions={<LogOutButton />}>
      <Tabs label="Parts of the settings" tabs={tabs} chosen={chosen.id} />
      {chosen.id === 'keys' && <KeysTab />}
      {chosen.id === 'galleries' && <GalleriesTab />}
      {chosen.id === 'in-force' && <InForceTab />}
      {chosen.id === 'about' && <AboutTab />}
    </Page>
  )
}
