// Brings operations about models up to date with their loads, replicas and nodes. It remembers nothing between rounds; changes
// only wake it. Any controller may run it: each operation is read and written under its lock.
import { BusError, type Bus } from '@muster/bus'
import { type Clock, createFailureStreak, createLoop, type Fields, inLanes, type Log } from '@muster/host'
import type { OperationId } from '@muster/protocol'
import type { CallOff, ModelJobStore } from '../store/model-jobs.ts'
import { requestCancel } from '../work/exchange.ts'
import { decideJob } from './job.pure.ts'

export interface JobsLoopDeps {
  readonly bus: Bus
  readonly jobs: ModelJobStore
  /** The safety poll. */
  readonly intervalMs: number
  readonly clock: Clock
  readonly log: Log
}

/** Progress does not wake the loop: while operations are open they are read this often. */
const whileOpenMs = 1_000
const breathMs = 20
const lanes = 16
const timeoutMs = 10_000

export function createJobsLoop(deps: JobsLoopDeps) {
  const { jobs, intervalMs, clock, log } = deps
  const loop = createLoop({ what: 'cannot advance model operations; retrying', breathMs, clock, log })
  const streak = createFailureStreak({ what: 'cannot advance a model operation; retrying', clock, log })

  const round = async (signal: AbortSignal): Promise<number> => {
    // An operation that always fails does not block the others.
    const failed: Fields[] = []
    const open = await jobs.open()
    await inLanes(open, { atOnce: lanes }, (operation) =>
      advance(operation, deps, signal).catch((error: unknown) => void (signal.aborted || failed.push({ operation, error }))),
    )
    if (failed[0] === undefined) streak.recovered()
    else streak.failed({ ...failed[0], failed: failed.length })
    return open.length > 0 ? whileOpenMs : intervalMs
  }
  return {
    wake: loop.wake,
    /** Runs until aborted. */
    run: (signal: AbortSignal): Promise<void> => loop.run(round, signal),
  }
}

async function advance(id: OperationId, deps: JobsLoopDeps, signal: AbortSignal): Promise<void> {
  const callOff = await deps.jobs.advance(id, decideJob)
  await inLanes(callOff, { atOnce: lanes, signal }, async (work) => {
    if (await hasStopped(work, deps, signal)) await deps.jobs.calledOff(id, work.nodeId)
  })
}

/** False while the work continues, or its fate is unknown: the request is repeated. */
async function hasStopped(work: CallOff, { bus }: JobsLoopDeps, signal: AbortSignal): Promise<boolean> {
  try {
    const { state } = await requestCancel(bus, work, { timeoutMs, signal })
    return state === 'cancelled' || state === 'failed' || state === 'unknown'
  } catch (error) {
    if (!(error instanceof BusError)) throw error
    // Nothing listens on the node, so nothing downloads there, or the download ends without a command. Superfluous files do no
    // harm.
    return error.code === 'no_responders'
  }
}
