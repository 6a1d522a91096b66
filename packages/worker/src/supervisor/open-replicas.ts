// The replicas of this worker: which loads it takes on, one process for each, and what is said of them.
import { createHash } from 'node:crypto'
import type { Clock, DataDir, Log } from '@muster/host'
import {
  failureOf,
  type Failure,
  type LoadModel,
  type ModelName,
  type NodeId,
  type OperationId,
  type OpStatusReply,
  type ReplicaId,
} from '@muster/protocol'
import type { ModelFiles } from '../models/model-files.ts'
import { createAnnouncer, type Announcer } from '../operations/announcer.ts'
import type { Step } from '../operations/installer.ts'
import { createProgressReporter, type ProgressReporter } from '../operations/progress-reporter.ts'
import { tellProgress } from '../operations/progress-teller.ts'
import { openAddresses } from './addresses.ts'
import { adoptReplicas } from './adopt.ts'
import { decideLoad } from './decide.ts'
import { callOff, leaveReplica, unloadReplica } from './end-replica.ts'
import { findReplica, findOrStartReplica } from './find-or-start.ts'
import type { InstalledBackends } from './installed-backends.ts'
import { configOf, loadReplica, takeTree } from './load-replica.ts'
import { openLogFiles } from './log-files.ts'
import type { Stage } from './machine.ts'
import { disposable } from './prune.ts'
import { admit, createReplica, isGone, save, stateOf, type Drivers, type Pace, type Replica, type ReplicaDeps } from './replica.ts'
import { relist } from './relist.ts'
import { openReplicaRecords, type ReplicaRecord } from './replica-record.ts'
import { aboutReplica, loadStatus, newsOf, stateShown } from './replica-words.ts'
import type { Accepted, Replicas } from './replicas.ts'
import { stopBackend } from './stop-backend.ts'

export type ReplicasOptions = Readonly<{
  dataDir: Pick<DataDir, 'root' | 'path'>
  backends: InstalledBackends
  models: Pick<ModelFiles, 'stage' | 'remove'>
  drivers: Drivers
  /** Of this process; backends get the little of it that is meant for them. */
  env: Readonly<Record<string, string | undefined>>
  onStarted?: () => void
  onExited?: (how: { isExpected: boolean }) => void
  pace?: Partial<Pace>
  clock: Clock
  log: Log
  step?: Step
}>

const usualPace: Pace = { silenceMs: 120_000, graceMs: 10_000, drainMs: 300_000, leaveMs: 5_000 }
const cancelWaitMs = 1_000
/** Ends that are said again each time the bus is there. */
const saidAgain = 64

export async function openReplicas(options: ReplicasOptions): Promise<Replicas> {
  const { dataDir, backends, models, drivers, env, clock, log, step = () => undefined } = options
  const opened = await openReplicaRecords({ directory: dataDir.path('replicas'), log })
  const stopping = new AbortController()
  const replicas = new Map<ReplicaId, Replica>()
  const announcer = createAnnouncer({ recent: () => recentNews(replicas.values()), clock, log })
  const reporterOf = createReporters(announcer, { clock, log })
  const deps: ReplicaDeps = {
    records: opened.records,
    ...{ backends, models, drivers, env, clock, log, step },
    logs: await openLogFiles({ directory: dataDir.path('logs'), clock, log }),
    addresses: await openAddresses({ place: dataDir.path('run') }),
    workerId: createHash('sha256').update(dataDir.root).digest('hex').slice(0, 32),
    pace: { ...usualPace, ...options.pace },
    onMoved: (replica, before) => told(replica, before, { announcer, options, forgetOld }),
  }
  const forgetOld = (): void => {
    for (const old of disposable([...replicas.values()].map(({ record }) => record))) void drop(old, { replicas, deps })
  }
  for (const record of opened.found) replicas.set(record.order.replica_id, createReplica(record, reporterOf(record)))
  await adoptReplicas([...replicas.values()], opened.newer, deps)
  const world: World = { replicas, deps, announcer, reporterOf, newer: opened.newer, isStopping: () => stopping.signal.aborted }
  return createFace(world, stopping)
}

type World = Readonly<{
  replicas: Map<ReplicaId, Replica>
  deps: ReplicaDeps
  announcer: Announcer
  reporterOf: (record: ReplicaRecord) => ProgressReporter
  newer: readonly ReplicaId[]
  isStopping: () => boolean
}>

function createFace(world: World, stopping: AbortController): Replicas {
  const { replicas, deps, announcer } = world
  const all = (): Replica[] => [...replicas.values()]
  const byOp = (opId: OperationId): Replica | undefined => all().findLast(({ record }) => record.opIds.includes(opId))
  const status = (opId: OperationId): OpStatusReply | null => {
    const found = byOp(opId)
    return found === undefined ? null : loadStatus(opId, found.record, found.reporter.now())
  }
  const load = (order: LoadModel): Promise<Accepted> => takeOn(world, { order, isBare: false })
  const start = (order: LoadModel, isBare: boolean): Promise<Accepted> => takeOn(world, { order, isBare })
  let isResumed = false
  return {
    load,
    unload: (id, how) => unload(world, id, how),
    find: (named) => findReplica(all(), named, deps),
    findOrStart: (named) => findOrStartReplica(named, { all, start, get: (id) => replicas.get(id), deps }),
    stopBackend: (backend, how) => stopBackend(world, { backend, ...how }),
    relist: (version) => relist(world, version),
    removeModel: (model) => removeModel(world, model),
    running: () =>
      all()
        .filter((each) => !isGone(each) && each.record.order.stage_only !== true)
        .map(shown),
    status,
    async cancel(opId) {
      const found = byOp(opId)
      if (found === undefined) return null
      if (['accepted', 'staging', 'starting'].includes(stateOf(found)))
        await within(cancelWaitMs, callOff(found, because('cancelled on request'), deps), deps.clock)
      return status(opId)
    },
    admit: (id) => {
      const found = replicas.get(id)
      return found === undefined ? 'gone' : admit(found)
    },
    inFlight: () => all().reduce((sum, { inFlight }) => sum + inFlight, 0),
    openLog: ({ model, replicaId, follow, signal }) => {
      const isMeant = ({ order }: ReplicaRecord): boolean =>
        (model === null || order.model === model) && (replicaId === null || order.replica_id === replicaId)
      const which = (): ReplicaId[] => all().flatMap(({ id, record }) => (isMeant(record) ? [id] : []))
      return deps.logs.read(which, { follow, signal })
    },
    attach(voice) {
      const strangers = all().filter(({ record }) => record.node !== null && record.node !== voice.nodeId)
      for (const each of strangers)
        forget(world, each).catch((error: unknown) =>
          deps.log.error('a replica of another node was not ended', { replica_id: each.id, error }),
        )
      const detach = announcer.attach(voice)
      if (!isResumed) for (const each of all()) if (stateOf(each) === 'accepted' && !strangers.includes(each)) begin(world, each)
      isResumed = true
      return detach
    },
    forget: async () => void (await Promise.all(all().map((each) => forget(world, each)))),
    async stop() {
      stopping.abort()
      await Promise.all(all().map((each) => leaveReplica(each, deps)))
    },
  }
}

const because = (message: string): Failure => ({ code: 'cancelled', retry: 'never', message })

async function takeOn(world: World, { order, isBare }: { order: LoadModel; isBare: boolean }): Promise<Accepted> {
  const { replicas, deps, announcer } = world
  const others = [...replicas.values()].map(({ record }) => record)
  const verdict = decideLoad(order, { others, isStopping: world.isStopping(), newer: world.newer })
  if (verdict.do === 'refuse') return { accepted: false, failure: verdict.failure }
  if (verdict.do === 'join') return await join(world, order)
  const node: NodeId | null = announcer.voice()?.nodeId ?? null
  const opIds = order.op_id === undefined ? [] : [order.op_id]
  const record: ReplicaRecord = {
    format: 1,
    ...{ node, order, isBare, opIds },
    notedAt: deps.clock.now(),
    digest: null,
    listed: null,
    stage: { state: 'accepted' },
  }
  const replica = createReplica(record, world.reporterOf(record))
  // Here before anything is waited for: the same command, and another one for the slot, find it.
  replicas.set(replica.id, replica)
  replica.noted = note(replica, deps)
  try {
    await replica.noted
  } catch (error) {
    replicas.delete(replica.id)
    replica.gone.resolve()
    return { accepted: false, failure: failureOf(error) }
  }
  begin(world, replica)
  return { accepted: true }
}

/** Whatever can be known to be wrong is told at once. */
async function note(replica: Replica, deps: ReplicaDeps): Promise<void> {
  configOf(replica.record)
  using tree = await takeTree(replica.record, deps)
  deps.log.debug('a load is taken on', { ...aboutReplica(replica.record), digest: tree.digest })
  await save(replica, deps)
}

async function join({ replicas, deps, announcer }: World, { replica_id: id, op_id: opId }: LoadModel): Promise<Accepted> {
  const replica = replicas.get(id)
  if (replica === undefined) throw new Error('who is joined is here')
  try {
    await replica.noted
    if (opId !== undefined && !replica.record.opIds.includes(opId)) {
      replica.record = { ...replica.record, opIds: [...replica.record.opIds, opId].slice(-256) }
      await save(replica, deps)
    }
  } catch (error) {
    return { accepted: false, failure: failureOf(error) }
  }
  // Who asks for what is done waits for the event that says so.
  for (const event of newsOf(replica.record)) announcer.say(event)
  return { accepted: true }
}

/** In its turn: what still has its slot is on its way out. */
function begin({ replicas, deps }: World, replica: Replica): void {
  const { model, slot } = replica.record.order
  const before = [...replicas.values()].filter(
    (each) =>
      each !== replica && slot !== undefined && each.record.order.model === model && each.record.order.slot === slot && !isGone(each),
  )
  void loadReplica(replica, Promise.all(before.map(({ gone }) => gone.promise)), deps)
}

async function unload({ replicas, deps }: World, id: ReplicaId, { force }: { force: boolean }): Promise<Accepted> {
  const replica = replicas.get(id)
  if (replica === undefined || isGone(replica)) return { accepted: true }
  try {
    await replica.noted
  } catch {
    return { accepted: true }
  }
  const unloading = unloadReplica(replica, { force, because: because('unloaded before it was ready') }, deps)
  unloading.catch((error: unknown) => deps.log.error('a replica was not unloaded', { replica_id: id, error }))
  return { accepted: true }
}

async function removeModel(world: World, model: ModelName): Promise<void> {
  const own = [...world.replicas.values()].filter(({ record }) => record.order.model === model)
  const how = { force: false, because: because(`the model ${model} was removed`) }
  await Promise.all(own.map((each) => unloadReplica(each, how, world.deps)))
  await world.deps.models.remove(model)
  await Promise.all(own.map(({ record }) => drop(record, world)))
}

async function forget(world: World, replica: Replica): Promise<void> {
  await unloadReplica(replica, { force: true, because: because('its node was removed from the cluster') }, world.deps)
  await drop(replica.record, world)
}

async function drop({ order: { replica_id: id } }: ReplicaRecord, { replicas, deps }: Pick<World, 'replicas' | 'deps'>): Promise<void> {
  const replica = replicas.get(id)
  replicas.delete(id)
  await replica?.saving
  await Promise.all([deps.records.remove(id), deps.logs.remove(id)]).catch((error: unknown) =>
    deps.log.warn('what is left of a replica was not removed', { replica_id: id, error }),
  )
}

type Telling = Readonly<{ announcer: Announcer; options: ReplicasOptions; forgetOld: () => void }>

function told(replica: Replica, before: Stage, { announcer, options, forgetOld }: Telling): void {
  const { record } = replica
  const { stage } = record
  const isCrash = stage.state === 'gone' && (stage.end.how === 'failed' || (stage.end.how === 'exited' && !stage.end.isExpected))
  options.log[isCrash ? 'warn' : 'info']('a replica moved on', { ...aboutReplica(record), from: before.state })
  if (stage.state === 'starting') options.onStarted?.()
  if (stage.state === 'ready' || stage.state === 'gone') for (const event of newsOf(record)) announcer.say(event)
  if (stage.state !== 'gone') return
  if (before.state !== 'accepted' && before.state !== 'staging') options.onExited?.({ isExpected: !isCrash })
  forgetOld()
}

const recentNews = (replicas: Iterable<Replica>): ReturnType<typeof newsOf> => {
  const records = [...replicas].map(({ record }) => record)
  const ended = records.filter(({ stage }) => stage.state === 'gone').slice(-saidAgain)
  return [...records.filter(({ stage }) => stage.state !== 'gone'), ...ended].flatMap(newsOf)
}

function createReporters(announcer: Announcer, { clock, log }: { clock: Clock; log: Log }): (record: ReplicaRecord) => ProgressReporter {
  // Also after a restart higher than whatever was sent before: receivers drop what is not.
  let seq = clock.now() * 1024
  const nextSeq = (): number => (seq += 1)
  return ({ order: { op_id: opId, epoch, backend } }) => {
    const about = { opIds: opId === undefined ? [] : [opId], epoch: epoch ?? null, backend }
    return createProgressReporter({ tell: (state) => tellProgress(about, state, { announcer, log }), nextSeq, clock })
  }
}

function shown({ id, record, inFlight }: Replica): ReturnType<Replicas['running']>[number] {
  const { model, revision, backend } = record.order
  return { replicaId: id, model, revision, backend, state: stateShown(record.stage), inFlight }
}

async function within(ms: number, work: Promise<unknown>, clock: Clock): Promise<void> {
  const done = new AbortController()
  const tooLong = clock.sleep(ms, done.signal).catch(() => undefined)
  await Promise.race([work.catch(() => undefined), tooLong])
  done.abort()
}
