// A model as the API shows it. Its state is never stored: it follows from its loads and replicas. Pure.
import { type LoadFailure, type Loading, matchesSelector, type ModelState, type ModelView, type Scheduling } from '@muster/protocol'
import { effectiveLabels } from '../nodes/labels.ts'
import { statusOf } from '../nodes/view.ts'
import type { LoadBrief } from '../store/load-rows.ts'
import type { ModelRecord, ModelStore } from '../store/models.ts'
import type { NodeRecord, NodeStore } from '../store/nodes.ts'
import { desiredReplicas } from './desired.pure.ts'

/** `matching`: nodes that it may run on now. */
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

/** The furthest that anything of it has come. */
const ranks: readonly ModelState[] = ['loading', 'staging', 'installing', 'pending', 'failed']

export function stateOf({ ready, loads }: Pick<ModelRecord, 'ready' | 'loads'>): ModelState {
  if (ready > 0) return 'ready'
  const states = new Set(loads.map(stateOfLoad))
  return ranks.find((rank) => states.has(rank)) ?? 'unloaded'
}

function stateOfLoad({ state, purpose, phase }: LoadBrief): ModelState {
  if (state === 'waiting') return 'pending'
  if (state === 'installing') return 'installing'
  if (state === 'starting') return phase === 'starting' ? 'loading' : 'staging'
  // That files are staged, or could not be, is told by the operation; nothing was to be served.
  if (purpose === 'stage') return 'unloaded'
  // Ready, and no replica that can be reached: its slot is to be filled again.
  return state === 'failed' ? 'failed' : 'pending'
}

function failureOf({ loads }: Pick<ModelRecord, 'loads'>): LoadFailure | null {
  const failed = loads.find(({ state, purpose }) => state === 'failed' && purpose === 'serve')
  if (failed?.failure === undefined || failed.failure === null) return null
  const { code, message } = failed.failure
  return { code, message, at: failed.failedAt ?? '', next_retry_at: failed.nextAt, attempts: failed.attempts }
}

/** How far it is with coming up: the load that is furthest says it. */
export function loadingOf(model: Pick<ModelRecord, 'name' | 'ready' | 'loads'>): Loading & { failure: LoadFailure | null } {
  const state = stateOf(model)
  const load = state === 'ready' ? undefined : model.loads.find((each) => stateOfLoad(each) === state)
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

/** Fetched is not ready yet: 100 is for a model that serves. */
const percentageOf = (current: number, total: number): number =>
  total === 0 ? 0 : Math.min(99, Math.floor((Math.min(current, total) / total) * 1000) / 10)

// Models as the API and the event stream show them, with the nodes that they could run on.

export type ShowModels = (models: readonly ModelRecord[]) => Promise<ModelView[]>

export function createShowModels({ nodes, models }: { nodes: Pick<NodeStore, 'list'>; models: Pick<ModelStore, 'listByNames'> }) {
  const show: ShowModels = async (found) => {
    // Only `replicas: all` asks how many nodes there are.
    const isAsked = found.some(({ config }) => config.scheduling.replicas === 'all')
    const all = isAsked ? await nodes.list() : []
    return found.map((model) => viewModel(model, all.filter((node) => mayRunOn(node, model.config.scheduling)).length))
  }
  return {
    show,
    /** For the event stream. */
    read: async (names: readonly string[]): Promise<Map<string, ModelView>> =>
      new Map((await show(await models.listByNames(names))).map((model) => [model.name, model])),
  }
}

/** For `replicas: all`: it gets one there. */
export function mayRunOn(node: NodeRecord, { node_selector: selector }: Scheduling): boolean {
  if (node.nodeType === 'agent' || statusOf(node).status !== 'healthy') return false
  return selector === undefined || matchesSelector(selector, effectiveLabels(node))
}
