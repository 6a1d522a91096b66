// The status of an operation. Nothing is stored for an unsettled node: its status is derived from its intent and from the
// node's status, so it follows a node that falls silent or returns.
import { unreachable } from '../failure.ts'
import type { OperationNodeStatus, OperationState } from '../http/operations.ts'
import type { NodeStatus } from '../ids.ts'
import type { OpenIntent } from './intent.ts'
import { nodeStatus, type NodeFacts } from './node.ts'

/** `isAnswering` false: unhealthy only because nothing listened for a command; it reports. */
export type NodePresence = Readonly<{ status: NodeStatus; isAnswering: boolean; lastSeenAt: string | null }>

export const presenceOf = (facts: NodeFacts): NodePresence => ({
  status: nodeStatus(facts).status,
  isAnswering: facts.liveness !== 'present' || facts.answering === 'yes',
  lastSeenAt: facts.lastSeenAt,
})

export type OpenNodeView = Readonly<{
  status: 'queued' | 'downloading' | 'running_on_worker' | 'error'
  message: string
  nextRetryAt: number | null
}>

export const stillInstallingMessage = 'worker still installing in background'

/** `hasProgress`: progress of this try was reported. */
export function viewOpenIntent(intent: OpenIntent, node: NodePresence, hasProgress: boolean): OpenNodeView {
  const shown: OpenNodeView = intent.isOverdue
    ? { status: 'running_on_worker', message: overdueMessage(node), nextRetryAt: null }
    : shownOf(intent, node, hasProgress)
  return intent.cancelRequested ? { ...shown, message: 'cancelling' } : shown
}

/** Its operations are paused, and no attempt runs that could finish. */
export const isHeldBack = (intent: OpenIntent, isPaused: boolean): boolean =>
  isPaused && intent.state === 'waiting' && !intent.cancelRequested && !intent.isOverdue

export const pausedMessage = ({ lastFailure }: OpenIntent): string =>
  lastFailure === null ? 'paused' : `paused; the last attempt failed: ${lastFailure.message}`

/** A node that is not heard may have finished, failed or stopped. */
export const overdueMessage = (node: NodePresence): string =>
  isSilent(node)
    ? `node ${node.status}, ${node.lastSeenAt === null ? 'never heard' : `last heard ${node.lastSeenAt}`}; result unknown`
    : stillInstallingMessage

function shownOf(intent: OpenIntent, node: NodePresence, hasProgress: boolean): OpenNodeView {
  switch (intent.state) {
    case 'waiting': {
      if (!canReceiveCommands(node)) return away(node)
      const { lastFailure, nextAt } = intent
      if (lastFailure !== null) return { status: 'error', message: lastFailure.message, nextRetryAt: nextAt }
      return { status: 'queued', message: intent.wasSent ? 'sent; no reply, sending again' : '', nextRetryAt: null }
    }
    case 'sending':
      if (isSilent(node)) return away(node)
      // Progress may arrive before the reply.
      return { status: hasProgress ? 'downloading' : 'queued', message: '', nextRetryAt: null }
    case 'working': {
      if (isSilent(node)) return away(node)
      const isAccepted = intent.wait.for === 'result' || hasProgress
      return { status: isAccepted ? 'downloading' : 'queued', message: '', nextRetryAt: null }
    }
    default:
      return unreachable(intent)
  }
}

const away = ({ status }: NodePresence): OpenNodeView => ({
  status: 'queued',
  message: `node ${status}, will retry when healthy`,
  nextRetryAt: null,
})

/** Due attempts are sent to the node: it is healthy, or the attempt is the probe. */
export const canReceiveCommands = ({ status, isAnswering }: NodePresence): boolean =>
  status === 'healthy' || (status === 'unhealthy' && !isAnswering)

export const isSilent = ({ status, isAnswering }: NodePresence): boolean => status === 'offline' || (status === 'unhealthy' && isAnswering)

export type NodeOutcome = Readonly<{ status: OperationNodeStatus; nextRetryAt: number | null; node: NodePresence | null }>

export const isSettled = ({ status, nextRetryAt }: Pick<NodeOutcome, 'status' | 'nextRetryAt'>): boolean =>
  status === 'success' || status === 'skipped' || status === 'cancelled' || (status === 'error' && nextRetryAt === null)

export function operationState(rows: readonly NodeOutcome[]): OperationState {
  const open = rows.filter((row) => !isSettled(row))
  if (open.some(isWorkedOn)) return 'running'
  if (open.length > 0) return 'background'
  const has = (status: OperationNodeStatus): boolean => rows.some((row) => row.status === status)
  if (has('error')) return 'failed'
  if (has('success')) return 'succeeded'
  return has('cancelled') ? 'cancelled' : 'failed'
}

const isWorkedOn = ({ status, node }: NodeOutcome): boolean =>
  status === 'downloading' || (status === 'queued' && node !== null && canReceiveCommands(node))
