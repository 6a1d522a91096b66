// Keeps what is shown of operations about models up to what is so, and deletes what is left of deleted models. It remembers
// nothing between rounds; changes only wake it. Any controller may run it: each job is taken under a lock or a lease.
import { BusError, type Bus } from '@muster/bus'
import { type Clock, createFailureStreak, createWakeTimer, type Fields, inLanes, type Log } from '@muster/host'
import {
  backoffMs,
  failureOf,
  FleetError,
  modelDelete,
  opCancel,
  type CommandReply,
  type Failure,
  type OperationId,
} from '@muster/protocol'
import type { ModelJobStore, Verdict } from '../store/model-jobs.ts'
import type { ModelRemovalStore, Removal } from '../store/model-removals.ts'
import { decideJob } from './decide.ts'

export interface JobsLoopDeps {
  readonly bus: Bus
  readonly jobs: ModelJobStore
  readonly removals: ModelRemovalStore
  readonly holder: string
  /** The safety poll. */
  readonly intervalMs: number
  readonly retry: Readonly<{ baseMs: number; maxMs: number }>
  readonly random: () => number
  readonly clock: Clock
  readonly log: Log
}

/** Bytes are no change that wakes anybody: while something goes on it is looked at. */
const whileBusyMs = 1_000
/** Between two rounds, so that a storm of wakes is one. */
const breathMs = 20
const lanes = 16
const answerWithinMs = 10_000
/** Whoever has not noted the answer by then is gone, and another one sends it. */
const leaseMs = 15_000
/** After a command of which nobody knows what became of it. */
const againInMs = 1_000

export function createJobsLoop(deps: JobsLoopDeps) {
  const { jobs, removals, holder, intervalMs, clock, log } = deps
  const wakeable = createWakeTimer(clock)
  const trouble = createFailureStreak({ what: 'operations about models can not be followed', clock, log })

  const round = async (signal: AbortSignal): Promise<number> => {
    // One that always fails keeps no other from its turn.
    const failed: Fields[] = []
    const unlessFailed = async (work: Promise<void>, about: Fields): Promise<void> =>
      await work.catch((error: unknown) => void (signal.aborted || failed.push({ ...about, error })))
    const open = await jobs.open()
    await inLanes(open, { atOnce: lanes }, (id) => unlessFailed(advance(id, deps, signal), { operation: id }))
    const due = await removals.claim({ holder, leaseMs, limit: lanes })
    await inLanes(due, { atOnce: lanes }, (removal) => unlessFailed(remove(removal, deps, signal), { operation: removal.operationId }))
    if (failed[0] === undefined) trouble.recovered()
    else trouble.failed({ ...failed[0], failed: failed.length })
    if (due.length === lanes) return 0
    const next = (await removals.nextDue()) ?? intervalMs
    return Math.max(0, Math.min(next, open.length > 0 ? whileBusyMs : intervalMs))
  }
  return {
    wake: (): void => wakeable.wake(),
    /** Until aborted. */
    async run(signal: AbortSignal): Promise<void> {
      while (!signal.aborted) {
        const pauseMs = await round(signal).catch((error: unknown) => {
          trouble.failed({ error })
          return whileBusyMs
        })
        await wakeable.pause(Math.max(pauseMs, breathMs), signal).catch(() => false)
        await clock.sleep(breathMs, signal).catch(() => undefined)
      }
    },
  }
}

async function advance(id: OperationId, deps: JobsLoopDeps, signal: AbortSignal): Promise<void> {
  const callOff = await deps.jobs.advance(id, decideJob)
  if (callOff !== null && (await hasStopped(callOff, deps, signal))) await deps.jobs.calledOff(id)
}

/** False while it is still at it, or nobody knows: it is asked again. */
async function hasStopped({ nodeId, opId }: NonNullable<Verdict['callOff']>, { bus }: JobsLoopDeps, signal: AbortSignal): Promise<boolean> {
  try {
    const { state } = await bus.request(opCancel, { node: nodeId }, { op_id: opId }, { timeoutMs: answerWithinMs, signal })
    return state === 'cancelled' || state === 'failed' || state === 'unknown'
  } catch (error) {
    if (!(error instanceof BusError)) throw error
    // Nothing listens there: nothing fetches there either, or it ends by itself. Files that nobody wants hurt nobody.
    return error.code === 'no_responders'
  }
}

async function remove(removal: Removal, deps: JobsLoopDeps, signal: AbortSignal): Promise<void> {
  const { bus, removals, log } = deps
  const { nodeId, model } = removal
  try {
    const reply = await bus.request(modelDelete, { node: nodeId }, { model }, { timeoutMs: answerWithinMs, signal })
    const failure = failureIn(reply)
    if (failure === null || failure.retry === 'never') await removals.settle(removal, failure)
    else await putOff(removal, { failure, isCounted: true }, deps)
    log.info('a node was told to delete a model', { node: nodeId, model, outcome: failure?.code ?? 'deleted' })
  } catch (error) {
    const isUnknown = error instanceof BusError && error.code !== 'no_responders'
    if (!isUnknown && !(error instanceof BusError) && !(error instanceof FleetError)) throw error
    const failure = error instanceof BusError ? unheard(error) : failureOf(error)
    await putOff(removal, { failure, isCounted: !isUnknown }, deps)
  }
}

async function putOff(
  removal: Removal,
  { failure, isCounted }: { failure: Failure; isCounted: boolean },
  { removals, retry, random }: JobsLoopDeps,
): Promise<void> {
  const inMs = isCounted ? backoffMs(removal.attempts + 1, retry, random()) : againInMs
  await removals.putOff(removal, { failure, inMs, isCounted })
}

function failureIn(reply: CommandReply): Failure | null {
  if ('accepted' in reply) return reply.accepted ? null : reply.failure
  return reply.success ? null : { code: 'internal', retry: 'backoff', message: reply.error ?? 'the worker could not delete it' }
}

const unheard = ({ code, message }: BusError): Failure => ({
  code: 'unavailable',
  retry: 'backoff',
  message: code === 'no_responders' ? 'the worker reports, but nothing on it listens for model commands' : message,
})
