// The durable demand for one backend on one node, and its state. One row per (node, backend); a newer intent takes the row
// over with a new generation (store/submissions), everything else is a step here. Owners of the transitions:
//   waiting    a submission, a retry, an attempt that failed or whose fate is unknown     → sending (the reconciler's claim)
//   sending    the controller that claimed it, until its lease ends                     → working, waiting, or an end
//   working    the worker; controllers receive, poll, and mark it overdue               → waiting, or an end
//   applied, failed, dead, cancelled   ends; only a newer intent or an administrator's retry reopens the row
// An epoch names one attempt: it grows with every claim and is part of the command; reports of an older epoch settle nothing.
// A timeout means *unknown* and does not count as a failed attempt.
import { unreachable, type Failure } from '../failure.ts'
import type { BackendName, NodeId, OperationId } from '../ids.ts'
import { backoffMs, type RetryPolicy } from '../backoff.ts'

export type IntentKind = 'install' | 'upgrade' | 'delete'

type Common = Readonly<{
  nodeId: NodeId
  backend: BackendName
  kind: IntentKind
  generation: number
  epoch: number
  /** The operation whose id the command carries. */
  opId: OperationId
  /** Operations of superseded intents that the worker may still work on: a cancel has to reach them too. */
  replaced: readonly OperationId[]
  /** Failure replies, no responders and stalls. */
  attempts: number
  lastFailure: Failure | null
  /** This attempt, or the one that it continues, exceeds its timeout. Only shown. */
  isOverdue: boolean
  /** An administrator cancelled it: no further attempt, and the worker is sent a cancel command. */
  cancelRequested: boolean
  /**
   * An upgrade that keeps the old version until the new one is installed, but may delete it first when the disk is too small for
   * both.
   */
  mayRecreate: boolean
}>

/** Times are milliseconds of the database's clock. */
export type Intent = Common &
  (
    | Readonly<{ state: 'waiting'; nextAt: number; /** The worker may have received it. */ wasSent: boolean }>
    | Readonly<{ state: 'sending'; holder: string; leaseUntil: number }>
    | Readonly<{
        state: 'working'
        acceptedAt: number
        /** The last time progress was seen. */
        signAt: number
        wait: AwaitedResult
      }>
    | Readonly<{ state: 'applied' | 'failed' | 'dead' | 'cancelled'; finishedAt: number; note: string }>
  )

/** How the result is received. */
export type AwaitedResult =
  /** From the worker, as an event or by polling. */
  | Readonly<{ for: 'result' }>
  /** From the reply to a request that is held open (a worker without `async`). */
  | Readonly<{ for: 'reply'; holder: string; leaseUntil: number }>
  /** The request timed out, or its holder is gone: it is sent again at this time. */
  | Readonly<{ for: 'another_try'; nextAt: number }>

export type OpenState = 'waiting' | 'sending' | 'working'
export type OpenIntent = Extract<Intent, { state: OpenState }>

export type IntentEvent =
  | Readonly<{ type: 'claimed'; holder: string; leaseUntil: number }>
  /** The worker accepted it. */
  | Readonly<{ type: 'accepted' }>
  /** It was sent to a worker that replies only at the end. */
  | Readonly<{ type: 'request_opened'; holder: string; leaseUntil: number }>
  /** Sent, and neither accepted nor refused: unknown. */
  | Readonly<{ type: 'unheard'; againInMs: number }>
  /** The controller that held the lease is gone. */
  | Readonly<{ type: 'lease_lost' }>
  | Readonly<{ type: 'moved' }>
  | Readonly<{ type: 'overdue'; againInMs: number }>
  /** The worker does not know it (any more). */
  | Readonly<{ type: 'unknown_to_worker'; againInMs: number }>
  | Readonly<{ type: 'succeeded'; note: string }>
  /**
   * `epoch`: the failed attempt; null when the worker does not report it. `mayRun`: it was given up, and may still run on the
   * worker.
   */
  | Readonly<{ type: 'failed'; failure: Failure; epoch: number | null; mayRun?: boolean }>
  | Readonly<{ type: 'cancelled_on_worker'; failure: Failure; epoch: number | null }>
  | Readonly<{ type: 'cancel_requested' }>
  /** An administrator does not want to wait for the next attempt. */
  | Readonly<{ type: 'hurried' }>
  /** It cannot be carried out on its node any more; the worker is not involved. */
  | Readonly<{ type: 'withdrawn'; note: string }>

export type StepFacts = Readonly<{ now: number; retry: RetryPolicy; /** In [0, 1). */ chance: number }>

export const isOpen = (intent: Intent): intent is OpenIntent =>
  intent.state === 'waiting' || intent.state === 'sending' || intent.state === 'working'

/** Null: not legal in this state, or about an older attempt; the caller drops it. */
export function stepIntent(intent: Intent, event: IntentEvent, facts: StepFacts): Intent | null {
  if (!isOpen(intent)) return null
  const common = commonOf(intent)
  switch (event.type) {
    case 'claimed':
      return isDue(intent, facts.now) ? { ...common, epoch: common.epoch + 1, ...leased(event) } : null
    case 'accepted':
      return intent.state === 'sending' ? working(common, { for: 'result' }, facts) : null
    case 'request_opened':
      return intent.state === 'sending'
        ? working(common, { for: 'reply', holder: event.holder, leaseUntil: event.leaseUntil }, facts)
        : null
    case 'unheard':
      return unheard(intent, facts.now + event.againInMs)
    case 'lease_lost':
      return leaseLost(intent, facts)
    case 'moved':
      return intent.state === 'working' ? { ...intent, signAt: facts.now } : null
    case 'overdue':
      return overdue(intent, event.againInMs, facts)
    case 'unknown_to_worker':
      if (intent.state === 'sending') return null
      if (intent.cancelRequested) return ended(common, 'cancelled', 'cancelled', facts)
      return intent.state === 'working' ? waiting(common, facts.now + event.againInMs) : null
    case 'succeeded':
      return ended({ ...common, lastFailure: null }, 'applied', event.note, facts)
    case 'failed':
      return isOlderTry(intent, event.epoch) ? null : failed(intent, event, facts)
    case 'cancelled_on_worker':
      return isOlderTry(intent, event.epoch) ? null : cancelledOnWorker(intent, event.failure, facts)
    case 'cancel_requested':
      if (intent.state === 'waiting' && !intent.wasSent && intent.replaced.length === 0)
        return ended(common, 'cancelled', 'cancelled', facts)
      return intent.cancelRequested ? null : { ...intent, cancelRequested: true }
    case 'hurried':
      return awaitsRetry(intent, facts.now) ? { ...intent, nextAt: facts.now } : null
    case 'withdrawn':
      return ended(common, 'cancelled', event.note, facts)
    default:
      return unreachable(event)
  }
}

/** An attempt failed, and the next one is not due yet. */
function awaitsRetry(intent: OpenIntent, now: number): intent is Extract<OpenIntent, { state: 'waiting' }> {
  return intent.state === 'waiting' && intent.lastFailure !== null && !intent.cancelRequested && intent.nextAt > now
}

export function isDue(intent: OpenIntent, now: number): boolean {
  if (intent.state === 'waiting') return intent.nextAt <= now && !intent.cancelRequested
  return intent.state === 'working' && intent.wait.for === 'another_try' && intent.wait.nextAt <= now && !intent.cancelRequested
}

const commonOf = ({
  nodeId,
  backend,
  kind,
  generation,
  epoch,
  opId,
  replaced,
  attempts,
  lastFailure,
  isOverdue,
  cancelRequested,
  mayRecreate,
}: Intent): Common => ({
  nodeId,
  backend,
  kind,
  generation,
  epoch,
  opId,
  replaced,
  attempts,
  lastFailure,
  isOverdue,
  cancelRequested,
  mayRecreate,
})

const leased = ({ holder, leaseUntil }: { holder: string; leaseUntil: number }) => ({ state: 'sending' as const, holder, leaseUntil })

const waiting = (common: Common, nextAt: number, wasSent = true): Intent => ({ ...common, state: 'waiting', nextAt, wasSent })

const working = (common: Common, wait: AwaitedResult, { now }: StepFacts): Intent => ({
  ...common,
  state: 'working',
  acceptedAt: now,
  signAt: now,
  wait,
})

const ended = (common: Common, state: 'applied' | 'failed' | 'dead' | 'cancelled', note: string, { now }: StepFacts): Intent => ({
  ...common,
  state,
  finishedAt: now,
  note,
})

function unheard(intent: OpenIntent, nextAt: number): Intent | null {
  if (intent.state === 'sending') return waiting(commonOf(intent), nextAt)
  const isRequest = intent.state === 'working' && intent.wait.for === 'reply'
  return isRequest ? { ...intent, wait: { for: 'another_try', nextAt } } : null
}

function leaseLost(intent: OpenIntent, { now }: StepFacts): Intent | null {
  if (intent.state === 'sending') return intent.leaseUntil < now ? waiting(commonOf(intent), now) : null
  if (intent.state !== 'working' || intent.wait.for !== 'reply' || intent.wait.leaseUntil >= now) return null
  return { ...intent, wait: { for: 'another_try', nextAt: now } }
}

/**
 * Counts no attempt: the work continues, and is shown as overdue. A worker that replies only at the end is sent an install again
 * later, which it answers at once when the backend is there. An upgrade would begin anew there, so only its reply is awaited.
 */
function overdue(intent: OpenIntent, againInMs: number, { now }: StepFacts): Intent | null {
  if (intent.state !== 'working') return null
  if (intent.wait.for === 'reply' && intent.kind !== 'upgrade')
    return { ...intent, isOverdue: true, wait: { for: 'another_try', nextAt: now + againInMs } }
  return intent.isOverdue ? null : { ...intent, isOverdue: true }
}

/**
 * An attempt that failed before it was cancelled ends as failed, without another attempt. A failed attempt is over on the worker,
 * so cancelling before the next one needs no command.
 */
function failed(intent: OpenIntent, { failure, mayRun = false }: { failure: Failure; mayRun?: boolean }, facts: StepFacts): Intent | null {
  if (intent.state === 'waiting' && !intent.cancelRequested) return null
  const common = { ...commonOf(intent), lastFailure: failure, attempts: intent.attempts + 1, isOverdue: false }
  if (intent.cancelRequested || failure.retry === 'never') return ended(common, 'failed', '', facts)
  if (common.attempts >= facts.retry.maxAttempts) return ended(common, 'dead', '', facts)
  // The new strategy was not tried yet, so it is due at once and has all its attempts.
  if (intent.mayRecreate && failure.code === 'disk_full')
    return waiting({ ...common, mayRecreate: false, attempts: 0, lastFailure: null }, facts.now, mayRun)
  return waiting(common, facts.now + backoffMs(common.attempts, facts.retry, facts.chance), mayRun)
}

function cancelledOnWorker(intent: OpenIntent, failure: Failure, facts: StepFacts): Intent | null {
  if (intent.cancelRequested) return ended(commonOf(intent), 'cancelled', 'cancelled', facts)
  return failed(intent, { failure }, facts)
}

const isOlderTry = (intent: OpenIntent, epoch: number | null): boolean => epoch !== null && epoch !== intent.epoch
