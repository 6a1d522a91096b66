// The worker: the only place where its parts are put together. It never ends the process it is in;
// `ended` says how it came out, and whoever started it decides.
import { newId, parseBytes, type Clock, type DataDir, type Log, type NodeKey } from '@muster/host'
import { FleetError, Incarnation, type NodeId, type Session, type WorkerSettings as ClusterSettings } from '@muster/protocol'
import { createBusLink, type BusLink, type ConnectBus } from './bus-link.ts'
import { connectNatsBus } from './connect-nats-bus.ts'
import { createControllerClient, type ControllerClient } from './controller-client.ts'
import { createDrivers } from './drivers/create-drivers.ts'
import type { GatewayIdentity } from './gateway/authorise.ts'
import { openDoor } from './gateway/open-door.ts'
import { loadNodeKey } from './identity.ts'
import type { SettledSettings } from './lasting-settings.ts'
import { begin, type Membership } from './membership/machine.ts'
import { openNodeMemory, type NodeMemory } from './membership/node-memory.ts'
import { describeWorker } from './membership/registration.ts'
import { runMembership } from './membership/run-membership.ts'
import { tell } from './membership/tell.ts'
import { createWorkerMetrics, type WorkerMetrics } from './metrics.ts'
import { type ModelFiles, noModelFiles, openModelFiles } from './models/model-files.ts'
import { createBuiltinSource, type BuiltinSource } from './installer/builtin-source.ts'
import { openInstaller } from './installer/create-installer.ts'
import { noInstaller, type Installer, type Step } from './operations/installer.ts'
import { openOperations, type Operations } from './operations/operations.ts'
import { createPresence } from './presence.ts'
import { hostFiles } from './resources/host-files.ts'
import { thisRuntime } from './resources/read-machine.ts'
import { createResourceMonitor, type ResourceMonitor } from './resources/resource-monitor.ts'
import { createToolRunner, startTool } from './resources/run-tool.ts'
import type { WorkerSettings } from './settings.ts'
import { createInstalledBackends, noBackends, type InstalledBackends } from './supervisor/installed-backends.ts'
import { openReplicas } from './supervisor/open-replicas.ts'
import type { Replicas } from './supervisor/replicas.ts'

export type WorkerDeps = Readonly<{
  settings: WorkerSettings
  /** Opened with the role `worker`; released by whoever opened it, after `ended`. */
  dataDir: DataDir
  /** For the GPU vendors' tools, which are looked for on its PATH. */
  env?: Readonly<Record<string, string | undefined>>
  clock: Clock
  log: Log
  random?: () => number
  /** Without it the bus is NATS; `local:` needs one that hands out the in-process bus. */
  connectBus?: ConnectBus
  /** Another way to put backends on this machine than the store in its data directory. */
  installer?: Installer
  /** Told where each operation stands. */
  step?: Step
  /** Aborting it is the same as `stop`. */
  signal?: AbortSignal
}>

export type WorkerEnd = Readonly<{ code: number; message: string }>

export interface Worker {
  /** Null until a controller gave one. */
  nodeId(): NodeId | null
  /** Says goodbye, and resolves when everything is closed. */
  stop(): Promise<void>
  /** Never rejects. */
  readonly ended: Promise<WorkerEnd>
}

/** GPU tools: a driver that needs longer is stuck, or takes its time for the first call only. */
const toolTimeoutMs = 5_000
const defaultHeartbeatMs = 5_000
const defaultEnv = { PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' }

/** Throws FleetError when it can't even begin: no controller known, or a damaged key. */
export async function startWorker(deps: WorkerDeps): Promise<Worker> {
  const memory = await openNodeMemory({ dataDir: deps.dataDir, given: deps.settings, log: deps.log })
  const key = await loadNodeKey(deps.dataDir)
  const stopping = new AbortController()
  const stop = (message: string): void => stopping.abort(message)
  const onAbort = (): void => stop('told to stop')
  if (deps.signal?.aborted) onAbort()
  deps.signal?.addEventListener('abort', onAbort, { once: true })

  const ended = live({ ...deps, settings: memory.settings, memory, key, stop, signal: stopping.signal })
    .catch((error: unknown): WorkerEnd => {
      if (stopping.signal.aborted && error === stopping.signal.reason) return { code: 0, message: String(error) }
      if (error instanceof FleetError) return { code: 1, message: error.message }
      deps.log.error('the worker failed', { error })
      return { code: 1, message: `the worker failed: ${error instanceof Error ? error.message : String(error)}` }
    })
    .finally(() => deps.signal?.removeEventListener('abort', onAbort))
  return {
    nodeId: () => memory.record().id,
    stop: async () => {
      stop('told to stop')
      await ended
    },
    ended,
  }
}

type Life = Omit<WorkerDeps, 'settings'> &
  Readonly<{ settings: SettledSettings; memory: NodeMemory; key: NodeKey; stop: (message: string) => void; signal: AbortSignal }>

async function live(deps: Life): Promise<WorkerEnd> {
  const ending = new AbortController()
  try {
    const { key, memory, clock, log } = deps
    const monitor = startMonitor(deps, AbortSignal.any([deps.signal, ending.signal]))
    const client = createControllerClient({ key, urls: memory.controllers, clock, log })
    // What the last session said; the ways out of this machine follow it.
    const heard: { settings: ClusterSettings | null } = { settings: null }
    const link: Linked = { isConnected: () => false, replicas: null, operations: null }
    const builtin = createBuiltinSource({ client, nodeId: () => memory.record().id, clock, log })
    const cluster = (): ClusterSettings | null => heard.settings
    await using opened = await startInstaller(deps, { monitor, builtin, cluster, link })
    await using held = new AsyncDisposableStack()
    const models = held.adopt(await startModelFiles(deps, { builtin, cluster, link }), (files) => files.close())
    const metrics = createWorkerMetrics({
      resources: monitor.resources,
      isBusConnected: () => link.isConnected(),
      replicas: () => link.replicas?.running() ?? [],
    })
    const replicas = await startReplicas(deps, { backends: opened.backends, models, metrics })
    link.replicas = replicas
    const operations = await startOperations(deps, opened.installer, models)
    link.operations = operations
    const onSettings = (settings: ClusterSettings): void => void (heard.settings = settings)
    try {
      return await join(deps, { monitor, client, operations, replicas, models, metrics, link, onSettings })
    } finally {
      await operations.stop()
      await replicas.stop()
    }
  } finally {
    ending.abort()
  }
}

/** What is known only after those who need it. */
type Linked = { isConnected: () => boolean; replicas: Replicas | null; operations: Operations | null }

type Running = Readonly<{
  monitor: ResourceMonitor
  client: ControllerClient
  operations: Operations
  replicas: Replicas
  models: ModelFiles
  metrics: WorkerMetrics
  link: Linked
  onSettings: (settings: ClusterSettings) => void
}>

/** Where it is in its membership, and what the last session told it. */
type Place = { now: Membership | null; session: Session | null }

async function join(deps: Life, running: Running): Promise<WorkerEnd> {
  const { settings, memory, key, clock, log, signal, random = Math.random } = deps
  const { monitor, client, operations, replicas, models, metrics, link: linked } = running
  const incarnation = Incarnation.parse(newId())
  const place: Place = { now: null, session: null }
  const { gateway, url } = await openDoor({
    settings,
    controllers: memory.controllers(),
    isReady: () => place.now?.state === 'joined' && linked.isConnected(),
    identity: () => identityOf(place.now),
    replicas,
    openLog: replicas.openLog,
    files: models,
    ...{ metrics, random, clock, log, signal },
  })
  const attach = createPresence({
    nodeType: settings.type,
    gatewayUrl: () => url,
    resources: monitor.resources,
    heartbeatIntervalMs: () => place.session?.settings.heartbeat_interval_ms ?? defaultHeartbeatMs,
    requestStop: deps.stop,
    ...{ incarnation, operations, replicas, metrics, random, clock, log },
  })
  const link = createBusLink({ connectBus: deps.connectBus ?? connectNatsBus({ key, clock, log }), attach, log })
  linked.isConnected = link.isConnected
  const become = createBecoming(deps, running, { place, link })
  try {
    await monitor.ready
    const registration = () =>
      describeWorker({ settings, key, incarnation, monitor, gatewayUrl: url, os: thisRuntime.os, arch: thisRuntime.arch })
    const hasToken = settings.token !== undefined
    const end = await runMembership(
      { client, incarnation, hasToken, registration, become, onPolled: metrics.polled, random, clock, log, signal },
      begin(memory.record().id),
    )
    await link.close(end.reason === 'stopped')
    // While the gateway is open: nobody is sent here any more, and who is being served may be served to the end.
    await replicas.stop()
    return { code: end.code, message: end.message }
  } finally {
    await link.close(false)
    await gateway.close()
  }
}

type Become = (next: Membership, before: Membership | null) => Promise<void>

function createBecoming({ memory, log }: Life, running: Running, { place, link }: { place: Place; link: BusLink }): Become {
  return async (next, before) => {
    place.now = next
    if ('session' in next) {
      place.session = next.session
      running.onSettings(next.session.settings)
    }
    tell(log, next, before)
    if (isRemoved(next, before)) {
      running.operations.forget()
      running.replicas.forget().catch((error: unknown) => log.error('the replicas of a removed node were not ended', { error }))
    }
    await memory.keep(next)
    if (next.state !== 'ended') link.set(next.state === 'joined' ? { nodeId: next.nodeId, bus: next.session.bus } : null)
  }
}

/** Only a node that is let in knows what its controllers show at its gateway. */
function identityOf(now: Membership | null): GatewayIdentity | null {
  if (now?.state !== 'joined' || now.session.gateway_secret === undefined) return null
  return { nodeId: now.nodeId, secret: now.session.gateway_secret }
}

/** An administrator deleted the node: what was wished of it is void. */
function isRemoved(now: Membership, before: Membership | null): boolean {
  if (now.state === 'ended') return now.reason === 'deleted'
  return now.state === 'registering' && before !== null && before.state !== 'registering'
}

type OpenedInstaller = AsyncDisposable & { readonly installer: Installer; readonly backends: InstalledBackends }

/** An agent node has no backends, and so nothing to put them. */
async function startInstaller(
  deps: Life,
  {
    monitor,
    builtin,
    cluster,
    link,
  }: { monitor: ResourceMonitor; builtin: BuiltinSource; cluster: () => ClusterSettings | null; link: Linked },
): Promise<OpenedInstaller> {
  const { settings, dataDir, step, clock, log } = deps
  if (deps.installer !== undefined || settings.type === 'agent')
    return { installer: deps.installer ?? noInstaller, backends: noBackends, [Symbol.asyncDispose]: async () => undefined }
  const node = () => ({ os: thisRuntime.os, arch: thisRuntime.arch, capability: monitor.capability() })
  const { allowSource, dockerConfig } = settings
  const opened = await openInstaller({
    dataDir,
    cluster,
    allowSource,
    dockerConfig,
    builtin,
    node,
    stopProcesses: async (backend, how) => link.replicas?.stopBackend(backend, how),
    relistProcesses: async (version) => link.replicas?.relist(version),
    clock,
    log,
    ...(step === undefined ? {} : { step }),
  })
  return { installer: opened.installer, backends: createInstalledBackends(opened.store), [Symbol.asyncDispose]: opened.close }
}

type Serving = Readonly<{ backends: InstalledBackends; models: ModelFiles; metrics: WorkerMetrics }>

function startReplicas(deps: Life, { backends, models, metrics }: Serving): Promise<Replicas> {
  const { dataDir, env = defaultEnv, step, clock, log } = deps
  return openReplicas({
    dataDir,
    backends,
    models,
    drivers: createDrivers({ clock }),
    env,
    onStarted: metrics.replicaStarted,
    onExited: metrics.replicaExited,
    clock,
    log,
    ...(step === undefined ? {} : { step }),
  })
}

/** An agent node has no models either. */
async function startModelFiles(
  { settings, dataDir, step, clock, log }: Life,
  { builtin, cluster, link }: { builtin: BuiltinSource; cluster: () => ClusterSettings | null; link: Linked },
): Promise<ModelFiles> {
  if (settings.type === 'agent') return noModelFiles
  const onChanged = (): void => link.operations?.inventoryChanged()
  return await openModelFiles({ dataDir, settings, cluster, builtin, onChanged, clock, log, ...(step === undefined ? {} : { step }) })
}

function startOperations({ dataDir, step, clock, log }: Life, installer: Installer, models: ModelFiles): Promise<Operations> {
  return openOperations({
    path: dataDir.path('operations/journal'),
    installer,
    files: models.contents,
    clock,
    log,
    ...(step === undefined ? {} : { step }),
  })
}

function startMonitor({ settings, dataDir, env = defaultEnv, clock, log }: Life, signal: AbortSignal): ResourceMonitor {
  const run = createToolRunner({ start: startTool(env), timeoutMs: toolTimeoutMs, clock })
  const { capability: forcedCapability = null, maxReplicas = null, maxMemory } = settings
  const limits = { maxReplicas, maxMemoryBytes: maxMemory === undefined ? null : parseBytes(maxMemory) }
  const machine = { dataDir: dataDir.root, files: hostFiles, run, runtime: thisRuntime }
  return createResourceMonitor({ ...machine, forcedCapability, limits, clock, log, signal })
}
