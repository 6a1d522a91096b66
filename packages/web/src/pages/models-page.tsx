// All models, and the model galleries.
import type { ModelView } from '@muster/protocol'
import { useQuery } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { modelsQuery } from '../api/queries.ts'
import { buttonClass } from '../components/button.tsx'
import { CopyBlock } from '../components/copy.tsx'
import { SearchField, SelectField } from '../components/field.tsx'
import { Empty, Loaded } from '../components/loaded.tsx'
import { Page } from '../components/page.tsx'
import { Tabs } from '../components/tabs.tsx'
import { useClose } from '../components/dialog.tsx'
import { GalleryTab } from '../features/models/gallery-tab.tsx'
import { ModelActionSheet } from '../features/models/model-actions.tsx'
import { filterModels, modelsSentence } from '../features/models/model-words.pure.ts'
import { ModelsTable } from '../features/models/models-table.tsx'

const route = getRouteApi('/models')
const tabs = [
  { id: 'models', label: 'Models' },
  { id: 'gallery', label: 'Gallery' },
]

export function ModelsPage() {
  const { tab = 'models', q = '' } = route.useSearch()
  const models = useQuery(modelsQuery)
  return (
    <Page title="Models" sentence={models.data && modelsSentence(models.data)} actions={<NewModelLink />}>
      <Tabs label="Model views" tabs={tabs} selected={tab} />
      <Filters isGallery={tab === 'gallery'} />
      {tab === 'gallery' ? (
        <GalleryTab q={q} />
      ) : (
        <Loaded query={models} what="models" empty={<NoModels />}>
          {(all) => <Filtered models={all} />}
        </Loaded>
      )}
      <Sheet models={models.data ?? []} />
    </Page>
  )
}

const NewModelLink = () => (
  <Link to="/models/new" className={buttonClass('primary')}>
    New model
  </Link>
)

const states = [
  { value: '', label: 'Any state' },
  { value: 'ready', label: 'Ready' },
  { value: 'starting', label: 'Starting' },
  { value: 'failed', label: 'Failed' },
  { value: 'unloaded', label: 'Unloaded' },
]

function Filters({ isGallery }: { readonly isGallery: boolean }) {
  const { q = '', state = '' } = route.useSearch()
  const navigate = route.useNavigate()
  const set = (change: object): void => void navigate({ search: (before) => ({ ...before, ...change }), replace: true })
  return (
    <div className="flex flex-wrap items-start gap-2">
      <SearchField label={isGallery ? 'Search gallery' : 'Search models'} text={q} onType={(typed) => set({ q: typed })} />
      {!isGallery && (
        <SelectField
          label="State"
          isLabelHidden
          className="w-36"
          choices={states}
          value={state}
          onChange={({ target }) => set({ state: target.value || undefined })}
        />
      )}
    </div>
  )
}

function Filtered({ models }: { readonly models: readonly ModelView[] }) {
  const { q = '', state = '' } = route.useSearch()
  const shown = filterModels(models, { q, state })
  if (shown.length > 0) return <ModelsTable models={shown} />
  return (
    <Empty title="No models match these filters.">
      <Link to="/models" className="underline">
        Show all
      </Link>
    </Empty>
  )
}

const NoModels = () => (
  <Empty title="No models yet.">
    <p>
      <Link to="/models/new" className="underline">
        Write a configuration
      </Link>
      , add one from the{' '}
      <Link to="/models" search={{ tab: 'gallery' }} className="underline">
        gallery
      </Link>
      , or apply a file:
    </p>
    <CopyBlock label="command" text="muster models apply -f model.yaml" />
  </Empty>
)

function Sheet({ models }: { readonly models: readonly ModelView[] }) {
  const { act, model: name } = route.useSearch()
  const close = useClose('act', 'model')
  const model = models.find((each) => each.name === name)
  if (model === undefined || (act !== 'unload' && act !== 'delete')) return null
  return <ModelActionSheet model={model} act={act} onClose={close} />
}
