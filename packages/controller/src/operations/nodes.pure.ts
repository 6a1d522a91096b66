// The nodes of an operation: the choice at submission, and the status of the operation and of each node, for operations about
// backends and about models alike. The status is derived whenever it is read: from the intent or load that a node waits for, and
// from the node's own status. Pure.
import {
  type BackendName,
  canReceiveCommands,
  isHeldBack,
  isOpen,
  isSilent,
  matchesSelector,
  type NodeId,
  type NodeOutcome,
  type NodePresence,
  type OpenIntent,
  type OperationNode,
  type OperationNodeStatus,
  operationState,
  overdueMessage,
  pausedMessage,
  type OperationState,
  presenceOf,
  type Selector,
  viewOpenIntent,
} from '@muster/protocol'
import { effectiveLabels } from '../nodes/labels.ts'
import { statusOf } from '../nodes/view.ts'
import type { LoadBrief } from '../store/load-rows.ts'
import type { NodeRecord } from '../store/nodes.ts'
import type { JobRecord, NodeFactsRow, OperationNodeRecord, OperationRecord } from '../store/operations.ts'

export type NodeSelection = Readonly<{ nodes?: readonly NodeId[] | undefined; selector?: Selector | undefined }>

type Choice =
  | Readonly<{ kind: 'chosen'; nodes: readonly NodeRecord[] }>
  | Readonly<{ kind: 'unknown_node'; id: NodeId }>
  /** Named explicitly, and nothing can be installed there. */
  | Readonly<{ kind: 'not_eligible'; node: NodeRecord; reason: string }>

/** Approved nodes that are not agents. Others are left out silently unless named. */
export function chooseNodes(all: readonly NodeRecord[], { nodes, selector }: NodeSelection): Choice {
  if (nodes !== undefined) return chooseNamed(all, nodes)
  const eligible = all.filter((node) => whyNot(node) === null)
  return {
    kind: 'chosen',
    nodes: selector === undefined ? eligible : eligible.filter((node) => matchesSelector(selector, effectiveLabels(node))),
  }
}

function chooseNamed(all: readonly NodeRecord[], ids: readonly NodeId[]): Choice {
  const chosen: NodeRecord[] = []
  for (const id of new Set(ids)) {
    const node = all.find((each) => each.id === id)
    if (node === undefined) return { kind: 'unknown_node', id }
    const reason = whyNot(node)
    if (reason !== null) return { kind: 'not_eligible', node, reason }
    chosen.push(node)
  }
  return { kind: 'chosen', nodes: chosen }
}

const whyNot = (node: NodeRecord): string | null => {
  if (node.nodeType === 'agent') return 'it is an agent node, which has no backends'
  return node.approvedAt === null ? 'it is waiting for approval' : null
}

export const hasBackend = (node: NodeRecord, backend: BackendName): boolean => node.inventory.some(({ name }) => name === backend)

/**
 * A deletion is for every node that has the backend, has an intent for it, or is away: a node that returns later must not bring
 * it back.
 */
export function mayHave(nodes: readonly NodeRecord[], backend: BackendName, intentNodes: ReadonlySet<string>): NodeRecord[] {
  return nodes.filter((node) => hasBackend(node, backend) || intentNodes.has(node.id) || statusOf(node).status !== 'healthy')
}

export type NodeStatusView = Readonly<{
  status: OperationNodeStatus
  message: string
  nextRetryAt: number | null
  /** Null when it does not count: settled, the node was removed, or the operation is paused. */
  node: NodePresence | null
  flags: NodeFlags
}>

/** Fields of the API that are set only where they apply. */
export type NodeFlags = Pick<OperationNode, 'cancelling' | 'awaits_ring' | 'returning' | 'paused' | 'last_seen_at'>

/** `hasProgress`: progress of the current try was reported. */
export function statusOfNode(row: OperationNodeRecord, hasProgress: boolean): NodeStatusView {
  if (row.status === 'open') {
    const node = presenceOf(row.node)
    if (isHeldBack(openIntent(row), row.record.isPaused)) return viewPaused(row, node)
    const { status, message, nextRetryAt } = viewOpenIntent(openIntent(row), node, hasProgress)
    return {
      status,
      message: message === '' ? rolloutMessage(row) : message,
      nextRetryAt,
      node,
      flags: { ...intentFlags(row), ...lastSeen(row.node, node) },
    }
  }
  if (row.status !== 'shown') return { status: row.status, message: row.message, nextRetryAt: null, node: null, flags: {} }
  if (row.node === null) return { status: 'cancelled', message: 'node removed', nextRetryAt: null, node: null, flags: {} }
  const node = presenceOf(row.node)
  const flags = { ...(row.cancelRequested ? { cancelling: true } : {}), ...lastSeen(row.node, node) }
  if (row.shown === 'running_on_worker' && isSilent(node))
    return { status: row.shown, message: overdueMessage(node), nextRetryAt: null, node, flags }
  // An absent node shows that it is absent: the work continues when the node returns.
  if (row.shown !== 'running_on_worker' && !canReceiveCommands(node))
    return { status: 'queued', message: `node ${node.status}, will retry when healthy`, nextRetryAt: null, node, flags }
  return { status: row.shown, message: row.message, nextRetryAt: row.shown === 'error' ? row.nextRetryAt : null, node, flags }
}

type OpenNode = Extract<OperationNodeRecord, { status: 'open' }>

function viewPaused(row: OpenNode, node: NodePresence): NodeStatusView {
  const flags = { ...intentFlags(row), paused: true, ...lastSeen(row.node, node) }
  return { status: 'queued', message: pausedMessage(openIntent(row)), nextRetryAt: null, node: null, flags }
}

export function openIntent({ nodeId, record: { intent } }: OpenNode): OpenIntent {
  if (!isOpen(intent)) throw new Error(`the intent for ${intent.backend} on ${nodeId} is settled, its operation is not`)
  return intent
}

function intentFlags({ record: { intent, plan, awaitsRing } }: OpenNode): NodeFlags {
  return {
    ...(intent.cancelRequested ? { cancelling: true } : {}),
    ...(awaitsRing ? { awaits_ring: true } : {}),
    ...(plan.rollback === undefined ? {} : { returning: true }),
  }
}

const lastSeen = ({ lastSeenAt }: NodeFactsRow, node: NodePresence): NodeFlags =>
  lastSeenAt === null || canReceiveCommands(node) ? {} : { last_seen_at: lastSeenAt }

/** The stage of its rollout; empty without one. */
function rolloutMessage({ ring, record: { plan, awaitsRing } }: OpenNode): string {
  if (awaitsRing) return `waiting for ring ${ring ?? 1}`
  return plan.rollback === undefined ? '' : `returning to ${plan.version || (plan.digest ?? 'the previous version')}`
}

/**
 * An operation about a backend consists of its nodes; one about a model continues until it has an outcome, whatever its nodes
 * show.
 */
export function statusOfOperation(
  { kind, job, pausedAt }: Pick<OperationRecord, 'kind' | 'job' | 'pausedAt'>,
  nodes: readonly NodeOutcome[],
): OperationState {
  const ofNodes = operationState(nodes)
  if (job === null) return ofNodes
  const isBackground = ofNodes === 'background' || isIdle(kind, job) || (pausedAt !== null && !isFetching(job))
  return job.outcome ?? (isBackground ? 'background' : 'running')
}

/** A node fetches the files of the model. */
export const isFetching = ({ loads }: JobRecord): boolean =>
  loads.some(({ purpose, pin, state }) => purpose === 'stage' && pin === null && (state === 'starting' || state === 'installing'))

/** Nothing is in progress now: everything that failed waits for its next attempt. */
function isIdle(kind: OperationRecord['kind'], { replicas, loads }: JobRecord): boolean {
  const of = (purpose: LoadBrief['purpose']): LoadBrief[] => loads.filter((load) => load.purpose === purpose)
  if (kind === 'model.install') return of('stage').some(({ state, pin }) => state === 'failed' && pin === null)
  if (kind !== 'model.load') return false
  const serve = of('serve')
  const isUnderWay = ({ state, nodeId }: LoadBrief): boolean => state === 'waiting' || (state !== 'ready' && nodeId !== null)
  return serve.length >= replicas && !serve.some(isUnderWay)
}
