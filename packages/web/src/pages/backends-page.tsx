// Backends: what is installed, what is on offer, and the sheets that change it.
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
import { AddressSheet, InstallSheet } from '../features/backends/install-sheet.tsx'
import { InstalledList } from '../features/backends/installed-list.tsx'
import { UpgradeAllSheet, UpgradeSheet } from '../features/backends/upgrade-sheets.tsx'
import { CheckNow, CheckProblems, UpgradesBanner } from '../features/backends/upgrades.tsx'

const route = getRouteApi('/backends')

export function BackendsPage() {
  const { tab, q = '', wish, backend } = route.useSearch()
  const backends = useQuery(backendsQuery)
  const known = useQuery(upgradesQuery).data
  const upgrades = known?.upgrades ?? {}
  // What was never looked for, or could not be found out, is not up to date.
  const isChecked = known !== undefined && known.checked_at !== null && known.problems.length === 0
  const chosen = tab ?? (backends.data?.length === 0 ? 'gallery' : 'installed')
  return (
    <Page
      title="Backends"
      sentence={backends.data && pageSentence(backends.data, isChecked || Object.keys(upgrades).length > 0 ? upgrades : null)}
      actions={<CheckNow />}
    >
      <UpgradesBanner />
      <CheckProblems />
      <Tabs
        label="Parts of this page"
        chosen={chosen}
        tabs={[
          { id: 'installed', label: 'Installed', ...(backends.data === undefined ? {} : { count: backends.data.length }) },
          { id: 'gallery', label: 'Gallery' },
        ]}
      />
      {chosen === 'gallery' ? (
        <GalleryList q={q} />
      ) : (
        <Loaded query={backends} what="what is installed" empty={<NothingInstalled />}>
          {(all) => <InstalledList backends={all} upgrades={upgrades} q={q} />}
        </Loaded>
      )}
      <BackendSheets wish={wish} backend={backend} />
    </Page>
  )
}

function NothingInstalled() {
  return (
    <Empty title="No node has a backend.">
      <p className="text-soft">The first request for a model installs what it needs. Or choose one of the gallery, or run:</p>
      <CopyBlock label="the command" text="muster backends install llama" />
    </Empty>
  )
}

export function BackendSheets({ wish, backend }: { readonly wish: string | undefined; readonly backend: string | undefined }) {
  if (wish === 'upgrade-all') return <UpgradeAllSheet />
  if (wish === 'install' && backend === undefined) return <AddressSheet />
  const name = BackendName.safeParse(backend).data
  if (name === undefined) return null
  // Another backend is another sheet: nothing of the one before is left in it.
  if (wish === 'install') return <InstallSheet key={name} name={name} />
  if (wish === 'upgrade') return <UpgradeSheet key={name} name={name} />
  return wish === 'delete' ? <DeleteSheet key={name} name={name} /> : null
}
