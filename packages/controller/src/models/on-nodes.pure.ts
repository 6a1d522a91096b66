// Decides about a model on chosen nodes: the demand of a load on one node, and the nodes of a prefetch. Pure.
import { findMismatchedLabel, matchesSelector, type NodeId, type Scheduling, type Selector } from '@muster/protocol'
import { desiredReplicas, limitsOf } from '../loads/replica-set.pure.ts'
import { effectiveLabels } from '../nodes/labels.ts'
import type { NodeLoadDecision, NodeLoadFacts, PrefetchNode } from '../store/node-models.ts'
import type { NodeRecord } from '../store/nodes.ts'

/**
 * In this order: nothing is added where a load is; a load that failed elsewhere, or found no node, gets this one; a replica is
 * added while the model may have more; a load that waits for a node gets this one.
 */
export function decideNodeLoad(facts: NodeLoadFacts, nodeId: NodeId): NodeLoadDecision {
  const { scheduling, requestedReplicas, isUnloaded } = facts
  // The loads of an unloaded model are about to be removed.
  const loads = isUnloaded ? [] : facts.loads.filter(({ purpose }) => purpose === 'serve')
  const isUnplaced = (load: (typeof loads)[number]): boolean => load.state === 'waiting' || load.state === 'failed'
  if (loads.some((load) => (isUnplaced(load) ? load.pin : load.nodeId) === nodeId)) return { do: 'hurry' }
  const free = (state: 'failed' | 'waiting') => loads.find((load) => load.state === state && load.pin === null)
  const failed = free('failed')
  if (failed !== undefined) return { do: 'repin', ordinal: failed.ordinal }
  const isEverywhere = scheduling.replicas === 'all'
  const { max } = isEverywhere ? { max: Infinity } : limitsOf(scheduling)
  // More loads than desired are replacements, which end.
  const desired = isEverywhere ? Infinity : desiredReplicas({ scheduling, requestedReplicas, isUnloaded: false }, 0)
  const wanted = Math.min(loads.length, desired) + 1
  if (wanted <= max) return { do: 'add', requestedReplicas: wanted }
  const waiting = free('waiting')
  return waiting === undefined ? { do: 'refuse', max } : { do: 'repin', ordinal: waiting.ordinal }
}

export type PrefetchSelection = Readonly<{ nodes?: readonly NodeId[] | undefined; selector?: Selector | undefined }>

export type PrefetchChoice =
  | Readonly<{ kind: 'chosen'; nodes: readonly PrefetchNode[] }>
  | Readonly<{ kind: 'unknown_node'; id: NodeId }>
  | Readonly<{ kind: 'not_eligible'; name: string; reason: string }>
  | Readonly<{ kind: 'none'; message: string }>

/** Named nodes, selected ones, or all that the model may run on. A node that cannot run the model is skipped with the reason. */
export function choosePrefetchNodes(
  all: readonly NodeRecord[],
  { nodes: ids, selector }: PrefetchSelection,
  scheduling: Scheduling,
): PrefetchChoice {
  const named: NodeRecord[] = []
  for (const id of new Set(ids)) {
    const node = all.find((each) => each.id === id)
    if (node === undefined) return { kind: 'unknown_node', id }
    const reason = whyNever(node)
    if (reason !== null) return { kind: 'not_eligible', name: node.name, reason }
    named.push(node)
  }
  const others = all.filter((node) => whyNever(node) === null && matchesSelector(selector ?? {}, effectiveLabels(node)))
  const chosen = (ids === undefined ? others : named).map((node) => ({ id: node.id, name: node.name, skip: whySkip(node, scheduling) }))
  // Without a choice the model's own selector is the choice, so there is nothing to explain.
  const nodes = ids === undefined && selector === undefined ? chosen.filter(({ skip }) => skip === null) : chosen
  if (nodes.some(({ skip }) => skip === null)) return { kind: 'chosen', nodes }
  const [first] = nodes
  const reason = first?.skip ?? null
  return {
    kind: 'none',
    message:
      reason === null
        ? 'no node matches that can have model files: approve one, or let one join'
        : `no node can take the files: ${first?.name ?? ''}: ${reason}`,
  }
}

function whyNever({ nodeType, approvedAt, features }: NodeRecord): string | null {
  if (nodeType === 'agent') return 'it is an agent node, which runs no models'
  if (approvedAt === null) return 'it is waiting for approval'
  return features.includes('async') ? null : 'its worker is too old to run models'
}

function whySkip(node: NodeRecord, { node_selector: selector }: Scheduling): string | null {
  const key = selector === undefined ? null : findMismatchedLabel(selector, effectiveLabels(node))
  return key === null ? null : `its label ${key} does not match the node selector of the model`
}
