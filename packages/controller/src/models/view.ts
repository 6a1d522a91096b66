// The API view of a model. Its state is not stored, but derived from its loads and replicas. Pure.
import type { LoadFailure, Loading, ModelState, ModelView } from '@muster/protocol'
import { mayRunOn } from '../nodes/view.ts'
import type { LoadBrief } from '../store/load-rows.ts'
import type { ModelRecord, ModelStore } from '../store/models.ts'
import type { NodeStore } from '../store/nodes.ts'
import { desiredReplicas } from '../loads/replica-set.pure.ts'

/** `matching`: the number of eligible nodes. */
export function viewModel(model: ModelRecord, matching: number): ModelView {
  const { name, backend, revision, config } = model
  return {
    name,
    backend,
    revision,
    config,
    state: stateOf(model),
    replicas_ready: model.ready,
    replicas_desired: desiredReplicas({ ...model, scheduling: config.scheduling }, matching),
    failure: failureOf(model),
  }
}

/** From the most advanced state of a load to the least. */
const ranks: readonly ModelState[] = ['loading', 'staging', 'installing', 'pending', 'failed']

export function stateOf({ ready, loads, isUnloaded }: Pick<ModelRecord, 'ready' | 'loads' | 'isUnloaded'>): ModelState {
  if (ready > 0) return 'ready'
  const states = new Set(loads.filter((load) => !isPrefetch(load) && (!isUnloaded || isAtWork(load))).map(stateOfLoad))
  return ranks.find((rank) => states.has(rank)) ?? 'unloaded'
}

/** Loads of an unloaded model that wait for nothing but their removal do not count. */
const isAtWork = ({ state, purpose }: LoadBrief): boolean => purpose === 'stage' || state === 'installing' || state === 'starting'

/** Its operation shows a prefetch; the state of the model does not depend on it. */
const isPrefetch = ({ purpose, pin }: LoadBrief): boolean => purpose === 'stage' && pin !== null

function stateOfLoad({ state, purpose, phase }: LoadBrief): ModelState {
  if (state === 'waiting') return 'pending'
  if (state === 'installing') return 'installing'
  if (state === 'starting') return phase === 'starting' ? 'loading' : 'staging'
  // The operation shows the outcome of staging; the model itself stays unloaded.
  if (purpose === 'stage') return 'unloaded'
  // Ready, but its replica is unreachable: it will be replaced.
  return state === 'failed' ? 'failed' : 'pending'
}

function failureOf({ loads }: Pick<ModelRecord, 'loads'>): LoadFailure | null {
  const failed = loads.find(({ state, purpose }) => state === 'failed' && purpose === 'serve')
  if (failed?.failure === undefined || failed.failure === null) return null
  const { code, message } = failed.failure
  return { code, message, at: failed.failedAt ?? '', next_retry_at: failed.nextAt, attempts: failed.attempts }
}

/** Progress of the most advanced load. */
export function loadingOf(model: Pick<ModelRecord, 'name' | 'ready' | 'loads' | 'isUnloaded'>): Loading & { failure: LoadFailure | null } {
  const state = stateOf(model)
  const load = state === 'ready' ? undefined : model.loads.find((each) => !isPrefetch(each) && stateOfLoad(each) === state)
  const { currentBytes: current_bytes = 0, totalBytes: total_bytes = 0 } = load ?? {}
  return {
    model: model.name,
    state,
    node: load?.nodeName ?? null,
    progress: state === 'ready' ? 100 : percentageOf(current_bytes, total_bytes),
    current_bytes,
    total_bytes,
    failure: failureOf(model),
  }
}

/** 100% is reached only when the model serves. */
const percentageOf = (current: number, total: number): number =>
  total === 0 ? 0 : Math.min(99, Math.floor((Math.min(current, total) / total) * 1000) / 10)

// Views of models for the API and the event stream, with the number of eligible nodes.

export type ShowModels = (models: readonly ModelRecord[]) => Promise<ModelView[]>

export function createShowModels({ nodes, models }: { nodes: Pick<NodeStore, 'list'>; models: Pick<ModelStore, 'listByNames'> }) {
  const show: ShowModels = async (found) => {
    const count = await createMatchCount(
      nodes,
      found.map(({ config }) => config),
    )
    return found.map((model) => viewModel(model, count(model.config)))
  }
  return {
    show,
    /** For the event stream. */
    read: async (names: readonly string[]): Promise<Map<string, ModelView>> =>
      new Map((await show(await models.listByNames(names))).map((model) => [model.name, model])),
  }
}

type PlacedModel = Parameters<typeof mayRunOn>[1]

/** Counts the nodes that these models may run on. Only `replicas: all` depends on that, so others read no nodes. */
export async function createMatchCount(
  nodes: Pick<NodeStore, 'list'>,
  models: readonly PlacedModel[],
): Promise<(model: PlacedModel) => number> {
  const all = models.some(({ scheduling }) => scheduling.replicas === 'all') ? await nodes.list() : []
  return (model) => all.filter((node) => mayRunOn(node, model)).length
}
