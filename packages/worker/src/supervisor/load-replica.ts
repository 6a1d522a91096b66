// Carries one load out: files staged, a process started from the backend's tree, and waited for until it answers.
import { join } from 'node:path'
import { abortable } from '@muster/host'
import { failureOf, FleetError, ModelConfig, type Failure } from '@muster/protocol'
import { z } from 'zod'
import type { Driver, ReplicaSpec } from '../drivers/driver.ts'
import { awaitReady } from './await-ready.ts'
import { endReplica, finish, watchExit } from './end-replica.ts'
import type { HeldTree, Tree } from './installed-backends.ts'
import { runOf, type Run } from './machine.ts'
import { isGone, move, stateOf, type Replica, type ReplicaDeps } from './replica.ts'
import type { ReplicaRecord } from './replica-record.ts'
import { spawnProcess } from './spawn-process.ts'
import { stopProcess } from './stop-process.ts'

/** `turn`: resolves when nobody else has its slot. Never rejects. */
export async function loadReplica(replica: Replica, turn: Promise<unknown>, deps: ReplicaDeps): Promise<void> {
  const { signal } = replica.calling
  const { order } = replica.record
  replica.isLoading = true
  try {
    await abortable(turn, signal)
    await move(replica, { type: 'stage' }, deps)
    replica.reporter.report({ phase: 'resolving' })
    const tree = replica.held.use(await takeTree(replica.record, deps))
    // Noted with the next step.
    replica.record = { ...replica.record, listed: tree.listed }
    const onProgress = replica.reporter.report
    const staged = replica.held.use(await deps.models.stage(order, { signal, onProgress, onSign: replica.reporter.sign }))
    signal.throwIfAborted()
    if (order.stage_only !== true) return await start(replica, { tree, modelDirectory: staged.directory }, deps)
    replica.isLoading = false
    await move(replica, { type: 'staged' }, deps)
    await finish(replica, deps)
  } catch (error) {
    await giveUp(replica, error, deps).catch((reason: unknown) => deps.log.error('a load was not given up properly', { error: reason }))
  } finally {
    replica.isLoading = false
  }
}

/** Throws FleetError: it is not here, or nobody here can start it. */
export async function takeTree({ order: { backend, digest } }: ReplicaRecord, { backends, drivers }: ReplicaDeps): Promise<HeldTree> {
  const tree = await backends.take(backend, digest)
  if (tree === null) {
    const what = digest === undefined ? backend : `${backend} (${digest})`
    throw refusal('not_found', 'backoff', `the backend ${what} is not installed on this node: install it here first`)
  }
  if (drivers[driverNameOf(tree)] !== undefined) return tree
  tree[Symbol.dispose]()
  throw refusal('incompatible', 'never', `${backend} needs the driver ${driverNameOf(tree)}, which this worker does not have`)
}

/** An artifact that has only its `run.sh` is a LocalAI backend. */
const driverNameOf = ({ description }: Pick<Tree, 'description'>): Driver['name'] => description?.driver ?? 'localai-grpc'

/** As the controllers have it now, which may be newer than we are: what we don't know is not for us. */
const KnownConfig = z.object(ModelConfig.shape)

/** Throws FleetError. */
export function configOf({ order }: Pick<ReplicaRecord, 'order'>): ModelConfig {
  const parsed = KnownConfig.safeParse({ name: order.model, backend: order.backend, ...order.config })
  if (parsed.success) return parsed.data
  throw refusal('invalid', 'never', `the configuration of ${order.model} can't be used: ${z.prettifyError(parsed.error).slice(0, 2000)}`)
}

export function specOf(record: ReplicaRecord, tree: Tree, modelDirectory: string): ReplicaSpec {
  const { replica_id: replicaId, model, revision, backend } = record.order
  const config = configOf(record)
  const { model: file } = config.parameters
  return {
    replicaId,
    model,
    revision,
    backend,
    backendDigest: tree.digest,
    directory: tree.directory,
    description: tree.description,
    config,
    modelDirectory,
    modelPath: file === undefined ? null : join(modelDirectory, file),
  }
}

export function driverOf(tree: Pick<Tree, 'description'>, { drivers }: Pick<ReplicaDeps, 'drivers'>): Driver {
  const driver = drivers[driverNameOf(tree)]
  if (driver === undefined) throw refusal('incompatible', 'never', `this worker has no driver ${driverNameOf(tree)}`)
  return driver
}

async function start(
  replica: Replica,
  { tree, modelDirectory }: { tree: HeldTree; modelDirectory: string },
  deps: ReplicaDeps,
): Promise<void> {
  const { signal } = replica.calling
  const driver = driverOf(tree, deps)
  const spec = specOf(replica.record, tree, modelDirectory)
  replica.reporter.report({ phase: 'starting' })
  const address = await deps.addresses.choose(driver.addressKind(spec), replica.id)
  await deps.step('W.spawn.before')
  signal.throwIfAborted()
  const { workerId, env, logs } = deps
  const plan = { directory: tree.directory, logPath: logs.path(replica.id), replicaId: replica.id, workerId, env }
  const process = await spawnProcess({ ...plan, launch: driver.launch(spec, address) })
  replica.process = process
  replica.address = address
  await deps.step('W.spawn.after_fork')
  const run: Run = { process: process.identity, address, digest: tree.digest, modelDirectory }
  await move(replica, { type: 'spawned', run }, deps)
  watchExit(replica, process, deps)
  await deps.step('W.spawn.after_record')
  await awaitReady(replica, { spec, address, driver, process }, deps)
  await deps.step('W.ready.before')
  await beServing(replica, { spec, driver }, deps)
  signal.throwIfAborted()
  replica.isLoading = false
}

/** From here on it may be asked. */
export async function beServing(
  replica: Replica,
  { spec, driver }: { spec: ReplicaSpec; driver: Driver },
  deps: ReplicaDeps,
): Promise<void> {
  if (replica.address === null) throw new Error('a process that serves has an address')
  replica.connection = driver.connect(spec, replica.address)
  if (stateOf(replica) === 'starting') await move(replica, { type: 'ready' }, deps)
  replica.reporter.end('succeeded')
  replica.came.resolve()
}

async function giveUp(replica: Replica, error: unknown, deps: ReplicaDeps): Promise<void> {
  const run = runOf(replica.record.stage)
  // Whoever watches it tells how it ended.
  if (isGone(replica) || (run !== null && replica.process?.hasExited() === true)) return await replica.gone.promise
  if (run === null && replica.process !== null)
    await stopProcess({ replicaId: replica.id, leader: replica.process.identity }, { graceMs: 0 }, deps)
  if (replica.isLeaving) return await leaveBehind(replica, deps)
  if (!(error instanceof FleetError)) deps.log.error('a load failed by a mistake of ours', { replica_id: replica.id, error })
  await endReplica(replica, replica.calledOff ?? failureOf(error), deps)
}

/** Its worker stops: the next start carries it out from its beginning. */
async function leaveBehind(replica: Replica, deps: ReplicaDeps): Promise<void> {
  const run = runOf(replica.record.stage)
  if (run !== null) {
    replica.stopping = stopProcess({ replicaId: replica.id, leader: run.process }, { graceMs: deps.pace.graceMs }, deps)
    return await replica.gone.promise
  }
  await move(replica, { type: 'again' }, deps)
  await finish(replica, deps)
}

const refusal = (code: Failure['code'], retry: Failure['retry'], message: string): FleetError => new FleetError({ code, retry, message })
