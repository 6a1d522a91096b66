// Adopts the replicas of earlier runs before this worker publishes anything: a process that is proven to be the recorded one
// is adopted, every other process with this worker's marker is stopped, and unfinished loads start over. Proof is PID, start
// time and boot, no marker of another replica in its environment, and that it owns the listening socket.
import { isAlive, settlesWithin } from '@muster/host'
import { ReplicaId } from '@muster/protocol'
import { belongsToOther, findListener, findProcesses, stopProcess, watchProcess } from './backend-process.ts'
import { runOf, type Run } from './replica.pure.ts'
import { move, stateOf, type Replica, type ReplicaDeps } from './replica.ts'
import { driverOf, endReplica, finish, specOf, startServing, watchExit } from './run-replica.ts'

/** A process that does not answer within this time counts as busy, not as a different process. */
const recognizeMs = 2_000

/** `spared`: replicas whose records only a newer version can read. Resolves when every process is adopted or gone. */
export async function adoptReplicas(replicas: readonly Replica[], spared: readonly ReplicaId[], deps: ReplicaDeps): Promise<void> {
  await deps.step('W.boot.before_adopt')
  // First, so that no tree is collected that a process runs from.
  for (const replica of replicas) {
    const run = runOf(replica.record.stage)
    if (run !== null) replica.resources.use(deps.backends.hold(run.digest))
  }
  const known = new Set<string>([...replicas.map(({ id }) => id), ...spared])
  const marks = (await findProcesses(deps.workerId)).processes.flatMap(({ replicaId }) => ReplicaId.safeParse(replicaId).data ?? [])
  await Promise.all([
    ...[...new Set(marks)].filter((id) => !known.has(id)).map((id) => endOrphan(id, deps)),
    ...replicas.map((replica) => adopt(replica, deps)),
  ])
}

async function endOrphan(replicaId: ReplicaId, deps: ReplicaDeps): Promise<void> {
  deps.log.warn('process without a replica record found; stopping it', { replica_id: replicaId })
  await stopProcess({ replicaId, leader: null }, { graceMs: 0 }, deps)
}

async function adopt(replica: Replica, deps: ReplicaDeps): Promise<void> {
  const { state } = replica.record.stage
  if (state === 'gone') return
  const run = runOf(replica.record.stage)
  if (run === null || !isSameProcess(replica.id, run, deps)) return await endWithoutProcess(replica, null, deps)
  replica.process = watchProcess(run.process, deps)
  replica.address = run.address
  if (state === 'draining' || state === 'stopping') {
    // Its requests ended with the worker that forwarded them; only its slot waits for its exit.
    watchExit(replica, replica.process, deps)
    if (state === 'draining') endReplica(replica, unloadInterrupted, deps).catch((error: unknown) => logNotStopped(replica, error, deps))
    else replica.stopping = stopProcess({ replicaId: replica.id, leader: run.process }, { graceMs: deps.pace.graceMs }, deps)
    return
  }
  if (await adoptProcess(replica, run, deps)) return await deps.step('W.boot.mid_adopt')
  deps.log.warn('process does not answer for its replica; stopping it', { replica_id: replica.id, pid: run.process.pid })
  await endWithoutProcess(replica, run, deps)
}

const logNotStopped = ({ id }: Replica, error: unknown, { log }: ReplicaDeps): void =>
  log.error('cannot stop a replica of an earlier run', { replica_id: id, error })

const unloadInterrupted = { code: 'cancelled', retry: 'never', message: 'its worker ended while it was being unloaded' } as const

function isSameProcess(id: ReplicaId, { process: identity }: Run, { workerId }: ReplicaDeps): boolean {
  return isAlive(identity) && !belongsToOther(identity.pid, { workerId, replicaId: id })
}

/** False: the process does not match the record. */
async function adoptProcess(replica: Replica, run: Run, deps: ReplicaDeps): Promise<boolean> {
  try {
    const tree = await deps.backends.treeOf(run.digest)
    if (tree === null) return false
    const spec = specOf(replica.record, tree, run.modelDirectory)
    const driver = driverOf(tree, deps)
    if (!(await answers(replica, run, { spec, driver }, deps))) return false
    await startServing(replica, { spec, driver }, deps)
    if (replica.process !== null) watchExit(replica, replica.process, deps)
    deps.log.info('replica adopted', { replica_id: replica.id, pid: run.process.pid })
    return true
  } catch (error) {
    deps.log.warn('cannot adopt a replica of an earlier run', { replica_id: replica.id, error })
    return false
  }
}

type DriverSpec = Readonly<{ spec: ReturnType<typeof specOf>; driver: ReturnType<typeof driverOf> }>

async function answers(replica: Replica, { address, process }: Run, { spec, driver }: DriverSpec, deps: ReplicaDeps): Promise<boolean> {
  const owner = { group: process.pid, replicaId: replica.id, workerId: deps.workerId }
  if (address.kind === 'tcp' && (await findListener(address.port, owner)) !== 'ours') return false
  const over = new AbortController()
  const answer = replica.record.isBare ? Promise.resolve(true) : driver.recognizes(spec, address, over.signal)
  const isAnswered = await settlesWithin({ clock: deps.clock, ms: recognizeMs }, answer)
  over.abort()
  // A busy process that was ready is still the same one; a process that was starting must prove that it is ready.
  return isAnswered ? await answer : stateOf(replica) === 'ready'
}

/** Stops any process that is left of the replica before its slot is free. */
async function endWithoutProcess(replica: Replica, run: Run | null, deps: ReplicaDeps): Promise<void> {
  replica.process = null
  await stopProcess({ replicaId: replica.id, leader: run?.process ?? null }, { graceMs: 0 }, deps)
  await deps.step('W.boot.mid_adopt')
  const { state } = replica.record.stage
  if (state === 'accepted') return
  if (state === 'staging' || state === 'starting') return void (await move(replica, { type: 'again' }, deps))
  const exit = { code: null, signal: null, lines: await deps.logs.lastLines(replica.id) }
  await move(replica, { type: 'exited', exit }, deps)
  await finish(replica, deps)
}
