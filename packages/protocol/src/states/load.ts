// The demand for one replica of a model (or, `stage`, for its files on some node). One row per model and ordinal; requests,
// `load` and minimums only insert the row. Owners of the transitions:
//   waiting      the demand, or an attempt that ended without a failure   → the controller that claims it
//   installing   the intent for the backend on that node, submitted by the load; the reconciler carries it out
//   starting     the worker; controllers receive, poll, and detect a stall
//   ready        the worker's process; its exit, or its node's silence, ends it
//   failed       the clock (`nextAt`); without it only `load`, a new revision or the missing backend reopens it
// Steps of many rows at once are written in SQL by the same rules (controller `store`): `claimed` by `claim`; `hurried` by
// `reconsider` and, fresh, by `ensureLoads`; `looked` by `hurryInstalling`; `node_away` by `NodeStore.remove`.
// A replica ID is never used twice, so every report belongs to one attempt and needs no other fence.
import { unreachable, type Failure } from '../failure.ts'
import type { ModelName, NodeId, OperationId, ReplicaId } from '../ids.ts'
import { type Backoff, backoffMs } from '../backoff.ts'

export type LoadPurpose = 'serve' | 'stage'

type Common = Readonly<{
  model: ModelName
  purpose: LoadPurpose
  ordinal: number
  revision: string
  /** Names one attempt; part of the command. */
  epoch: number
  /** Consecutive failures: failed loads, and processes that exited soon. */
  attempts: number
  /** The only possible node: the load replaces a replica there. */
  pin: NodeId | null
  /** Other replicas serve meanwhile, so the new replica is checked before it gets requests. */
  needsCheck: boolean
  /** A replica ended to make room for the load, since its revision changed last. */
  isRoomMade: boolean
  /** Shown with the load: for example that the old replica had to end first. */
  note: string
  lease: Readonly<{ holder: string; until: number }> | null
}>

/** Times are milliseconds of the database's clock. `nextAt`: when it is due. */
export type Load = Common &
  (
    | Readonly<{ state: 'waiting'; nextAt: number }>
    | Readonly<{ state: 'installing'; nodeId: NodeId; installId: OperationId; nextAt: number }>
    | Readonly<{
        state: 'starting'
        nodeId: NodeId
        opId: OperationId
        /** Null: stages files only. */
        replicaId: ReplicaId | null
        /** The last time progress was seen. */
        signAt: number
        nextAt: number
      }>
    | Readonly<{ state: 'ready'; nodeId: NodeId; opId: OperationId | null; replicaId: ReplicaId | null; readyAt: number }>
    | Readonly<{ state: 'failed'; failure: Failure; failedAt: number; nextAt: number | null; /** Where. */ nodeId: NodeId | null }>
  )
export type LoadState = Load['state']

export type LoadEvent =
  | Readonly<{ type: 'claimed'; holder: string; leaseUntil: number }>
  /** The node was chosen and lacks the backend: its install was submitted, or was under way. */
  | Readonly<{ type: 'install_submitted'; nodeId: NodeId; installId: OperationId }>
  /** The node was chosen and has everything needed; the command is sent under the lease. */
  | Readonly<{
      type: 'placed'
      nodeId: NodeId
      opId: OperationId
      replicaId: ReplicaId | null
      /** A warning to show with it. */ note?: string | undefined
    }>
  /** The outcome is not known yet; the load is due again at this time. */
  | Readonly<{ type: 'looked'; againInMs: number }>
  | Readonly<{ type: 'installed' }>
  | Readonly<{ type: 'install_failed'; failure: Failure }>
  /** The backend was installed on some node after the load had failed for lack of it. */
  | Readonly<{ type: 'backend_arrived' }>
  /** The backend's install was cancelled or superseded: a node is chosen again. */
  | Readonly<{ type: 'install_gone'; againInMs: number }>
  | Readonly<{ type: 'accepted'; quietMs: number }>
  /** Sent, but possibly not received. */
  | Readonly<{ type: 'unheard'; againInMs: number }>
  | Readonly<{ type: 'moved'; quietMs: number }>
  | Readonly<{ type: 'ready' }>
  /** `isProven`: a replica of this revision ran steadily in the last hour, on any node. */
  | Readonly<{ type: 'failed'; failure: Failure; isProven?: boolean }>
  /** The worker has a process in that slot, which is decided about first; not a failure of the load. */
  | Readonly<{ type: 'slot_taken'; againInMs: number }>
  /**
   * No responders, for example because the worker stopped a moment ago. That is recorded for the node, and is not a failure of
   * the load.
   */
  | Readonly<{ type: 'no_responders'; againInMs: number }>
  /** The work is stalled and its state unknown: it may still run on the worker. */
  | Readonly<{ type: 'given_up'; failure: Failure }>
  /** `wasCommanded`: the process ended because of a command. */
  | Readonly<{ type: 'exited'; failure: Failure; wasCommanded: boolean; isProven?: boolean }>
  /** The replica became ready and failed its check. */
  | Readonly<{ type: 'check_failed'; failure: Failure }>
  /** There is no room for it beside others: a replica was ended first (`made` is the note about it), or is ending already. */
  | Readonly<{ type: 'room_requested'; made: string | null; againInMs: number }>
  /** It cannot run on its pinned node, and waiting does not help: the pin is removed. */
  | Readonly<{ type: 'unpinned' }>
  | Readonly<{ type: 'node_away' }>
  /** A replica that was unreachable is back, and the load has no other. */
  | Readonly<{ type: 'returned'; nodeId: NodeId; replicaId: ReplicaId; opId: OperationId; isReady: boolean }>
  | Readonly<{ type: 'revision_changed'; revision: string }>
  /** It was requested again, or something that it waits for changed. */
  | Readonly<{ type: 'hurried'; isFresh: boolean }>
  | Readonly<{ type: 'unwanted' }>

export type LoadFacts = Readonly<{ now: number; /** In [0, 1). */ chance: number }>

export const loadRetry = { baseMs: 5_000, maxMs: 300_000, maxAttempts: Infinity } as const
/**
 * For the process of a proven revision: it works, so something else ended it, and it may work again. More attempts in a row than
 * these are a crash loop also of a proven revision, for example on a broken node.
 */
export const provenRetry = { baseMs: 1_000, maxMs: 10_000, maxAttempts: 20 } as const
/** When no node fits: placement is cheap, and is tried again when a node changes. */
export const noCapacityRetryMs = 5_000
/** A process that ran this long is not in a crash loop, and its revision is proven. */
export const steadyMs = 60_000

/** Null: not legal in this state, or outdated; the caller drops it. `gone`: the row is deleted. */
export function stepLoad(load: Load, event: LoadEvent, facts: LoadFacts): Load | 'gone' | null {
  const { now } = facts
  switch (event.type) {
    case 'claimed':
      return isLoadDue(load, now) ? { ...load, lease: { holder: event.holder, until: event.leaseUntil } } : null
    case 'install_submitted':
      return isUnplaced(load)
        ? { ...commonOf(load), state: 'installing', nodeId: event.nodeId, installId: event.installId, nextAt: now + lookMs }
        : null
    case 'placed':
      return isUnplaced(load) ? placed(load, event, now) : null
    case 'looked':
      return load.state === 'ready' || load.state === 'failed' ? null : { ...load, lease: null, nextAt: now + event.againInMs }
    case 'installed':
      return load.state === 'installing' ? waiting(load, now) : null
    case 'install_failed':
      return load.state === 'installing' ? failed(load, event, facts) : null
    case 'backend_arrived':
      return load.state === 'failed' && load.failure.source === 'backend' ? { ...waiting(load, now), attempts: 0 } : null
    case 'install_gone':
      return load.state === 'installing' ? waiting(load, now + event.againInMs) : null
    case 'accepted':
    case 'moved':
      return load.state === 'starting' ? { ...load, lease: null, signAt: now, nextAt: now + event.quietMs } : null
    case 'unheard':
      return load.state === 'starting' ? { ...load, lease: null, nextAt: now + event.againInMs } : null
    case 'ready':
      return load.state === 'starting' ? ready(load, load, now) : null
    case 'failed':
      return load.state === 'ready' ? null : failed(load, event, facts)
    case 'slot_taken':
    case 'no_responders':
      return load.state === 'starting' ? waiting(load, now + event.againInMs) : null
    case 'given_up':
      return load.state === 'starting' ? failed(load, event, facts) : null
    case 'exited':
      return exited(load, event, facts)
    case 'check_failed':
      return load.state === 'ready' ? failed(load, event, facts) : null
    case 'room_requested':
      return isUnplaced(load) ? withRoom(waiting(load, now + event.againInMs), event.made) : null
    case 'unpinned':
      return isUnplaced(load) && load.pin !== null ? { ...waiting(load, now), pin: null } : null
    case 'node_away':
      // A prefetch is of its node alone, and waits for it.
      return load.state === 'waiting' || load.state === 'failed'
        ? null
        : { ...waiting(load, now), pin: load.purpose === 'stage' ? load.pin : null }
    case 'returned':
      return isUnplaced(load) || load.state === 'installing' ? returned(load, event, now) : null
    case 'revision_changed':
      // The pin stays: the replica to replace is still there.
      return { ...waiting(load, now), revision: event.revision, attempts: 0, isRoomMade: false, note: '' }
    case 'hurried':
      return hurried(load, event.isFresh, now)
    case 'unwanted':
      return 'gone'
    default:
      return unreachable(event)
  }
}

/** Poll interval of an install in progress; its end wakes the load earlier. */
const lookMs = 1_000

export function isLoadDue(load: Load, now: number): boolean {
  const isFree = load.lease === null || load.lease.until < now
  return isFree && load.state !== 'ready' && load.nextAt !== null && load.nextAt <= now
}

type UnplacedLoad = Extract<Load, { state: 'waiting' | 'failed' }>
const isUnplaced = (load: Load): load is UnplacedLoad => load.state === 'waiting' || load.state === 'failed'

const commonOf = ({ model, purpose, ordinal, revision, epoch, attempts, pin, needsCheck, isRoomMade, note }: Load): Common => ({
  model,
  purpose,
  ordinal,
  revision,
  epoch,
  attempts,
  pin,
  needsCheck,
  isRoomMade,
  note,
  lease: null,
})

const waiting = (load: Load, nextAt: number): Extract<Load, { state: 'waiting' }> => ({ ...commonOf(load), state: 'waiting', nextAt })

const withRoom = (load: Load, made: string | null): Load => (made === null ? load : { ...load, isRoomMade: true, note: made })

function placed(load: Load, { nodeId, opId, replicaId, note }: Extract<LoadEvent, { type: 'placed' }>, now: number): Load {
  const { epoch, lease } = load
  return {
    ...commonOf(load),
    ...{ state: 'starting', nodeId, opId, replicaId, lease, epoch: epoch + 1, signAt: now },
    ...(note === undefined ? {} : { note }),
    // The lease keeps other controllers away until the reply is recorded; a controller that takes over polls at once.
    nextAt: now,
  }
}

type LoadPlace = Readonly<{ nodeId: NodeId; opId: OperationId | null; replicaId: ReplicaId | null }>
const ready = (load: Load, { nodeId, opId, replicaId }: LoadPlace, now: number): Load => ({
  ...commonOf(load),
  ...{ state: 'ready', nodeId, opId, replicaId, readyAt: now },
})

function returned(load: Load, event: Extract<LoadEvent, { type: 'returned' }>, now: number): Load {
  if (event.isReady) return ready(load, event, now)
  const { nodeId, opId, replicaId } = event
  return { ...commonOf(load), state: 'starting', nodeId, opId, replicaId, signAt: now, nextAt: now }
}

type FailureEvent = Readonly<{ failure: Failure; isProven?: boolean }>

function failed(load: Load, event: FailureEvent, { now, chance }: LoadFacts): Load {
  const { failure } = event
  const isCapacity = failure.code === 'no_capacity'
  const attempts = isCapacity ? load.attempts : load.attempts + 1
  const nodeId = 'nodeId' in load ? load.nodeId : null
  const pauseMs = isCapacity ? noCapacityRetryMs : backoffMs(attempts, retryOf(event, attempts), chance)
  const nextAt = failure.retry === 'never' ? null : now + pauseMs
  return { ...commonOf(load), attempts, state: 'failed', failure, failedAt: now, nextAt, nodeId }
}

/** The end of a process is retried soon if its revision is proven; a failure of a source or a disk does not depend on that. */
function retryOf({ failure: { code, source }, isProven = false }: FailureEvent, attempts: number): Backoff {
  const isOfProcess = source === undefined && (code === 'internal' || code === 'unavailable')
  return isProven && isOfProcess && attempts <= provenRetry.maxAttempts ? provenRetry : loadRetry
}

/** After the first exit it gets another replica at once; a process that keeps exiting has to wait. */
function exited(load: Load, event: Extract<LoadEvent, { type: 'exited' }>, facts: LoadFacts): Load | null {
  const { failure, wasCommanded } = event
  if (load.state === 'starting') return failed(load, event, facts)
  if (load.state !== 'ready') return null
  // It has replaced the old replica, so its successor may run on any node.
  if (wasCommanded) return { ...waiting(load, facts.now), pin: null }
  const attempts = facts.now - load.readyAt >= steadyMs ? 0 : load.attempts
  if (attempts === 0) return { ...waiting(load, facts.now), pin: null, attempts: 1 }
  // One less than the number of failures, because the first exit had no pause.
  const pauseMs = backoffMs(attempts, retryOf(event, attempts), facts.chance)
  return {
    ...commonOf(load),
    pin: null,
    ...{ state: 'failed', attempts: attempts + 1, failure, failedAt: facts.now, nextAt: facts.now + pauseMs, nodeId: load.nodeId },
  }
}

/** `isFresh`: requested by an administrator who has seen the failure. */
function hurried(load: Load, isFresh: boolean, now: number): Load | null {
  if (!isUnplaced(load)) return null
  if (isFresh) return { ...waiting(load, now), attempts: 0 }
  return load.nextAt !== null && load.nextAt > now ? { ...load, lease: null, nextAt: now } : null
}
