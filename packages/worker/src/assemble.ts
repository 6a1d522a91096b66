// Puts the parts of a worker together: resources, installer, model files, replicas and operations.
import type { NatsTls } from '@muster/bus'
import { parseBytes, type Clock, type DataDir, type Log, type NodeKey, type Step } from '@muster/host'
import type { ReplicaId, WorkerSettings as ClusterSettings } from '@muster/protocol'
import { createControllerClient, type ControllerClient } from './controllers/controller-client.ts'
import { createLocalAiGrpcDriver } from './drivers/localai-grpc/localai-grpc.ts'
import { createOpenAiHttpDriver } from './drivers/openai-http.ts'
import { createBuiltinSource, type BuiltinSource } from './installer/builtin-source.ts'
import { openInstaller } from './installer/create-installer.ts'
import { createTreeKeeper } from './installer/tree-keeper.ts'
import type { ConnectBus } from './membership/bus-connection.ts'
import type { NodeRecordStore } from './membership/node-record.ts'
import { createWorkerMetrics, type WorkerMetrics } from './metrics.ts'
import { noModelFiles, openModelFiles, type ModelFiles } from './models/model-files.ts'
import { noInstaller, type Installer } from './operations/installer.ts'
import { openOperations, type Operations } from './operations/operations.ts'
import { hostFiles } from './resources/host-files.ts'
import { thisRuntime } from './resources/read-machine.ts'
import { createResourceMonitor, type ResourceMonitor } from './resources/resource-monitor.ts'
import { createToolRunner, startTool } from './resources/run-tool.ts'
import type { EffectiveSettings, WorkerSettings } from './settings.ts'
import { createThreads, type Threads } from './storage/threads.ts'
import { createInstalledBackends, noBackends, type InstalledBackends } from './supervisor/run-replica.ts'
import { openReplicas, type Replicas } from './supervisor/replicas.ts'
import { createWorkRegistry, type WorkRegistry } from './work/work-registry.ts'

export type WorkerDeps = Readonly<{
  settings: WorkerSettings
  /** Opened with the role `worker`; the caller releases it after `ended`. */
  dataDir: DataDir
  /** The GPU vendors' tools are found on its PATH. */
  env?: Readonly<Record<string, string | undefined>>
  clock: Clock
  log: Log
  random?: () => number
  /** Default: NATS. `local:` needs one that returns the in-process bus. */
  connectBus?: ConnectBus
  /** Replaces the installer that uses the store in the data directory. */
  installer?: Installer
  /** Called at each named step of an operation. */
  step?: Step
  /** Aborting it is the same as `stop`. */
  signal?: AbortSignal
}>

/** The dependencies, with the settings in effect and the identity of the node. */
export type WorkerContext = Omit<WorkerDeps, 'settings'> &
  Readonly<{
    settings: EffectiveSettings
    tls: NatsTls | null
    node: NodeRecordStore
    key: NodeKey
    stop: (message: string) => void
    signal: AbortSignal
  }>

export interface Services {
  readonly monitor: ResourceMonitor
  readonly client: ControllerClient
  readonly work: WorkRegistry
  readonly operations: Operations
  readonly replicas: Replicas
  readonly models: ModelFiles
  readonly metrics: WorkerMetrics
}

export type ServiceInputs = Readonly<{
  /** The settings of the latest session; null before the first. */
  cluster: () => ClusterSettings | null
  isBusConnected: () => boolean
}>

/** GPU tools: a driver that takes longer is stuck, or slow in its first call only. */
const toolTimeoutMs = 5_000
const defaultEnv = { PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' }

/** Services that others need before they exist. */
type LateServices = { replicas: Replicas | null; operations: Operations | null }

export async function openServices(
  context: WorkerContext,
  { cluster, isBusConnected }: ServiceInputs,
): Promise<Services & AsyncDisposable> {
  const { key, node, clock, log, signal } = context
  await using opened = new AsyncDisposableStack()
  const ending = new AbortController()
  opened.defer(() => ending.abort())
  const stopping = AbortSignal.any([signal, ending.signal])
  const client = createControllerClient({ key, urls: node.controllers, clock, log })
  const builtin = createBuiltinSource({ client, nodeId: () => node.record().id, clock, log })
  const work = createWorkRegistry({ clock })
  const late: LateServices = { replicas: null, operations: null }
  const monitor = startMonitor(context, { late, signal: stopping })
  const threads = opened.adopt(createThreads(), (each) => each.close())
  const sources = { threads, builtin, cluster, late }
  const { installer, backends } = await openBackends(context, { ...sources, monitor, stopping })
  const models = opened.adopt(await openModels(context, sources), (files) => files.close())
  const metrics = createWorkerMetrics({ resources: monitor.resources, isBusConnected, replicas: () => late.replicas?.running() ?? [] })
  const replicas = await openSupervisor(context, { work, backends, models, metrics, monitor })
  opened.defer(() => replicas.stop())
  late.replicas = replicas
  const { dataDir } = context
  const operations = await openOperations({
    path: dataDir.path('operations/journal'),
    files: models.contents,
    fileFacts: models.facts,
    ...{ installer, work, clock, log },
    step: context.step,
  })
  opened.defer(() => operations.stop())
  late.operations = operations
  const closing = opened.move()
  return { monitor, client, work, operations, replicas, models, metrics, [Symbol.asyncDispose]: () => closing.disposeAsync() }
}

type Backends = Readonly<{ installer: Installer; backends: InstalledBackends }>
type Sources = Readonly<{ threads: Threads; builtin: BuiltinSource; cluster: () => ClusterSettings | null; late: LateServices }>

/** An agent node has no backends and no store for them. */
async function openBackends(
  context: WorkerContext,
  { monitor, threads, builtin, cluster, late, stopping }: Sources & { monitor: ResourceMonitor; stopping: AbortSignal },
): Promise<Backends> {
  const { settings, dataDir, clock, log } = context
  if (context.installer !== undefined || settings.type === 'agent')
    return { installer: context.installer ?? noInstaller, backends: noBackends }
  const opened = await openInstaller({
    ...{ dataDir, threads, cluster, settings, env: context.env ?? {}, builtin, clock, log },
    node: () => ({ os: thisRuntime.os, arch: thisRuntime.arch, capability: monitor.capability() }),
    stopProcesses: async (backend, how) => late.replicas?.stopBackend(backend, how),
    relistProcesses: async (version) => late.replicas?.relist(version),
    step: context.step,
  })
  const { installer, store, repairLocally } = opened
  const onChanged = (): void => late.operations?.inventoryChanged()
  const keeper = createTreeKeeper({ store, repair: repairLocally, onChanged, clock, log })
  void keeper.run(stopping)
  const onDamaged = (): void => {
    onChanged()
    keeper.wake()
  }
  return { installer, backends: createInstalledBackends({ store, onDamaged, clock, log, signal: stopping }) }
}

/** An agent node has no models either. */
async function openModels(context: WorkerContext, { threads, builtin, cluster, late }: Sources): Promise<ModelFiles> {
  const { settings, dataDir, clock, log } = context
  if (settings.type === 'agent') return noModelFiles
  const onChanged = (): void => late.operations?.inventoryChanged()
  return await openModelFiles({ dataDir, threads, settings, env: context.env, cluster, builtin, onChanged, clock, log, step: context.step })
}

type SupervisorDeps = Readonly<{
  work: WorkRegistry
  backends: InstalledBackends
  models: ModelFiles
  metrics: WorkerMetrics
  monitor: ResourceMonitor
}>

function openSupervisor(context: WorkerContext, { work, backends, models, metrics, monitor }: SupervisorDeps): Promise<Replicas> {
  const { dataDir, env = defaultEnv, clock, log } = context
  const localAi = createLocalAiGrpcDriver({ clock, smallestGpuBytes: monitor.smallestCardBytes })
  return openReplicas({
    ...{ dataDir, work, backends, models, env, clock, log },
    drivers: { 'openai-http': createOpenAiHttpDriver({ clock }), 'localai-grpc': localAi },
    onStarted: metrics.replicaStarted,
    onExited: metrics.replicaExited,
    step: context.step,
  })
}

type MonitorInputs = Readonly<{ late: LateServices; signal: AbortSignal }>

function startMonitor(
  { settings, dataDir, env = defaultEnv, clock, log }: WorkerContext,
  { late, signal }: MonitorInputs,
): ResourceMonitor {
  const run = createToolRunner({ start: startTool(env), timeoutMs: toolTimeoutMs, clock })
  const { capability: forcedCapability = null, maxReplicas = null, maxReplicasPerModel = null, vramBudget = null, maxMemory } = settings
  const limits = { maxReplicas, maxReplicasPerModel, vramBudget, maxMemoryBytes: maxMemory === undefined ? null : parseBytes(maxMemory) }
  const machine = { dataDir: dataDir.root, files: hostFiles, run, runtime: thisRuntime }
  const leaders = (): ReadonlyMap<number, ReplicaId> =>
    new Map((late.replicas?.all() ?? []).flatMap(({ id, process }) => (process === null ? [] : [[process.identity.pid, id] as const])))
  return createResourceMonitor({ ...machine, forcedCapability, limits, leaders, clock, log, signal })
}
