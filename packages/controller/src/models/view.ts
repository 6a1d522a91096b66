// A model as the API shows it. Its state is never stored: it follows from its loads and replicas. Pure.
import type { LoadFailure, Loading, ModelState, ModelView } from '@muster/protocol'
import type { LoadBrief } from '../store/load-brief.ts'
import type { ModelRecord } from '../store/models.ts'
import { desiredReplicas } from './desired.ts'

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

/** What is fetched is not ready yet: 100 is for what serves. */
const percentageOf = (current: number, total: number): number =>
  total === 0 ? 0 : Math.min(99, Math.floor((Math.min(current, total) / total) * 1000) / 10)
