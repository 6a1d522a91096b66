import { useMutation } from '@tanstack/react-query'
import { useSearch } from '@tanstack/react-router'
import { loginRoutes } from '@muster/protocol'
import { call, isLoggedOut } from '../api/client.ts'
import { Button } from '../components/button.tsx'
import { useNotices } from '../components/notices.tsx'
import { Page } from '../components/page.tsx'
import { forgetAll } from '../components/storage.ts'
import { Tabs } from '../components/tabs.tsx'
import { AboutTab } from '../features/settings/about-tab.tsx'
import { GalleriesTab } from '../features/settings/galleries-tab.tsx'
import { InForceTab } from '../features/settings/configuration-tab.tsx'
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

export function LogOutButton() {
  const tell = useNotices()
  const logout = useMutation({
    mutationFn: () => call(loginRoutes.logout),
    onSuccess: leave,
    // Whoever is out already is where he wanted to be.
    onError: (error) => (isLoggedOut(error) ? leave() : tell('bad', error.message)),
  })
  return (
    <Button onClick={() => logout.mutate()} isBusy={logout.isPending || logout.isSuccess}>
      Log out
    </Button>
  )
}

function leave(): void {
  forgetAll()
  location.reload()
}
