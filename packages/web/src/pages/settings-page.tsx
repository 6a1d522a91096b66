// Settings: API keys, galleries, configuration, about.
import { useMutation } from '@tanstack/react-query'
import { useSearch } from '@tanstack/react-router'
import { loginRoutes } from '@muster/protocol'
import { call, isLoggedOut } from '../api/client.ts'
import { Button } from '../components/button.tsx'
import { useNotices } from '../components/notices.tsx'
import { Page } from '../components/page.tsx'
import { clearSession } from '../components/storage.ts'
import { Tabs } from '../components/tabs.tsx'
import { AboutTab } from '../features/settings/about-tab.tsx'
import { GalleriesTab } from '../features/settings/galleries-tab.tsx'
import { ConfigurationTab } from '../features/settings/configuration-tab.tsx'
import { KeysTab } from '../features/settings/keys-tab.tsx'

const tabs = [
  { id: 'keys', label: 'API keys', sentence: 'Keys for programs that use the API.' },
  { id: 'galleries', label: 'Galleries', sentence: 'Sources of backends and models.' },
  { id: 'configuration', label: 'Configuration', sentence: 'Effective settings of this controller.' },
  { id: 'about', label: 'About', sentence: 'Version, controllers and theme.' },
] as const

export function SettingsPage() {
  const { tab } = useSearch({ from: '/settings' })
  const selected = tabs.find(({ id }) => id === tab) ?? tabs[0]
  return (
    <Page title="Settings" sentence={selected.sentence} actions={<LogOutButton />}>
      <Tabs label="Settings views" tabs={tabs} selected={selected.id} />
      {selected.id === 'keys' && <KeysTab />}
      {selected.id === 'galleries' && <GalleriesTab />}
      {selected.id === 'configuration' && <ConfigurationTab />}
      {selected.id === 'about' && <AboutTab />}
    </Page>
  )
}

export function LogOutButton() {
  const notify = useNotices()
  const logout = useMutation({
    mutationFn: () => call(loginRoutes.logout),
    onSuccess: reloadLoggedOut,
    // A 401 means that the session has already ended.
    onError: (error) => (isLoggedOut(error) ? reloadLoggedOut() : notify('bad', `Could not log out: ${error.message}`)),
  })
  return (
    <Button onClick={() => logout.mutate()} isBusy={logout.isPending || logout.isSuccess}>
      Log out
    </Button>
  )
}

function reloadLoggedOut(): void {
  clearSession()
  location.reload()
}
