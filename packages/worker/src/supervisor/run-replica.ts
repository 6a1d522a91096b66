// Runs one replica from its load to its end. A load stages the model's files, starts a process from the backend's tree, and waits
// until the process answers for the model; it has no time limit, only a limit on silence: large models take long. A replica ends
// because a command drains and stops it, or because its process exits. It is gone only when none of its processes is left.
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { z } from 'zod'
import { abortable, type Clock, type Log, settlesWithin } from '@muster/host'
import { type BackendName, type Digest, type Failure, failureOf, FleetError, ModelConfig, type ReplicaId } from '@muster/protocol'
import { showAddress, type BackendAddress, type Driver, type ReadinessPoll, type ReplicaSpec } from '../drivers/driver.ts'
import type { BackendStore } from '../storage/backend-store.ts'
import { storageFailureOf } from '../storage/disk-space.ts'
import { listedDigest, matchesDigest } from '../storage/records.ts'
import type { SignOptions } from '../storage/trees.ts'
import type { BackendDescription } from '../storage/unpack/tree-manifest.ts'
import { findListener, type LeadProcess, spawnProcess, stopProcess } from './backend-process.ts'
import { type Run, runOf, silenceFailure, withOutput } from './replica.pure.ts'
import { isGone, move, type Replica, type ReplicaDeps, type ReplicaRecord, stateOf, untilIdle } from './replica.ts'

/** `turn`: resolves when its slot is free. Never rejects. */
export async function loadReplica(replica: Replica, turn: Promise<unknown>, deps: ReplicaDeps): Promise<void> {
  const { signal } = replica.loadAbort
  const { order } = replica.record
  let started: Digest | null = null
  replica.isLoading = true
  try {
    await abortable(turn, signal)
    await move(replica, { type: 'stage' }, deps)
    replica.reporter.report({ phase: 'resolving' })
    // Files alone need no backend, which may be installed later, or on another node.
    const tree = order.stage_only === true ? null : await holdTree(replica, deps)
    const onProgress = replica.reporter.report
    const staged = replica.resources.use(await deps.models.stage(order, { signal, onProgress, onSign: replica.reporter.sign }))
    signal.throwIfAborted()
    if (tree !== null) {
      started = tree.digest
      return await start(replica, { tree, modelDirectory: staged.directory }, deps)
    }
    replica.isLoading = false
    await move(replica, { type: 'staged' }, deps)
    await finish(replica, deps)
  } catch (error) {
    if (started !== null && !signal.aborted) deps.backends.suspect(started)
    await failLoad(replica, error, deps).catch((reason: unknown) => deps.log.error('cannot end a failed load', { error: reason }))
  } finally {
    replica.isLoading = false
  }
}

async function holdTree(replica: Replica, deps: ReplicaDeps): Promise<HeldTree> {
  const tree = replica.resources.use(await takeTree(replica.record, deps))
  const { signal } = replica.loadAbort
  if (!(await deps.backends.inspect(tree.digest, { signal, onSign: replica.reporter.sign }))) throw damaged(replica.record.order.backend)
  // Stored with the next move.
  replica.record = { ...replica.record, listed: tree.listed }
  return tree
}

/** Throws FleetError: the backend is not installed, or damaged, or this worker has no driver for it. */
export async function takeTree({ order: { backend, digest } }: ReplicaRecord, { backends, drivers }: ReplicaDeps): Promise<HeldTree> {
  const tree = await backends.take(backend, digest)
  if (tree === null) {
    const what = digest === undefined ? backend : `${backend} (${digest})`
    throw refusal('not_found', 'backoff', `the backend ${what} is not installed on this node: install it here first`)
  }
  if (!tree.isDamaged && drivers[driverNameOf(tree)] !== undefined) return tree
  tree[Symbol.dispose]()
  if (tree.isDamaged) throw damaged(backend)
  throw refusal('incompatible', 'never', `${backend} needs the driver ${driverNameOf(tree)}, which this worker does not have`)
}

/** Controllers install it again before the next try: the inventory reports the damage. */
const damaged = (backend: BackendName): FleetError =>
  refusal(
    'integrity',
    'backoff',
    `the backend ${backend} is damaged on this node: files are missing or changed; an install or an upgrade repairs it`,
  )

/** An artifact that has only its `run.sh` is a LocalAI backend. */
export const driverNameOf = ({ description }: Pick<Tree, 'description'>): Driver['name'] => description?.driver ?? 'localai-grpc'

/** Controllers may be newer than this worker: unknown fields are dropped. */
const KnownConfig = z.object(ModelConfig.shape)

/** Throws FleetError. */
export function configOf({ order }: Pick<ReplicaRecord, 'order'>): ModelConfig {
  const parsed = KnownConfig.safeParse({ name: order.model, backend: order.backend, ...order.config })
  if (parsed.success) return parsed.data
  throw refusal('invalid', 'never', `cannot use the configuration of ${order.model}: ${z.prettifyError(parsed.error).slice(0, 2000)}`)
}

export function specOf(record: ReplicaRecord, tree: Tree, modelDirectory: string): ReplicaSpec {
  const { replica_id: replicaId, model, backend } = record.order
  const config = configOf(record)
  const { model: file } = config.parameters
  return {
    replicaId,
    model,
    backend,
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

const refusal = (code: Failure['code'], retry: Failure['retry'], message: string): FleetError => new FleetError({ code, retry, message })

async function start(
  replica: Replica,
  { tree, modelDirectory }: { tree: HeldTree; modelDirectory: string },
  deps: ReplicaDeps,
): Promise<void> {
  const { signal } = replica.loadAbort
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
  await startServing(replica, { spec, driver }, deps)
  signal.throwIfAborted()
  replica.isLoading = false
}

type StartedProcess = Readonly<{ spec: ReplicaSpec; address: BackendAddress; driver: Driver; process: LeadProcess }>

const pollMs = 50
const lookMs = 1_000

/** Throws FleetError, also when the process ends, the load is cancelled, or the process is silent for too long. */
async function awaitReady(replica: Replica, started: StartedProcess, deps: ReplicaDeps): Promise<void> {
  const { spec, address, driver, process } = started
  const over = new AbortController()
  const signal = AbortSignal.any([replica.loadAbort.signal, over.signal])
  const sign: Sign = { last: deps.clock.monotonic(), poll: null }
  const onPoll = (poll: ReadinessPoll): void => {
    sign.poll = poll
  }
  const onNote = (line: string): void => void deps.logs.append(replica.id, line)
  const onSign = (): void => {
    sign.last = deps.clock.monotonic()
    replica.reporter.sign()
  }
  void process.exited.then(() => over.abort(ended()))
  void watchSilence(replica, { sign, onSign, over, pid: process.identity.pid }, deps)
  try {
    signal.throwIfAborted()
    const becomeReady = async (): Promise<void> => {
      await waitUntilListening({ replica, address, process, signal, onPoll }, deps)
      if (!replica.record.isBare) await driver.waitUntilReady(spec, address, { signal, onSign, onPoll, onNote })
      await waitUntilListening({ replica, address, process, signal, onPoll }, deps)
    }
    // A driver that ignores the signal must not keep the replica of a dead process from ending.
    await abortable(becomeReady(), signal)
  } finally {
    over.abort(ended())
  }
}

const ended = (): FleetError => new FleetError({ code: 'unavailable', retry: 'backoff', message: 'its process ended before it was ready' })

type StartedBackend = Readonly<{
  replica: Replica
  address: BackendAddress
  process: LeadProcess
  signal: AbortSignal
  onPoll: (poll: ReadinessPoll) => void
}>

async function waitUntilListening(started: StartedBackend, { workerId, clock }: ReplicaDeps): Promise<void> {
  const { replica, address, process, signal, onPoll } = started
  // A socket in a private directory needs no proof; on a port, no request is sent before the listener is known.
  if (address.kind === 'unix') return
  const owner = { group: process.identity.pid, replicaId: replica.id, workerId }
  for (let [foreign, times] = [0, 1]; ; times += 1) {
    const found = await findListener(address.port, owner)
    if (found === 'ours') return
    onPoll({ what: showAddress(address), times, last: 'nothing listened there' })
    // Twice: one process of the replica may hand the port to another during the scan.
    foreign = found === 'foreign' ? foreign + 1 : 0
    if (foreign > 1) throw portTaken(replica.id, address.port)
    await clock.sleep(pollMs, signal)
  }
}

const portTaken = (id: ReplicaId, port: number): FleetError =>
  new FleetError({
    code: 'unavailable',
    retry: 'backoff',
    message: `another program took port ${port} before the process of ${id} could listen there; another port is tried next`,
  })

/** The last sign of life, and the last question without a good answer. */
type Sign = { last: number; poll: ReadinessPoll | null }
type Silence = Readonly<{ sign: Sign; onSign: () => void; over: AbortController; pid: number }>

/** Output and disk reads of the process are signs of life too. */
async function watchSilence(replica: Replica, { sign, onSign, over, pid }: Silence, deps: ReplicaDeps): Promise<void> {
  const { clock, logs, pace } = deps
  let seen = ''
  for (;;) {
    const now = `${await logs.size(replica.id)} ${await bytesRead(pid)}`
    if (now !== seen && seen !== '') onSign()
    seen = now
    if (clock.monotonic() - sign.last >= pace.silenceMs) break
    try {
      await clock.sleep(Math.min(lookMs, pace.silenceMs / 4), over.signal)
    } catch {
      return
    }
  }
  over.abort(new FleetError(silenceFailure(pace.silenceMs, sign.poll, await logs.lastLines(replica.id))))
}

async function bytesRead(pid: number): Promise<string> {
  const counted = await readFile(`/proc/${pid}/io`, 'utf8').catch(() => '')
  return /^read_bytes: (\d+)$/m.exec(counted)?.[1] ?? ''
}

/** From here on the gateway may send requests. */
export async function startServing(
  replica: Replica,
  { spec, driver }: { spec: ReplicaSpec; driver: Driver },
  deps: ReplicaDeps,
): Promise<void> {
  if (replica.address === null) throw new Error('a process that serves has an address')
  replica.connection = driver.connect(spec, replica.address)
  if (stateOf(replica) === 'starting') await move(replica, { type: 'ready' }, deps)
  replica.reporter.end('succeeded')
  replica.ready.resolve()
}

async function failLoad(replica: Replica, error: unknown, deps: ReplicaDeps): Promise<void> {
  const run = runOf(replica.record.stage)
  // watchExit reports how it ended.
  if (isGone(replica) || (run !== null && replica.process?.hasExited() === true)) return await replica.gone.promise
  if (run === null && replica.process !== null)
    await stopProcess({ replicaId: replica.id, leader: replica.process.identity }, { graceMs: 0 }, deps)
  if (replica.isShuttingDown) return await leaveToNextStart(replica, deps)
  const known = storageFailureOf(error)
  if (!(known instanceof FleetError)) deps.log.error('load failed unexpectedly', { replica_id: replica.id, error })
  if (replica.cancelFailure !== null) return await endReplica(replica, replica.cancelFailure, deps)
  const failure = failureOf(known)
  if (run === null || replica.process === null || failure.code !== 'unavailable') return await endReplica(replica, failure, deps)
  // The connection to a process that ends breaks before its exit is seen: the exit and its last output say why.
  if (await settlesWithin({ clock: deps.clock, ms: exitSeenMs }, replica.process.exited)) return await replica.gone.promise
  await endReplica(replica, withOutput(failure, await deps.logs.lastLines(replica.id)), deps)
}

/** An exit is seen within milliseconds; a core dump takes longer. */
const exitSeenMs = 1_000

/** The worker stops: the next start runs the load from its beginning. */
async function leaveToNextStart(replica: Replica, deps: ReplicaDeps): Promise<void> {
  const run = runOf(replica.record.stage)
  if (run !== null) {
    replica.stopping = stopProcess({ replicaId: replica.id, leader: run.process }, { graceMs: deps.pace.graceMs }, deps)
    return await replica.gone.promise
  }
  await move(replica, { type: 'again' }, deps)
  await finish(replica, deps)
}

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
  replica.loadAbort.abort(new FleetError(workerStopping))
  await replica.gone.promise
}

/** The worker exits at once: no drain, no grace time. A load is left to the next start. Resolves when no process is left. */
export async function killReplica(replica: Replica, deps: ReplicaDeps): Promise<void> {
  if (isGone(replica)) return
  replica.isShuttingDown = true
  if (replica.isLoading) replica.loadAbort.abort(new FleetError(workerStopping))
  // Before the kill: an ordered end is not a crash.
  else void move(replica, { type: 'stop', because: workerStopped }, deps)
  const leader = runOf(replica.record.stage)?.process ?? replica.process?.identity ?? null
  await stopProcess({ replicaId: replica.id, leader }, { graceMs: 0 }, deps)
}

const workerStopping: Failure = { code: 'unavailable', retry: 'backoff', message: 'this worker is stopping' }
const workerStopped: Failure = { code: 'cancelled', retry: 'never', message: 'its worker was stopped' }

async function shutDownServing(replica: Replica, deps: ReplicaDeps): Promise<void> {
  await drain(replica, deps.pace.leaveMs, deps)
  await cancelReplica(replica, workerStopped, deps)
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

// Installed backends: the tree that a process starts from, held while a process runs from it.

export type Tree = Readonly<{ digest: Digest; directory: string; description: BackendDescription | null }>
/**
 * `listed`: the digest of that version in the inventory; it differs from the tree's digest where an index led to the tree.
 * `isDamaged`: damage was found, and the tree is not repaired yet.
 */
export type HeldTree = Tree & Disposable & Readonly<{ listed: Digest; isDamaged: boolean }>

export interface InstalledBackends {
  /** The version in use, or the requested one. Its tree stays until it is disposed of. Null: not installed. */
  take(backend: BackendName, digest: Digest | undefined): Promise<HeldTree | null>
  /** For an adopted process: the tree stays, also if it is not installed any more. */
  hold(digest: Digest): Disposable
  /** Null: not on this machine. */
  treeOf(digest: Digest): Promise<Tree | null>
  /** False when entries of the tree are missing or differ; reads no file. */
  inspect(digest: Digest, options: SignOptions): Promise<boolean>
  /** A process could not be started from this tree: verifies it in the background. */
  suspect(digest: Digest): void
}

/** For a worker without backends. */
export const noBackends: InstalledBackends = {
  take: async () => null,
  hold: () => ({ [Symbol.dispose]: () => undefined }),
  treeOf: async () => null,
  inspect: async () => false,
  suspect: () => undefined,
}

type Store = Pick<BackendStore, 'hold' | 'get' | 'list' | 'summary' | 'treePath' | 'condition' | 'inspect' | 'verify'>

type InstalledBackendsDeps = Readonly<{
  store: Store
  /** Called when a tree is found damaged. */
  onDamaged: () => void
  clock: Clock
  log: Log
  /** Aborts when the worker stops. */
  signal: AbortSignal
}>

/** A model that fails for another reason is started again and again: at most this share of the time goes to reading its backend. */
const mostVerifyShare = 0.05

export function createInstalledBackends({ store, onDamaged, clock, log, signal }: InstalledBackendsDeps): InstalledBackends {
  /** Trees that are being verified (Infinity), or were verified lately: the time of the next verification. */
  const verifiedUntil = new Map<Digest, number>()
  const reported = (found: 'intact' | 'damaged'): boolean => {
    if (found === 'damaged') onDamaged()
    return found === 'intact'
  }
  const treeOf = async (digest: Digest): Promise<Tree | null> => {
    const summary = await store.summary(digest)
    return summary === null ? null : { digest, directory: store.treePath(digest), description: summary.backend }
  }
  return {
    treeOf,
    hold: (digest) => store.hold([digest]),
    inspect: async (digest, options) => reported(await store.inspect(digest, options)),
    suspect(digest) {
      const startedAt = clock.monotonic()
      if (startedAt < (verifiedUntil.get(digest) ?? 0)) return
      verifiedUntil.set(digest, Infinity)
      store
        .verify(digest, { signal })
        .then(reported)
        .catch((error: unknown) => signal.aborted || log.warn('cannot verify a backend', { digest, error }))
        .finally(() => verifiedUntil.set(digest, clock.monotonic() + (clock.monotonic() - startedAt) / mostVerifyShare))
    },
    async take(backend, digest) {
      const found = await versionOf(store, backend, digest)
      if (found === null) return null
      using held = new DisposableStack()
      held.use(store.hold([found.tree]))
      const tree = await treeOf(found.tree)
      if (tree === null) {
        onDamaged()
        return null
      }
      const isDamaged = (await store.condition(found.tree)) !== 'intact'
      const kept = held.move()
      return { ...tree, listed: found.listed, isDamaged, [Symbol.dispose]: () => kept.dispose() }
    },
  }
}

type Version = Readonly<{ tree: Digest; listed: Digest }>

/** The requested digest may be that of an index, and of a version that is not in use. */
async function versionOf(store: Store, backend: BackendName, digest: Digest | undefined): Promise<Version | null> {
  const records = await store.list()
  const current =
    records.find(({ name }) => name === backend) ?? records.find((each) => each.concrete === backend || each.alias === backend)
  if (current === undefined) return null
  if (digest === undefined || matchesDigest(current, digest)) return { tree: current.digest, listed: listedDigest(current) }
  const previous = (await store.get(current.name))?.previous ?? null
  const isPrevious = previous !== null && matchesDigest(previous, digest)
  return isPrevious ? { tree: previous.digest, listed: listedDigest(previous) } : { tree: digest, listed: digest }
}
