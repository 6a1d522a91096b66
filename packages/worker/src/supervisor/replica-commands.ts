// Commands about replicas: load, unload, stop a backend, relist a version, remove a model, forget a node.
import {
  failureOf,
  type BackendName,
  type Digest,
  type Failure,
  type LoadModel,
  type ModelName,
  type NodeId,
  type ReplicaId,
} from '@muster/protocol'
import type { EventPublisher, ProgressReporter } from '../work/reports.ts'
import type { WorkRegistry } from '../work/work-registry.ts'
import { decideLoad, eventsOf, loadStatus, replicaFields } from './replica.pure.ts'
import { createReplica, isGone, save, stateOf, type Replica, type ReplicaDeps, type ReplicaRecord } from './replica.ts'
import type { LoadReply } from './replicas.ts'
import { cancelReplica, configOf, loadReplica, takeTree, unloadReplica } from './run-replica.ts'

/** The state that all commands share. */
export type Supervisor = Readonly<{
  replicas: Map<ReplicaId, Replica>
  work: WorkRegistry
  deps: ReplicaDeps
  publisher: EventPublisher
  reporterOf: (record: ReplicaRecord) => ProgressReporter
  /** Replicas whose records a newer version wrote. */
  newer: readonly ReplicaId[]
  isStopping: () => boolean
}>

const cancelled = (message: string): Failure => ({ code: 'cancelled', retry: 'never', message })

export async function acceptLoad(supervisor: Supervisor, { order, isBare }: { order: LoadModel; isBare: boolean }): Promise<LoadReply> {
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
  using tree = await takeTree(replica.record, deps)
  deps.log.debug('load accepted', { ...replicaFields(replica.record), digest: tree.digest })
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
export function registerReplica({ work, deps }: Pick<Supervisor, 'work' | 'deps'>, replica: Replica): void {
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
export function startLoad({ replicas, deps }: Supervisor, replica: Replica): void {
  const { model, slot } = replica.record.order
  const before = [...replicas.values()].filter(
    (each) =>
      each !== replica && slot !== undefined && each.record.order.model === model && each.record.order.slot === slot && !isGone(each),
  )
  void loadReplica(replica, Promise.all(before.map(({ gone }) => gone.promise)), deps)
}

export async function unload({ replicas, deps }: Supervisor, id: ReplicaId, { force }: { force: boolean }): Promise<LoadReply> {
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
export type BackendStop = Readonly<{ backend: BackendName | null; force: boolean; only?: 'outdated' }>

/** Stops the processes of a backend, whichever of its names they were loaded by. Resolves when they have exited. */
export async function stopBackend({ replicas, deps }: Supervisor, { backend, force, only }: BackendStop): Promise<void> {
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

/** A version that is listed by another of its digests now. `names`: every digest it has, its tree's included. */
export type RelistedVersion = Readonly<{ names: readonly Digest[]; listed: Digest }>

/** Replicas report the listed digest of their version; controllers would replace a replica that reports another one. */
export async function relist({ replicas, deps, publisher }: Supervisor, { names, listed }: RelistedVersion): Promise<void> {
  for (const replica of replicas.values()) {
    const reported = replica.record.listed ?? replica.record.digest
    if (isGone(replica) || reported === null || reported === listed || !names.includes(reported)) continue
    replica.record = { ...replica.record, listed }
    await save(replica, deps)
    for (const event of eventsOf(replica.record)) publisher.publish(event)
  }
}

export async function removeModel(supervisor: Supervisor, model: ModelName): Promise<void> {
  const own = [...supervisor.replicas.values()].filter(({ record }) => record.order.model === model)
  const how = { force: false, because: cancelled(`the model ${model} was removed`) }
  await Promise.all(own.map((each) => unloadReplica(each, how, supervisor.deps)))
  await supervisor.deps.models.remove(model)
  await Promise.all(own.map(({ record }) => dropReplica(record, supervisor)))
}

export async function forgetReplica(supervisor: Supervisor, replica: Replica): Promise<void> {
  const because = cancelled('its node was removed from the cluster')
  await unloadReplica(replica, { force: true, because }, supervisor.deps)
  await dropReplica(replica.record, supervisor)
}

export async function dropReplica({ order: { replica_id: id } }: ReplicaRecord, supervisor: Supervisor): Promise<void> {
  const { replicas, deps } = supervisor
  const replica = replicas.get(id)
  replicas.delete(id)
  if (replica !== undefined) releaseReplica(supervisor, replica)
  await replica?.saving
  await Promise.all([deps.records.remove(id), deps.logs.remove(id)]).catch((error: unknown) =>
    deps.log.warn('cannot remove the files of a replica', { replica_id: id, error }),
  )
}
