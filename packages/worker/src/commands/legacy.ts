// The protocol of the original's controllers (LocalAI): a command has neither `async` nor a generation and is answered when
// the work has ended; an install that names a model also starts a process, and names it by model and slot.
// `isLegacyServed` in the command context turns all of it off; then this file can go.
import { abortable, isAlive, newId } from '@muster/host'
import {
  failureOf,
  FleetError,
  gatewayPaths,
  ReplicaId,
  type BackendName,
  type CommandReply,
  type LoadModel,
  type ModelName,
} from '@muster/protocol'
import type { BackendCommand } from '../operations/journal.ts'
import { stateOf, type Replica } from '../supervisor/replica.ts'
import { runOf } from '../supervisor/replica.pure.ts'
import type { Replicas } from '../supervisor/replicas.ts'
import { failedReply, type CommandContext } from './command.ts'

export type ReplicaName = Readonly<{ backend: BackendName; model: ModelName; slot: number }>

/** Replies when the work has ended. */
export async function replyAtEnd(command: BackendCommand, { operations, signal, isLegacyServed }: CommandContext): Promise<CommandReply> {
  if (!isLegacyServed) return failedReply(switchedOff)
  const submitted = await operations.submit(command)
  if (!submitted.accepted) return failedReply(submitted.failure)
  const outcome = await abortable(submitted.ended, signal)
  return outcome.state === 'succeeded' ? { success: true } : failedReply(outcome.failure)
}

const switchedOff = {
  code: 'incompatible',
  retry: 'never',
  message: 'this worker serves asynchronous commands only; update the controller that sent this one',
} as const

type InstallAndStart = Readonly<{ command: BackendCommand; isAsync: boolean; name: ReplicaName }>

/**
 * Installs a backend and starts a process of it. A live process is answered at once. A forced install is a `reinstall`: the installer
 * stops the processes of the backend, so that a new one starts on another port.
 */
export async function installAndStart({ command, isAsync, name }: InstallAndStart, context: CommandContext): Promise<CommandReply> {
  const { replicas, operations, signal, log } = context
  if (!context.isLegacyServed) return failedReply(switchedOff)
  if (command.force !== true) {
    const running = await abortable(findReplica(name, context), signal).catch(() => null)
    if (running !== null) return isAsync ? { accepted: true } : addressReply(running, context)
  }
  if (isAsync) {
    const submitted = await operations.submit(command)
    if (!submitted.accepted) return { accepted: false, failure: submitted.failure }
    submitted.ended
      .then(async ({ state }) => state === 'succeeded' && (await findOrStartReplica(name, { replicas, log })))
      .catch((error: unknown) => log.warn('backend installed, but its process did not start', { ...name, error }))
    return { accepted: true }
  }
  const installed = await replyAtEnd(command, context)
  if (!('success' in installed) || !installed.success) return installed
  try {
    return addressReply(await abortable(findOrStartReplica(name, context), signal), context)
  } catch (error) {
    return failedReply(failureOf(error))
  }
}

const addressReply = (id: ReplicaId, { gatewayUrl }: CommandContext): CommandReply => ({
  success: true,
  address: `${gatewayUrl().replace(/\/$/, '')}${gatewayPaths.replica(id)}`,
})

type ReplicaSource = Pick<CommandContext, 'log'> & Readonly<{ replicas: Pick<Replicas, 'all' | 'load' | 'driverNameOf'> }>

/** The ready replica of that name, once its process is proven alive; null: there is none. */
export async function findReplica(name: ReplicaName, { replicas, log }: ReplicaSource): Promise<ReplicaId | null> {
  const found = replicas
    .all()
    .findLast((each) => hasName(each, name) && ['accepted', 'staging', 'starting', 'ready'].includes(stateOf(each)))
  if (found === undefined) return null
  const run = runOf(found.record.stage)
  if (run !== null && !isAlive(run.process)) {
    log.warn('replica is stale: its process is gone; starting another one', { replica_id: found.id, pid: run.process.pid })
    await found.gone.promise
    return null
  }
  await found.ready.promise
  return found.id
}

/** Resolves when the replica is ready. Throws FleetError. */
export async function findOrStartReplica(name: ReplicaName, source: ReplicaSource): Promise<ReplicaId> {
  const found = await findReplica(name, source).catch(() => null)
  if (found !== null) return found
  const { order, isBare } = await loadFor(name, source)
  const accepted = await source.replicas.load(order, { isBare })
  if (!accepted.accepted) throw new FleetError(accepted.failure)
  await source.replicas.all().find(({ id }) => id === order.replica_id)?.ready.promise
  return order.replica_id
}

const hasName = ({ record: { order } }: Replica, { backend, model, slot }: ReplicaName): boolean =>
  order.backend === backend && order.model === model && (order.slot ?? 0) === slot && order.stage_only !== true

/** The last load of the model on this node; for a LocalAI backend, a process without a model, which its controller loads. */
async function loadFor({ backend, model, slot }: ReplicaName, { replicas }: ReplicaSource): Promise<{ order: LoadModel; isBare: boolean }> {
  const driver = await replicas.driverNameOf(backend)
  if (driver === null) throw notInstalled(backend)
  const replica_id = ReplicaId.parse(newId())
  const isBare = driver === 'localai-grpc'
  if (isBare) return { order: { model, revision: '', replica_id, backend, config: {}, files: [], slot }, isBare }
  const last = replicas.all().findLast(({ record }) => record.order.model === model && record.order.backend === backend && !record.isBare)
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
    message: `${model} was never loaded on this node, so its files and options are unknown here; load it through the API of a controller`,
  })
