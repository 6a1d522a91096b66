// What a worker does about replicas of its earlier runs before anybody hears of it: processes that are provably the ones
// on record are taken back, all others that carry its mark are ended, and loads that were not done are done again.
// Proof is pid, start time and boot, no mark of somebody else in its environment, and that it is the one that listens.
import { isAlive } from '@muster/host'
import { ReplicaId } from '@muster/protocol'
import { endReplica, finish, watchExit } from './end-replica.ts'
import { findProcesses, isAnothers } from './find-processes.ts'
import { whoListens } from './listens.ts'
import { beServing, driverOf, specOf } from './load-replica.ts'
import { runOf, type Run } from './machine.ts'
import { move, stateOf, type Replica, type ReplicaDeps } from './replica.ts'
import { stopProcess } from './stop-process.ts'
import { watchProcess } from './watch-process.ts'

/** Long enough for a process that has a moment; one that is busy for longer is not therefore another one. */
const recogniseMs = 2_000

/** `spared`: replicas that only a newer version understands. Resolves when no process is left that is not accounted for. */
export async function adoptReplicas(replicas: readonly Replica[], spared: readonly ReplicaId[], deps: ReplicaDeps): Promise<void> {
  await deps.step('W.boot.before_adopt')
  // First of all, so that nothing they run from is collected.
  for (const replica of replicas) {
    const run = runOf(replica.record.stage)
    if (run !== null) replica.held.use(deps.backends.hold(run.digest))
  }
  const known = new Set<string>([...replicas.map(({ id }) => id), ...spared])
  const marks = (await findProcesses(deps.workerId)).processes.flatMap(({ replicaId }) => ReplicaId.safeParse(replicaId).data ?? [])
  await Promise.all([
    ...[...new Set(marks)].filter((id) => !known.has(id)).map((id) => endOrphan(id, deps)),
    ...replicas.map((replica) => adopt(replica, deps)),
  ])
}

async function endOrphan(replicaId: ReplicaId, deps: ReplicaDeps): Promise<void> {
  deps.log.warn('ending a process of a replica that nothing is known of', { replica_id: replicaId })
  await stopProcess({ replicaId, leader: null }, { graceMs: 0 }, deps)
}

async function adopt(replica: Replica, deps: ReplicaDeps): Promise<void> {
  const { state } = replica.record.stage
  if (state === 'gone') return
  const run = runOf(replica.record.stage)
  if (run === null || !isOurs(replica.id, run, deps)) return await withoutProcess(replica, null, deps)
  replica.process = watchProcess(run.process, deps)
  replica.address = run.address
  if (state === 'draining' || state === 'stopping') {
    // The requests it served ended with the worker that passed them on. Nobody waits for its end but its slot.
    watchExit(replica, replica.process, deps)
    if (state === 'draining') endReplica(replica, becauseGone, deps).catch((error: unknown) => notEnded(replica, error, deps))
    else replica.stopping = stopProcess({ replicaId: replica.id, leader: run.process }, { graceMs: deps.pace.graceMs }, deps)
    return
  }
  if (await takeBack(replica, run, deps)) return await deps.step('W.boot.mid_adopt')
  deps.log.warn('a process does not answer for its replica any more, and is ended', { replica_id: replica.id, pid: run.process.pid })
  await withoutProcess(replica, run, deps)
}

const notEnded = ({ id }: Replica, error: unknown, { log }: ReplicaDeps): void =>
  log.error('a replica of an earlier run was not ended', { replica_id: id, error })

const becauseGone = { code: 'cancelled', retry: 'never', message: 'it was being unloaded when its worker ended' } as const

function isOurs(id: ReplicaId, { process: identity }: Run, { workerId }: ReplicaDeps): boolean {
  return isAlive(identity) && !isAnothers(identity.pid, { workerId, replicaId: id })
}

/** False: it is not what is on record, or not as far. */
async function takeBack(replica: Replica, run: Run, deps: ReplicaDeps): Promise<boolean> {
  try {
    const tree = await deps.backends.treeOf(run.digest)
    if (tree === null) return false
    const spec = specOf(replica.record, tree, run.modelDirectory)
    const driver = driverOf(tree, deps)
    if (!(await answers(replica, run, { spec, driver }, deps))) return false
    await beServing(replica, { spec, driver }, deps)
    if (replica.process !== null) watchExit(replica, replica.process, deps)
    deps.log.info('a replica of an earlier run is served on', { replica_id: replica.id, pid: run.process.pid })
    return true
  } catch (error) {
    deps.log.warn('a replica of an earlier run can not be served on', { replica_id: replica.id, error })
    return false
  }
}

type Told = Readonly<{ spec: ReturnType<typeof specOf>; driver: ReturnType<typeof driverOf> }>

async function answers(replica: Replica, { address, process }: Run, { spec, driver }: Told, deps: ReplicaDeps): Promise<boolean> {
  const owner = { group: process.pid, replicaId: replica.id, workerId: deps.workerId }
  if (address.kind === 'tcp' && (await whoListens(address.port, owner)) !== 'ours') return false
  const over = new AbortController()
  const tooLong = deps.clock.sleep(recogniseMs, over.signal).then(
    () => 'busy' as const,
    () => 'busy' as const,
  )
  const asked = replica.record.isBare ? Promise.resolve(true) : driver.recognises(spec, address, over.signal)
  const said = await Promise.race([asked, tooLong])
  over.abort()
  asked.catch(() => undefined)
  // Busy is not dead: what was ready is the same process still. What was only starting has to show that it has come up.
  return said === 'busy' ? stateOf(replica) === 'ready' : said
}

/** None, or none that counts: whatever is left of it is ended before anything else has its slot. */
async function withoutProcess(replica: Replica, run: Run | null, deps: ReplicaDeps): Promise<void> {
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
