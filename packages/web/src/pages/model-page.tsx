// One model: its state, replicas, configuration, scheduling, placement and files.
import { type ModelView } from '@muster/protocol'
import { useQuery } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { modelReplicasQuery, modelsQuery, nodesQuery, statsQuery } from '../api/queries.ts'
import { Button, buttonClass } from '../components/button.tsx'
import { Empty, Loaded } from '../components/loaded.tsx'
import { Page } from '../components/page.tsx'
import { Tabs } from '../components/tabs.tsx'
import { useNow } from '../components/time.tsx'
import { useClose } from '../components/dialog.tsx'
import { ConfigTab } from '../features/models/config-tab.tsx'
import { FilesTab } from '../features/models/files-tab.tsx'
import { ModelFailure, ModelStateMark, useLoadProgress } from '../features/models/model-state.tsx'
import { ModelActionSheet, useModelAction } from '../features/models/model-actions.tsx'
import { isNodeModelAction, modelSentence } from '../features/models/model-words.pure.ts'
import { NodeModelSheet } from '../features/models/node-model-actions.tsx'
import { PlacementTab } from '../features/models/placement-tab.tsx'
import { ReplicasTab } from '../features/models/replicas-tab.tsx'
import { SchedulingTab } from '../features/models/scheduling-tab.tsx'
import { lastMinuteOf } from '../features/traffic/traffic.pure.ts'

const route = getRouteApi('/models/$name')

export function ModelPage() {
  const { name } = route.useParams()
  const models = useQuery(modelsQuery)
  const model = models.data?.find((each) => each.name === name)
  if (model !== undefined) return <Model key={name} model={model} />
  return (
    <Page title={name}>
      <Loaded query={models} what="model">
        {() => (
          <Empty title={`Model ${name} does not exist.`}>
            <Link to="/models" className="underline">
              All models
            </Link>
          </Empty>
        )}
      </Loaded>
    </Page>
  )
}

function Model({ model }: { readonly model: ModelView }) {
  const { tab = 'replicas', act, on } = route.useSearch()
  const node = useQuery(nodesQuery).data?.find(({ id }) => id === on)
  const close = useClose('act')
  const sentence = useSentence(model)
  const replicas = useQuery(modelReplicasQuery(model.name)).data
  const tabs = [
    { id: 'replicas', label: 'Replicas', count: replicas?.filter(({ state }) => state !== 'exited').length },
    { id: 'config', label: 'Configuration' },
    { id: 'scheduling', label: 'Scheduling' },
    { id: 'placement', label: 'Placement' },
    { id: 'files', label: 'Files', count: model.config.files.length },
  ]
  return (
    <Page title={model.name} sentence={sentence} actions={<Actions model={model} />}>
      {model.failure === null ? null : <ModelFailure model={model} failure={model.failure} />}
      <Tabs label="Model views" tabs={tabs} selected={tab} />
      <TabContent tab={tab} model={model} />
      {(act === 'unload' || act === 'delete') && <ModelActionSheet model={model} act={act} onClose={close} />}
      {isNodeModelAction(act) && node !== undefined && <NodeModelSheet model={model.name} node={node} act={act} />}
    </Page>
  )
}

function useSentence(model: ModelView): string {
  const replicas = useQuery(modelReplicasQuery(model.name)).data
  const buckets = useQuery(statsQuery).data
  const now = useNow()
  const progress = useLoadProgress(model)
  const own = buckets?.filter((bucket) => bucket.model === model.name)
  return modelSentence(model, { replicas, progress, perMinute: own && lastMinuteOf(own, now).requestsPerSecond * 60 })
}

function TabContent({ tab, model }: { readonly tab: string; readonly model: ModelView }) {
  switch (tab) {
    case 'config':
      return <ConfigTab model={model} />
    case 'scheduling':
      return <SchedulingTab model={model} />
    case 'placement':
      return <PlacementTab model={model} />
    case 'files':
      return <FilesTab model={model} />
    default:
      return <ReplicasTab model={model} />
  }
}

function Actions({ model }: { readonly model: ModelView }) {
  const navigate = route.useNavigate()
  const load = useModelAction('load')
  const open = (act: string) => () => void navigate({ search: (before) => ({ ...before, act }) })
  const isLoadable = model.state === 'unloaded' || model.state === 'failed'
  return (
    <>
      <div className="flex basis-full items-center self-center text-[13px] sm:min-w-28 sm:basis-auto sm:justify-end">
        <ModelStateMark model={{ ...model, failure: null }} progress={useLoadProgress(model)} />
      </div>
      {isLoadable ? (
        <Button look="primary" className="w-20" isBusy={load.isPending} onClick={() => load.mutate(model.name)}>
          Load
        </Button>
      ) : (
        <Button className="w-20" onClick={open('unload')}>
          Unload
        </Button>
      )}
      <Link to="/playground" search={{ model: model.name }} className={buttonClass()}>
        Playground
      </Link>
      <Button look="danger" onClick={open('delete')}>
        Delete
      </Button>
    </>
  )
}
