// Decides about the nodes of an operation: attaches to the open intent of a node or takes it over, assigns rings, and derives
// the end of a node from its intent. Pure.
import { z } from 'zod'
import { type Intent, type IntentKind, isOpen, type OperationId, unreachable } from '@muster/protocol'
import type { Plan } from './intent-rows.ts'

export type RequestedIntent = Readonly<{ kind: IntentKind; plan: Plan }>

export type SubmissionDecision =
  /** A new intent replaces the existing one. */
  | 'take_over'
  /** The same intent is open already: both operations show it. If it waits, it is sent at once. */
  | 'attach'

/** `isProving`: the intent is applied, and its replicas are still moved and watched. */
type ExistingIntent = Readonly<{ intent: Intent; plan: Plan; isProving: boolean }>

export function decideSubmission(requested: RequestedIntent, existing: ExistingIntent | null): SubmissionDecision {
  if (existing === null || !(isOpen(existing.intent) || existing.isProving) || existing.intent.cancelRequested) return 'take_over'
  return existing.intent.kind === requested.kind && isSamePlan(requested, existing.plan) ? 'attach' : 'take_over'
}

function isSamePlan({ kind, plan }: RequestedIntent, other: Plan): boolean {
  if (kind === 'delete') return true
  return plan.digest === other.digest && (plan.digest !== null || plan.uri === other.uri) && plan.exact === other.exact
}

/** Enough for every superseded intent that a worker may still work on: a newer command cancels most of them there. */
const maxReplaced = 8

/** Operations that the worker may still work on when a new intent of the operation `by` takes the place of this one. */
export function replacedBy(intent: Intent | undefined, by: OperationId): OperationId[] {
  if (intent === undefined || !isOpen(intent)) return []
  const mayRun = intent.state !== 'waiting' || intent.wasSent
  return [...intent.replaced, ...(mayRun && intent.opId !== by ? [intent.opId] : [])].slice(-maxReplaced)
}

export type NodeEnd = Readonly<
  { status: 'success' | 'cancelled'; error: null; errorCode: null } | { status: 'error'; error: string; errorCode: string }
>

/** Null while the intent is open. An applied rollback is not a success. */
export function nodeEndOf(intent: Intent, { rollback }: Pick<Plan, 'rollback'>): NodeEnd | null {
  switch (intent.state) {
    case 'waiting':
    case 'sending':
    case 'working':
      return null
    case 'failed':
    case 'dead': {
      const { code, message } = intent.lastFailure ?? { code: 'internal', message: '' }
      const error = rollback === undefined ? message : `the rollback failed: ${message}`
      return { status: 'error', error, errorCode: code }
    }
    case 'applied':
      return rollback === undefined
        ? { status: 'success', error: null, errorCode: null }
        : { status: 'error', error: rollback.error, errorCode: 'rolled_back' }
    case 'cancelled':
      return { status: 'cancelled', error: null, errorCode: null }
    default:
      return unreachable(intent)
  }
}

/** Shown while the replicas of a node in a ring are moved to the version that was applied. */
export const provingMessage = ({ rollback }: Pick<Plan, 'rollback'>): string =>
  rollback === undefined ? 'installed; moving its replicas' : 'previous version restored; moving replicas back'

export const RolloutSpec = z.object({
  /** Number of nodes in the first ring. */
  canary: z.number().int().min(1),
  maxParallel: z.number().int().min(1),
  /** How long all upgraded nodes have to be healthy before the next ring. */
  minHealthyMs: z.number().min(0),
})
export type RolloutSpec = z.infer<typeof RolloutSpec>

export type RingNode = Readonly<{
  nodeId: string
  nodeName: string
  /** Replicas of the backend run there. */
  hasReplicas: boolean
  isReachable: boolean
  /** The upgrade changes the version on this node. */
  isChanged: boolean
}>

/** The ring of each node that runs the backend. Absent nodes join the last ring; if all are absent, there are no rings. */
export function ringsOf(nodes: readonly RingNode[], { canary, maxParallel }: Pick<RolloutSpec, 'canary' | 'maxParallel'>) {
  const concerned = nodes.filter((node) => node.hasReplicas && node.isChanged).toSorted(byName)
  const here = concerned.filter((node) => node.isReachable)
  const rings = new Map<string, number>()
  for (const [index, { nodeId }] of here.entries()) {
    rings.set(nodeId, index < canary ? 1 : 2 + Math.floor((index - canary) / maxParallel))
  }
  const last = Math.max(0, ...rings.values())
  if (last > 0) for (const { nodeId, isReachable } of concerned) if (!isReachable) rings.set(nodeId, last)
  return rings
}

const byName = (a: RingNode, b: RingNode): number => compare(a.nodeName, b.nodeName) || compare(a.nodeId, b.nodeId)
const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0)
