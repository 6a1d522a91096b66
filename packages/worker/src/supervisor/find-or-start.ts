// Replicas as controllers name them that know no `model.load`: by model and number. What is found is proven to live; what
// is not there is started, from the last load of that model, or (LocalAI backends) as a process without a model.
import { isAlive, newId } from '@muster/host'
import { FleetError, ReplicaId, type LoadModel } from '@muster/protocol'
import { runOf } from './machine.ts'
import { stateOf, type Replica, type ReplicaDeps } from './replica.ts'
import type { Accepted, NamedReplica } from './replicas.ts'

export type Starting = Readonly<{
  all: () => readonly Replica[]
  get: (id: ReplicaId) => Replica | undefined
  start: (order: LoadModel, isBare: boolean) => Promise<Accepted>
  deps: ReplicaDeps
}>

export async function findReplica(all: readonly Replica[], named: NamedReplica, { log }: ReplicaDeps): Promise<ReplicaId | null> {
  const found = all.findLast((each) => isMeant(each, named) && ['accepted', 'staging', 'starting', 'ready'].includes(stateOf(each)))
  if (found === undefined) return null
  const run = runOf(found.record.stage)
  if (run !== null && !isAlive(run.process)) {
    log.warn('a stale entry: its process is gone; another one is started', { replica_id: found.id, pid: run.process.pid })
    await found.gone.promise
    return null
  }
  await found.came.promise
  return found.id
}

export async function findOrStartReplica(named: NamedReplica, starting: Starting): Promise<ReplicaId> {
  const found = await findReplica(starting.all(), named, starting.deps).catch(() => null)
  if (found !== null) return found
  const { order, isBare } = await orderFor(named, starting)
  const accepted = await starting.start(order, isBare)
  if (!accepted.accepted) throw new FleetError(accepted.failure)
  await starting.get(order.replica_id)?.came.promise
  return order.replica_id
}

const isMeant = ({ record: { order } }: Replica, { backend, model, slot }: NamedReplica): boolean =>
  order.backend === backend && order.model === model && (order.slot ?? 0) === slot && order.stage_only !== true

async function orderFor({ backend, model, slot }: NamedReplica, { all, deps }: Starting): Promise<{ order: LoadModel; isBare: boolean }> {
  using tree = await deps.backends.take(backend, undefined)
  if (tree === null) throw notInstalled(backend)
  const replica_id = ReplicaId.parse(newId())
  const last = all().findLast(({ record }) => record.order.model === model && record.order.backend === backend && !record.isBare)
  const isBare = (tree.description?.driver ?? 'localai-grpc') === 'localai-grpc'
  if (isBare) return { order: { model, revision: '', replica_id, backend, config: {}, files: [], slot }, isBare }
  if (last === undefined) throw neverLoaded(model)
  const { op_id: _op, epoch: _epoch, digest: _digest, stage_only: _only, ...order } = last.record.order
  return { order: { ...order, replica_id, slot }, isBare }
}

const notInstalled = (backend: string): FleetError =>
  new FleetError({ code: 'not_found', retry: 'backoff', message: `the backend ${backend} is not installed on this node` })

const neverLoaded = (model: string): FleetError =>
  new FleetError({
    code: 'invalid',
    retry: 'never',
    message: `${model} was never loaded on this node, so its files and options are not known here: load it through the API of a controller`,
  })
