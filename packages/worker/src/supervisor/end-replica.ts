// How a replica comes to its end: drained and stopped because it is told to, or by itself. Either way it is gone only
// when no process of it is left.
import { FleetError, type Failure } from '@muster/protocol'
import { runOf } from './machine.ts'
import { isGone, move, stateOf, untilIdle, type Replica, type ReplicaDeps } from './replica.ts'
import type { LeadProcess } from './spawn-process.ts'
import { stopProcess } from './stop-process.ts'

/** Lets requests end first, unless forced. Resolves when it is gone. */
export async function unloadReplica(replica: Replica, how: { force: boolean; because: Failure }, deps: ReplicaDeps): Promise<void> {
  if (how.force) replica.hurry.abort()
  await drain(replica, how.force ? 0 : deps.pace.drainMs, deps)
  await callOff(replica, how.because, deps)
}

/** A load that is not done is called off; what runs is stopped. Resolves when it is gone. */
export async function callOff(replica: Replica, because: Failure, deps: ReplicaDeps): Promise<void> {
  replica.calledOff ??= because
  if (replica.isLoading) replica.calling.abort(new FleetError(replica.calledOff))
  else await endReplica(replica, replica.calledOff, deps)
  await replica.gone.promise
}

/** The worker stops: what serves ends, what loads is left to the next start. */
export async function leaveReplica(replica: Replica, deps: ReplicaDeps): Promise<void> {
  if (isGone(replica) || (stateOf(replica) === 'accepted' && !replica.isLoading)) return
  replica.isLeaving = true
  if (!replica.isLoading) return await leaveServing(replica, deps)
  replica.calling.abort(new FleetError({ code: 'unavailable', retry: 'backoff', message: 'this worker stops' }))
  await replica.gone.promise
}

async function leaveServing(replica: Replica, deps: ReplicaDeps): Promise<void> {
  await drain(replica, deps.pace.leaveMs, deps)
  await callOff(replica, { code: 'cancelled', retry: 'never', message: 'its worker was stopped' }, deps)
}

async function drain(replica: Replica, ms: number, deps: ReplicaDeps): Promise<void> {
  if (ms === 0) return
  if (stateOf(replica) === 'ready') await move(replica, { type: 'drain' }, deps)
  if (stateOf(replica) === 'draining') await untilIdle(replica, ms, deps)
}

export async function endReplica(replica: Replica, because: Failure, deps: ReplicaDeps): Promise<void> {
  if (!(await move(replica, { type: 'stop', because }, deps))) return
  const run = runOf(replica.record.stage)
  if (run === null) return await finish(replica, deps)
  replica.stopping = stopProcess({ replicaId: replica.id, leader: run.process }, { graceMs: deps.pace.graceMs }, deps)
  await replica.stopping
}

/** Takes over from the moment a process is noted. */
export function watchExit(replica: Replica, process: LeadProcess, deps: ReplicaDeps): void {
  replica.held.use(deps.logs.tend(replica.id))
  process.exited
    .then(async ({ code, signal }) => {
      const leader = process.identity
      // What it left behind goes too; when it is being stopped, in the time that it has for that.
      await (replica.stopping ?? stopProcess({ replicaId: replica.id, leader }, { graceMs: 0 }, deps))
      const lines = await deps.logs.lastLines(replica.id)
      const isLeft = replica.isLeaving && stateOf(replica) === 'starting'
      await move(replica, isLeft ? { type: 'again' } : { type: 'exited', exit: { code, signal, lines } }, deps)
      await finish(replica, deps)
    })
    .catch((error: unknown) => deps.log.error('the end of a process was not taken note of', { replica_id: replica.id, error }))
}

/** Nothing of it runs any more. */
export async function finish(replica: Replica, { addresses, log }: ReplicaDeps): Promise<void> {
  const { stage } = replica.record
  replica.reporter.end(
    stage.state !== 'gone' ? 'left' : stage.end.how === 'failed' || stage.end.how === 'cancelled' ? stage.end.how : 'succeeded',
  )
  try {
    replica.held.dispose()
    await replica.connection?.close()
    if (replica.address !== null) await addresses.release(replica.address)
  } catch (error) {
    log.warn('what a replica used was not given back', { replica_id: replica.id, error })
  }
  replica.connection = null
  replica.came.reject(new FleetError(endFailure(replica)))
  replica.gone.resolve()
}

function endFailure(replica: Replica): Failure {
  const { stage } = replica.record
  if (stage.state === 'gone' && (stage.end.how === 'failed' || stage.end.how === 'cancelled')) return stage.end.failure
  return { code: 'unavailable', retry: 'backoff', message: `the replica ${replica.id} ended` }
}
