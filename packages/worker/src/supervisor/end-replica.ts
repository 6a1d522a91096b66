// Ends a replica: a command drains and stops it, or its process exits. It is gone only when none of its processes is left.
import { FleetError, type Failure } from '@muster/protocol'
import { runOf } from './replica.pure.ts'
import { isGone, move, stateOf, untilIdle, type Replica, type ReplicaDeps } from './replica.ts'
import { type LeadProcess, stopProcess } from './backend-process.ts'

/** Waits for requests to end, unless forced. Resolves when the replica is gone. */
export async function unloadReplica(replica: Replica, how: { force: boolean; because: Failure }, deps: ReplicaDeps): Promise<void> {
  if (how.force) replica.skipDrain.abort()
  await drain(replica, how.force ? 0 : deps.pace.drainMs, deps)
  await cancelReplica(replica, how.because, deps)
}

/** Aborts an unfinished load; stops a running process. Resolves when the replica is gone. */
export async function cancelReplica(replica: Replica, because: Failure, deps: ReplicaDeps): Promise<void> {
  replica.cancelFailure ??= because
  if (replica.isLoading) replica.loadAbort.abort(new FleetError(replica.cancelFailure))
  else await endReplica(replica, replica.cancelFailure, deps)
  await replica.gone.promise
}

/** The worker stops: a serving replica ends, a load is left to the next start. */
export async function shutDownReplica(replica: Replica, deps: ReplicaDeps): Promise<void> {
  if (isGone(replica) || (stateOf(replica) === 'accepted' && !replica.isLoading)) return
  replica.isShuttingDown = true
  if (!replica.isLoading) return await shutDownServing(replica, deps)
  replica.loadAbort.abort(new FleetError({ code: 'unavailable', retry: 'backoff', message: 'this worker is stopping' }))
  await replica.gone.promise
}

async function shutDownServing(replica: Replica, deps: ReplicaDeps): Promise<void> {
  await drain(replica, deps.pace.leaveMs, deps)
  await cancelReplica(replica, { code: 'cancelled', retry: 'never', message: 'its worker was stopped' }, deps)
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

/** Handles the exit of a process, from the moment the process is stored. */
export function watchExit(replica: Replica, process: LeadProcess, deps: ReplicaDeps): void {
  replica.resources.use(deps.logs.keepBounded(replica.id))
  process.exited
    .then(async ({ code, signal }) => {
      const leader = process.identity
      // Children that it left are stopped too; during a stop they have its grace time.
      await (replica.stopping ?? stopProcess({ replicaId: replica.id, leader }, { graceMs: 0 }, deps))
      const lines = await deps.logs.lastLines(replica.id)
      const isLeft = replica.isShuttingDown && stateOf(replica) === 'starting'
      await move(replica, isLeft ? { type: 'again' } : { type: 'exited', exit: { code, signal, lines } }, deps)
      await finish(replica, deps)
    })
    .catch((error: unknown) => deps.log.error('cannot handle the exit of a process', { replica_id: replica.id, error }))
}

/** Releases everything that the replica used, when none of its processes runs. */
export async function finish(replica: Replica, { addresses, log }: ReplicaDeps): Promise<void> {
  const { stage } = replica.record
  replica.reporter.end(
    stage.state !== 'gone' ? 'left' : stage.end.how === 'failed' || stage.end.how === 'cancelled' ? stage.end.how : 'succeeded',
  )
  try {
    replica.resources.dispose()
    await replica.connection?.close()
    if (replica.address !== null) await addresses.release(replica.address)
  } catch (error) {
    log.warn('cannot release the resources of a replica', { replica_id: replica.id, error })
  }
  replica.connection = null
  replica.ready.reject(new FleetError(endFailure(replica)))
  replica.gone.resolve()
}

function endFailure(replica: Replica): Failure {
  const { stage } = replica.record
  if (stage.state === 'gone' && (stage.end.how === 'failed' || stage.end.how === 'cancelled')) return stage.end.failure
  return { code: 'unavailable', retry: 'backoff', message: `the replica ${replica.id} ended` }
}
