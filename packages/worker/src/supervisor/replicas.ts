// The replicas of a worker, for commands, gateway and heartbeat: one process per accepted load. After the interface follow the
// commands (load, unload, stop a backend, relist a version, remove a model, forget a node), then the events that moves publish.
import { createHash } from 'node:crypto'
import type { Readable } from 'node:stream'
import { noStep, type Clock, type DataDir, type Log, type Step } from '@muster/host'
import {
  failureOf,
  type BackendName,
  type Digest,
  type Failure,
  type LoadModel,
  type ModelName,
  type NodeId,
  type OperationId,
  type ReplicaId,
  type ReplicaState,
} from '@muster/protocol'
import type { BackendConnection, Driver } from '../drivers/driver.ts'
import {
  createEventPublisher,
  createProgressReporter,
  type EventPublisher,
  type NodeBus,
  type OutgoingEvent,
  type ProgressReporter,
  publishProgress,
} from '../work/reports.ts'
import type { WorkRegistry } from '../work/work-registry.ts'
import { adoptReplicas } from './adopt.ts'
import { openAddresses } from './backend-process.ts'
import { openLogFiles } from './log-files.ts'
import { decideLoad, eventsOf, findPrunable, loadStatus, publicState, replicaFields, type Stage } from './replica.pure.ts'
import {
  admit,
  createReplica,
  isGone,
  openReplicaRecords,
  save,
  stateOf,
  type Pace,
  type Replica,
  type ReplicaDeps,
  type ReplicaRecord,
} from './replica.ts'
import { cancelReplica, configOf, driverNameOf, killReplica, loadReplica, shutDownReplica, takeTree, unloadReplica } from './run-replica.ts'

export type LoadReply = Readonly<{ accepted: true } | { accepted: false; failure: Failure }>

export type RunningReplica = Readonly<{
  replicaId: ReplicaId
  model: ModelName
  revision: string
  backend: BackendName
  state: ReplicaState
  inFlight: number
}>

/** Permission to send one request to a replica; disposed of when the request is over. */
export interface Admission extends Disposable {
  readonly connection: BackendConnection
  /** Requests that the replica serves now, this one included. */
  inFlight(): number
}

export type LogQuery = Readonly<{
  /** Null: all models, all replicas. */
  model: ModelName | null
  replicaId: ReplicaId | null
  follow: boolean
  /** Aborts when the reader is gone. */
  signal: AbortSignal
}>

/** A version that is listed by another of its digests now. `names`: every digest it has, its tree's included. */
type RelistedVersion = Readonly<{ names: readonly Digest[]; listed: Digest }>

export interface Replicas {
  /** Resolves when the load is stored, or refused. The same command again joins. `isBare`: start a process without a model. */
  load(order: LoadModel, how?: { isBare: boolean }): Promise<LoadReply>
  /** Drains (unless forced) and stops exactly this process; accepted once stored. An unknown replica is unloaded already. */
  unload(replicaId: ReplicaId, how: { force: boolean }): Promise<LoadReply>
  /** Stops every process of a backend (null: of all), or those of outdated versions; resolves when they have exited. */
  stopBackend(backend: BackendName | null, how: { force: boolean; only?: 'outdated' }): Promise<void>
  /** Makes processes of this version report the digest under which it is listed now. */
  relist(version: RelistedVersion): Promise<void>
  /** Stops the replicas of a model and removes its files; resolves when both are gone. */
  removeModel(model: ModelName): Promise<void>
  running(): readonly RunningReplica[]
  /** All replicas that are not forgotten, also those that have ended. */
  all(): readonly Replica[]
  /** The driver of an installed backend; null: not installed. */
  driverNameOf(backend: BackendName): Promise<Driver['name'] | null>
  /** For the gateway: counts as in flight until it is disposed of. */
  admit(replicaId: ReplicaId): Admission | 'gone' | 'draining'
  inFlight(): number
  /** The output of processes. */
  openLog(query: LogQuery): Readable
  /** Publishes on this bus from now on; returns how to detach. The first call resumes the loads of an earlier run. */
  attach(nodeBus: NodeBus): () => void
  /** The node was removed from its cluster: stops all processes and drops their records. */
  forget(): Promise<void>
  /** Stops every process: a worker that stops leaves nothing behind. */
  stop(): Promise<void>
  /** Kills every process, for a worker that exits at once. */
  kill(): Promise<void>
}

export type ReplicasOptions = Pick<ReplicaDeps, 'backends' | 'models' | 'drivers' | 'env' | 'clock' | 'log'> &
  Readonly<{
    dataDir: Pick<DataDir, 'root' | 'path'>
    work: WorkRegistry
    onStarted?: () => void
    onExited?: (how: { isExpected: boolean }) => void
    pace?: Partial<Pace>
    step?: Step | undefined
  }>

const defaultPace: Pace = { silenceMs: 120_000, graceMs: 10_000, drainMs: 300_000, leaveMs: 5_000 }
/** Ended replicas whose events are published again on each connection. */
const republishedEnds = 64

/** The state that all commands share. */
type Supervisor = Readonly<{
  replicas: Map<ReplicaId, Replica>
  work: WorkRegistry
  deps: ReplicaDeps
  publisher: EventPublisher
  reporterOf: (record: ReplicaRecord) => ProgressReporter
  /** Replicas whose records a newer version wrote. */
  newer: readonly ReplicaId[]
  isStopping: () => boolean
}>

export async function openReplicas(options: ReplicasOptions): Promise<Replicas> {
  const { dataDir, work, backends, models, drivers, env, clock, log, step = noStep } = options
  const opened = await openReplicaRecords({ directory: dataDir.path('replicas'), log })
  const stopping = new AbortController()
  const replicas = new Map<ReplicaId, Replica>()
  const publisher = createEventPublisher({ recent: () => recentEvents(replicas.values()), clock, log })
  const reporterOf = createReporters(publisher, { clock, log })
  const deps: ReplicaDeps = {
    records: opened.records,
    ...{ backends, models, drivers, env, clock, log, step },
    logs: await openLogFiles({ directory: dataDir.path('logs'), clock, log }),
    addresses: await openAddresses({ place: dataDir.path('run') }),
    workerId: createHash('sha256').update(dataDir.root).digest('hex').slice(0, 32),
    pace: { ...defaultPace, ...options.pace },
    onMoved: (replica, before) => reportMove(replica, before, { publisher, options, prune }),
  }
  const supervisor: Supervisor = {
    replicas,
    work,
    deps,
    publisher,
    reporterOf,
    newer: opened.newer,
    isStopping: () => stopping.signal.aborted,
  }
  const prune = (): void => {
    for (const old of findPrunable([...replicas.values()].map(({ record }) => record))) void dropReplica(old, supervisor)
  }
  for (const record of opened.found) {
    const replica = createReplica(record, reporterOf(record))
    replicas.set(replica.id, replica)
    registerReplica(supervisor, replica)
  }
  await adoptReplicas([...replicas.values()], opened.newer, deps)
  return createReplicas(supervisor, stopping)
}

function createReplicas(supervisor: Supervisor, stopping: AbortController): Replicas {
  const { replicas, deps, publisher } = supervisor
  const all = (): Replica[] => [...replicas.values()]
  let isResumed = false
  return {
    load: (order, { isBare } = { isBare: false }) => acceptLoad(supervisor, { order, isBare }),
    unload: (id, how) => unload(supervisor, id, how),
    stopBackend: (backend, how) => stopBackend(supervisor, { backend, ...how }),
    relist: (version) => relist(supervisor, version),
    removeModel: (model) => removeModel(supervisor, model),
    running: () =>
      all()
        .filter((each) => !isGone(each) && each.record.order.stage_only !== true)
        .map(describeRunning),
    all,
    async driverNameOf(backend) {
      using tree = await deps.backends.take(backend, undefined)
      return tree === null ? null : driverNameOf(tree)
    },
    admit: (id) => {
      const found = replicas.get(id)
      return found === undefined ? 'gone' : admit(found)
    },
    inFlight: () => all().reduce((sum, { inFlight }) => sum + inFlight, 0),
    openLog: ({ model, replicaId, follow, signal }) => {
      const matches = ({ order }: ReplicaRecord): boolean =>
        (model === null || order.model === model) && (replicaId === null || order.replica_id === replicaId)
      const which = (): ReplicaId[] => all().flatMap(({ id, record }) => (matches(record) ? [id] : []))
      return deps.logs.read(which, { follow, signal })
    },
    attach(nodeBus) {
      const foreign = all().filter(({ record }) => record.node !== null && record.node !== nodeBus.nodeId)
      for (const each of foreign)
        forgetReplica(supervisor, each).catch((error: unknown) =>
          deps.log.error('cannot stop a replica of another node', { replica_id: each.id, error }),
        )
      const detach = publisher.attach(nodeBus)
      if (!isResumed) for (const each of all()) if (stateOf(each) === 'accepted' && !foreign.includes(each)) startLoad(supervisor, each)
      isResumed = true
      return detach
    },
    forget: async () => void (await Promise.all(all().map((each) => forgetReplica(supervisor, each)))),
    async stop() {
      stopping.abort()
      await Promise.all(all().map((each) => shutDownReplica(each, deps)))
    },
    async kill() {
      stopping.abort()
      await Promise.all(all().map((each) => killReplica(each, deps)))
    },
  }
}

const cancelled = (message: string): Failure => ({ code: 'cancelled', retry: 'never', message })

async function acceptLoad(supervisor: Supervisor, { order, isBare }: { order: LoadModel; isBare: boolean }): Promise<LoadReply> {
  const { replicas, deps, publisher } = supervisor
  const others = [...replicas.values()].map(({ record }) => record)
  const verdict = decideLoad(order, { others, isStopping: supervisor.isStopping(), newer: supervisor.newer })
  if (verdict.do === 'refuse') return { accepted: false, failure: verdict.failure }
  if (verdict.do === 'join') return await joinLoad(supervisor, order)
  const node: NodeId | null = publisher.nodeBus()?.nodeId ?? null
  const opIds = order.op_id === undefined ? [] : [order.op_id]
  const record: ReplicaRecord = {
    format: 1,
    ...{ node, order, isBare, opIds },
    notedAt: deps.clock.now(),
    digest: null,
    listed: null,
    stage: { state: 'accepted' },
  }
  const replica = createReplica(record, supervisor.reporterOf(record))
  // In the map before the first await: the same command, and another one for the slot, find it.
  replicas.set(replica.id, replica)
  registerReplica(supervisor, replica)
  replica.recorded = checkAndSave(replica, deps)
  try {
    await replica.recorded
  } catch (error) {
    replicas.delete(replica.id)
    releaseReplica(supervisor, replica)
    replica.gone.resolve()
    return { accepted: false, failure: failureOf(error) }
  }
  startLoad(supervisor, replica)
  return { accepted: true }
}

/** Refuses a load that cannot succeed before it is stored. */
async function checkAndSave(replica: Replica, deps: ReplicaDeps): Promise<void> {
  configOf(replica.record)
  using tree = replica.record.order.stage_only === true ? null : await takeTree(replica.record, deps)
  deps.log.debug('load accepted', { ...replicaFields(replica.record), digest: tree?.digest ?? null })
  await save(replica, deps)
}

async function joinLoad(supervisor: Supervisor, { replica_id: id, op_id: opId }: LoadModel): Promise<LoadReply> {
  const { replicas, deps, publisher } = supervisor
  const replica = replicas.get(id)
  if (replica === undefined) throw new Error('a joined replica is known')
  try {
    await replica.recorded
    if (opId !== undefined && !replica.record.opIds.includes(opId)) {
      replica.record = { ...replica.record, opIds: [...replica.record.opIds, opId].slice(-256) }
      registerReplica(supervisor, replica)
      await save(replica, deps)
    }
  } catch (error) {
    return { accepted: false, failure: failureOf(error) }
  }
  // The sender waits for the event, also when the load has ended.
  for (const event of eventsOf(replica.record)) publisher.publish(event)
  return { accepted: true }
}

/** Makes a load known by its operation IDs. */
function registerReplica({ work, deps }: Pick<Supervisor, 'work' | 'deps'>, replica: Replica): void {
  replica.registered ??= {
    status: (opId) => loadStatus(opId, replica.record, replica.reporter.now()),
    async cancel() {
      if (['accepted', 'staging', 'starting'].includes(stateOf(replica)))
        await cancelReplica(replica, cancelled('cancelled on request'), deps)
    },
  }
  for (const opId of replica.record.opIds) work.register(opId, replica.registered)
}

function releaseReplica({ work }: Pick<Supervisor, 'work'>, { registered, record }: Replica): void {
  if (registered !== null) for (const opId of record.opIds) work.release(opId, registered)
}

/** Starts the load once no other replica has its slot. */
function startLoad({ replicas, deps }: Supervisor, replica: Replica): void {
  const { model, slot } = replica.record.order
  const before = [...replicas.values()].filter(
    (each) =>
      each !== replica && slot !== undefined && each.record.order.model === model && each.record.order.slot === slot && !isGone(each),
  )
  void loadReplica(replica, Promise.all(before.map(({ gone }) => gone.promise)), deps)
}

async function unload({ replicas, deps }: Supervisor, id: ReplicaId, { force }: { force: boolean }): Promise<LoadReply> {
  const replica = replicas.get(id)
  if (replica === undefined || isGone(replica)) return { accepted: true }
  try {
    await replica.recorded
  } catch {
    return { accepted: true }
  }
  const unloading = unloadReplica(replica, { force, because: cancelled('unloaded before it was ready') }, deps)
  unloading.catch((error: unknown) => deps.log.error('cannot unload a replica', { replica_id: id, error }))
  return { accepted: true }
}

/** `backend`: null means all. `only`: processes of another version than the one in use. */
type BackendStop = Readonly<{ backend: BackendName | null; force: boolean; only?: 'outdated' }>

/** Stops the processes of a backend, whichever of its names they were loaded by. Resolves when they have exited. */
async function stopBackend({ replicas, deps }: Supervisor, { backend, force, only }: BackendStop): Promise<void> {
  const inUse = backend === null ? null : await treeInUse(backend, deps)
  const runsBackend = async ({ record: { order, digest } }: Replica): Promise<boolean> => {
    if (backend === null || order.backend === backend) return true
    return inUse !== null && (digest === inUse || (await treeInUse(order.backend, deps)) === inUse)
  }
  const stopped: Replica[] = []
  for (const each of [...replicas.values()].filter((replica) => !isGone(replica))) {
    const isCurrent = inUse !== null && each.record.digest === inUse
    if (!(only === 'outdated' && isCurrent) && (await runsBackend(each))) stopped.push(each)
  }
  const because = cancelled(`the processes of ${backend === null ? 'every backend' : `the backend ${backend}`} were stopped`)
  await Promise.all(stopped.map((each) => unloadReplica(each, { force, because }, deps)))
}

async function treeInUse(backend: BackendName, { backends }: ReplicaDeps): Promise<Digest | null> {
  using tree = await backends.take(backend, undefined)
  return tree?.digest ?? null
}

/** Replicas report the listed digest of their version; controllers would replace a replica that reports another one. */
async function relist({ replicas, deps, publisher }: Supervisor, { names, listed }: RelistedVersion): Promise<void> {
  for (const replica of replicas.values()) {
    const reported = replica.record.listed ?? replica.record.digest
    if (isGone(replica) || reported === null || reported === listed || !names.includes(reported)) continue
    replica.record = { ...replica.record, listed }
    await save(replica, deps)
    for (const event of eventsOf(replica.record)) publisher.publish(event)
  }
}

async function removeModel(supervisor: Supervisor, model: ModelName): Promise<void> {
  const own = [...supervisor.replicas.values()].filter(({ record }) => record.order.model === model)
  const how = { force: false, because: cancelled(`the model ${model} was removed`) }
  await Promise.all(own.map((each) => unloadReplica(each, how, supervisor.deps)))
  await supervisor.deps.models.remove(model)
  await Promise.all(own.map(({ record }) => dropReplica(record, supervisor)))
}

async function forgetReplica(supervisor: Supervisor, replica: Replica): Promise<void> {
  const because = cancelled('its node was removed from the cluster')
  await unloadReplica(replica, { force: true, because }, supervisor.deps)
  await dropReplica(replica.record, supervisor)
}

async function dropReplica({ order: { replica_id: id } }: ReplicaRecord, supervisor: Supervisor): Promise<void> {
  const { replicas, deps } = supervisor
  const replica = replicas.get(id)
  replicas.delete(id)
  if (replica !== undefined) releaseReplica(supervisor, replica)
  await replica?.saving
  await Promise.all([deps.records.remove(id), deps.logs.remove(id)]).catch((error: unknown) =>
    deps.log.warn('cannot remove the files of a replica', { replica_id: id, error }),
  )
}

type MoveReport = Readonly<{ publisher: EventPublisher; options: ReplicasOptions; prune: () => void }>

function reportMove(replica: Replica, before: Stage, { publisher, options, prune }: MoveReport): void {
  const { record } = replica
  const { stage } = record
  const isCrash = stage.state === 'gone' && (stage.end.how === 'failed' || (stage.end.how === 'exited' && !stage.end.isExpected))
  options.log[isCrash ? 'warn' : 'info']('replica changed state', { ...replicaFields(record), from: before.state })
  if (stage.state === 'starting') options.onStarted?.()
  if (stage.state === 'ready' || stage.state === 'gone') for (const event of eventsOf(record)) publisher.publish(event)
  if (stage.state !== 'gone') return
  if (before.state !== 'accepted' && before.state !== 'staging') options.onExited?.({ isExpected: !isCrash })
  prune()
}

function recentEvents(replicas: Iterable<Replica>): OutgoingEvent[] {
  const records = [...replicas].map(({ record }) => record)
  const ended = records.filter(({ stage }) => stage.state === 'gone').slice(-republishedEnds)
  return [...records.filter(({ stage }) => stage.state !== 'gone'), ...ended].flatMap(eventsOf)
}

function createReporters(
  publisher: EventPublisher,
  { clock, log }: { clock: Clock; log: Log },
): (record: ReplicaRecord) => ProgressReporter {
  // Higher after a restart than any number sent before: receivers drop lower ones.
  let seq = clock.now() * 1024
  const nextSeq = (): number => (seq += 1)
  return ({ order: { op_id: opId, epoch, backend } }) => {
    const opIds: OperationId[] = opId === undefined ? [] : [opId]
    const target = { opIds, epoch: epoch ?? null, backend }
    return createProgressReporter({ publish: (state) => publishProgress(target, state, { publisher, log }), nextSeq, clock })
  }
}

function describeRunning({ id, record, inFlight }: Replica): RunningReplica {
  const { model, revision, backend } = record.order
  return { replicaId: id, model, revision, backend, state: publicState(record.stage), inFlight }
}
