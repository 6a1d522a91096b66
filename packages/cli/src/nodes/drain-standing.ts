// Pure: how far the draining of a node is, and what is to be said of it.
import type { ModelView, NodeView, ReplicaView } from '@muster/protocol'

export interface DrainSnapshot {
  readonly node: NodeView
  /** What runs there still. */
  readonly replicas: readonly ReplicaView[]
  /** By name; models that are gone meanwhile are not among them. */
  readonly models: ReadonlyMap<string, ModelView>
}

/** `waiting`: nothing moves until something changes elsewhere. */
export type DrainState = 'running' | 'waiting' | 'drained' | 'resumed'

export interface DrainStatus {
  readonly state: DrainState
  /** Said when it is another one than before. */
  readonly line: string
  /** What waits, and for what. */
  readonly reasons: readonly string[]
}

export function drainStatus({ node, replicas, models }: DrainSnapshot): DrainStatus {
  const standing = (state: DrainState, what: string, reasons: readonly string[] = []): DrainStatus => ({
    state,
    line: `${node.name}: ${what}`,
    reasons,
  })
  if (!node.draining) return standing('resumed', 'it is not draining any more')
  if (replicas.length === 0) return standing('drained', 'no replica is left')
  const left = `${replicas.length} ${replicas.length === 1 ? 'replica' : 'replicas'} left: ${replicas.map(textOf).join(', ')}`
  if (node.status !== 'draining')
    return standing('waiting', left, [`${node.name} is ${node.status} (${node.status_reason}): what runs there ends when it is back`])
  const waits = replicas.map((replica) => waitReason(replica, models.get(replica.model)))
  const reasons = [...new Set(waits.filter((reason) => reason !== null))]
  return standing(waits.includes(null) ? 'running' : 'waiting', left, reasons)
}

const textOf = ({ model, state, in_flight: active }: ReplicaView): string =>
  `${model} (${state}${active === 0 ? '' : `, ${active} ${active === 1 ? 'request' : 'requests'}`})`

/** One that serves on because there is no other place; null: it is on its way. */
function waitReason({ model, state }: ReplicaView, view: ModelView | undefined): string | null {
  if (state !== 'ready' || view === undefined || view.failure === null) return null
  return `${model} serves on until it has another place: ${view.failure.message}`
}
