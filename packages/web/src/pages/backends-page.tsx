// Installed backends, the gallery, and the sheets that change them.
import { useQuery } from '@tanstack/react-query'
import { getRouteApi } from '@tanstack/react-router'
import { BackendName } from '@muster/protocol'
import { backendsQuery, upgradesQuery } from '../api/queries.ts'
import { CopyBlock } from '../components/copy.tsx'
import { Empty, Loaded } from '../components/loaded.tsx'
import { Page } from '../components/page.tsx'
import { Tabs } from '../components/tabs.tsx'
import { pageSentence } from '../features/backends/backend-words.pure.ts'
import { DeleteSheet } from '../features/backends/delete-sheet.tsx'
import { GalleryList } from '../features/backends/gallery-list.tsx'
import { InstallFromUriSheet, InstallSheet } from '../features/backends/install-sheet.tsx'
import { InstalledList } from '../features/backends/installed-list.tsx'
import { UpgradeAllSheet, UpgradeSheet } from '../features/backends/upgrade-sheets.tsx'
import { CheckNow, CheckProblems, UpgradesBanner } from '../features/backends/upgrades.tsx'

const route = getRouteApi('/backends')

export function BackendsPage() {
  const { tab, q = '', act, backend, dev } = route.useSearch()
  const backends = useQuery(backendsQuery)
  const check = useQuery(upgradesQuery).data
  const upgrades = check?.upgrades ?? {}
  // Without a complete check the page does not claim that all is up to date.
  const isChecked = check !== undefined && check.checked_at !== null && check.problems.length === 0
  const selected = tab ?? (backends.data?.length === 0 ? 'gallery' : 'installed')
  return (
    <Page
      title="Backends"
      sentence={backends.data && pageSentence(backends.data, isChecked || Object.keys(upgrades).length > 0 ? upgrades : null)}
      actions={<CheckNow />}
    >
      <UpgradesBanner />
      <CheckProblems />
      <Tabs
        label="Backend views"
        selected={selected}
        tabs={[
          { id: 'installed', label: 'Installed', count: backends.data?.length },
          { id: 'gallery', label: 'Gallery' },
        ]}
      />
      {selected === 'gallery' ? (
        <GalleryList q={q} isDevelopment={dev === 'yes'} />
      ) : (
        <Loaded query={backends} what="backends" empty={<NoBackends />}>
          {(all) => <InstalledList backends={all} upgrades={upgrades} q={q} />}
        </Loaded>
      )}
      <BackendSheets act={act} backend={backend} />
    </Page>
  )
}

function NoBackends() {
  return (
    <Empty title="No backends installed.">
      <p className="text-soft">
        The first request for a model installs the backend it needs. You can also install one from the gallery, or run:
      </p>
      <CopyBlock label="command" text="muster backends install llama" />
    </Empty>
  )
}

export function BackendSheets({ act, backend }: { readonly act: string | undefined; readonly backend: string | undefined }) {
  if (act === 'upgrade-all') return <UpgradeAllSheet />
  if (act === 'install' && backend === undefined) return <InstallFromUriSheet />
  const name = BackendName.safeParse(backend).data
  if (name === undefined) return null
  // The key resets the sheet's input for another backend.
  if (act === 'install') return <InstallSheet key={name} name={name} />
  if (act === 'upgrade') return <UpgradeSheet key={name} name={name} />
  return act === 'delete' ? <DeleteSheet key={name} name={name} /> : null
}
