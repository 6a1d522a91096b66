// Status of a model's loads for requests that wait for it: `ensure` starts a load, `status` reads its progress. Concurrent
// requests for one model share a query.
import {
  type BackendName,
  type Load,
  type LoadFailure,
  type Loading,
  ModelName,
  type ModelState,
  type NodeId,
  type OperationId,
  unreachable,
} from '@muster/protocol'
import type { ColdLoads, LoadStatus } from '../inference/cold-models.ts'
import type { LoadRecord } from '../store/load-rows.ts'
import type { LoadStore } from '../store/loads.ts'
import type { NodeStore } from '../store/nodes.ts'
import type { ReplicaStore } from '../store/replicas.ts'

export type Bytes = Readonly<{ current: number; total: number }>

export interface StatusDeps {
  readonly loads: Pick<LoadStore, 'listOfModel' | 'model'>
  readonly replicas: Pick<ReplicaStore, 'isServing'>
  readonly nodes: Pick<NodeStore, 'find'>
  /** The latest progress of a load, before it is stored. */
  readonly latestProgress: (nodeId: NodeId, opId: OperationId, since: number) => Bytes | null
  /** Progress of the install that a load waits for. */
  readonly installBytes: (nodeId: NodeId, backend: BackendName) => Promise<Bytes | null>
}
export interface LoadStatuses {
  of(model: ModelName): Promise<LoadStatus | null>
}

export function createLoadStatuses(deps: StatusDeps): LoadStatuses {
  return {
    async of(model) {
      if (await deps.replicas.isServing(model)) return { kind: 'ready' }
      const { rows } = await deps.loads.listOfModel(model)
      const furthest = furthestOf(rows)
      if (furthest === null) return (await deps.loads.model(model)) === null ? unknown(model) : null
      const { load } = furthest
      if (load.state !== 'failed') return { kind: 'loading', loading: await loadingOf(furthest, deps) }
      if (load.failure.code === 'no_capacity') return { kind: 'no_capacity', message: load.failure.message }
      return { kind: 'failed', failure: failureView(load) }
    },
  }
}

/** S4.10: a model that does not exist is not loaded. */
const unknown = (model: ModelName): LoadStatus => ({
  kind: 'failed',
  failure: {
    code: 'not_found',
    message: `no load info: there is no model ${model}; create it first`,
    ...{ at: '', next_retry_at: null, attempts: 0 },
  },
})

const ranks: readonly Load['state'][] = ['starting', 'installing', 'waiting', 'ready', 'failed']

/** The load that will serve first. */
function furthestOf(rows: readonly LoadRecord[]): LoadRecord | null {
  const serving = rows.filter(({ load }) => load.purpose === 'serve')
  return serving.toSorted((a, b) => ranks.indexOf(a.load.state) - ranks.indexOf(b.load.state))[0] ?? null
}

function failureView({ failure, failedAt, nextAt, attempts }: Extract<Load, { state: 'failed' }>): LoadFailure {
  return {
    code: failure.code,
    message: failure.message,
    at: new Date(failedAt).toISOString(),
    next_retry_at: nextAt === null ? null : new Date(nextAt).toISOString(),
    attempts,
  }
}

/** State of a model whose furthest load this is. */
function modelStateOf({ load, bytes }: LoadRecord): ModelState {
  switch (load.state) {
    case 'waiting':
      return 'pending'
    case 'installing':
      return 'installing'
    case 'starting':
      return bytes.phase === 'starting' ? 'loading' : 'staging'
    case 'ready':
      // Its node is absent; otherwise its replica would serve.
      return 'pending'
    case 'failed':
      return 'failed'
    default:
      return unreachable(load)
  }
}

async function loadingOf(record: LoadRecord, deps: StatusDeps): Promise<Loading> {
  const { load } = record
  const nodeId = 'nodeId' in load ? load.nodeId : null
  const node = nodeId === null ? null : await deps.nodes.find(nodeId)
  const { current, total } = await bytesOf(record, deps)
  return {
    model: load.model,
    state: modelStateOf(record),
    node: node?.name ?? null,
    progress: total > 0 ? Math.min(100, Math.floor((current / total) * 1000) / 10) : 0,
    current_bytes: current,
    total_bytes: total,
  }
}

async function bytesOf({ load, bytes }: LoadRecord, deps: StatusDeps): Promise<Bytes> {
  if (load.state === 'starting') return deps.latestProgress(load.nodeId, load.opId, load.epoch) ?? bytes
  if (load.state !== 'installing') return { current: 0, total: 0 }
  const model = await deps.loads.model(load.model)
  return (model === null ? null : await deps.installBytes(load.nodeId, model.backend)) ?? { current: 0, total: 0 }
}

interface ColdLoadsDeps {
  readonly loads: Pick<LoadStore, 'ensure'>
  readonly statuses: LoadStatuses
  readonly wake: () => void
}

export function createColdLoads({ loads, statuses, wake }: ColdLoadsDeps): ColdLoads {
  const running = new Map<string, Promise<LoadStatus>>()
  const status = async (model: string): Promise<LoadStatus> => (await statuses.of(ModelName.parse(model))) ?? pending(model)
  const ensureOnce = async (model: string): Promise<LoadStatus> => {
    // A failed load whose next try is not due is not hurried.
    if (await loads.ensure(ModelName.parse(model))) wake()
    return await status(model)
  }
  return {
    ensure(model) {
      const shared = running.get(model)
      if (shared !== undefined) return shared
      const own = ensureOnce(model).finally(() => running.delete(model))
      running.set(model, own)
      return own
    },
    status,
  }
}

/** There is no load: the model was unloaded, or its load is about to be added. */
const pending = (model: string): LoadStatus => ({
  kind: 'loading',
  loading: { model, state: 'pending', node: null, progress: 0, current_bytes: 0, total_bytes: 0 },
})
