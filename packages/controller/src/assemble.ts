// Assembles the parts of a controller. Every dependency is created here and passed down.
import type { LocalHub } from '@muster/bus'
import {
  type Clock,
  createRequestVerifier,
  type DataDir,
  type ExplainedSetting,
  type Log,
  newId,
  noStep,
  type Step,
  version,
} from '@muster/host'
import type { ModelName } from '@muster/protocol'
import { createFailureLimit } from './auth/failure-limit.ts'
import { isOpenTo } from './auth/may.pure.ts'
import { isLoopbackHost } from './auth/origin.ts'
import { createPrincipalFinder, createPrincipalWatch, type PrincipalFinder } from './auth/principal.ts'
import type { BuiltinBlobs } from './builtin/builtin-blobs.ts'
import type { ConnectedBus } from './connect-bus.ts'
import { ChangeFeed } from './events/feed.ts'
import { createEventHub, createNodeTicks, type EventHub } from './events/feed.ts'
import { createPlanners } from './gallery/planners.ts'
import { createSourceHeaders } from './placement/source-headers.ts'
import { createHousekeeping } from './housekeeping.ts'
import { createApp, type AppDeps } from './http/app.ts'
import { backendEndpoints } from './http/backends.ts'
import { blobEndpoints, joinTokenEndpoints, nodeAgentEndpoints } from './http/node-agent.ts'
import type { Endpoint } from './http/endpoint.ts'
import { eventEndpoints } from './http/events.ts'
import { countBackends, countModels, galleryEndpoints } from './http/galleries.ts'
import { createInferenceHandler, openAiEndpoints } from './http/inference.ts'
import { errorEvent } from './http/inference-answer.ts'
import { keyEndpoints } from './http/keys.ts'
import { localAiEndpoints } from './http/localai.ts'
import { loginEndpoints } from './http/login.ts'
import { modelEndpoints } from './http/models.ts'
import { nodeActionEndpoints } from './http/node-actions.ts'
import { nodeEndpoints, nodeLogEndpoints } from './http/nodes.ts'
import { replicaEndpoints } from './http/replicas.ts'
import { openApiOf } from './http/openapi.ts'
import { operationEndpoints } from './http/operations.ts'
import { settingEndpoints } from './http/settings.ts'
import { statsEndpoints, systemEndpoints } from './http/system.ts'
import { webFallback, webEndpoints } from './http/web.ts'
import { createLoads, quietMsOf, type Loads } from './loads/create-loads.ts'
import { createServing } from './inference/create-serving.ts'
import { createInventory } from './inventory/create-inventory.ts'
import { createMetrics, refreshMetrics, type Metrics } from './metrics.ts'
import { createFilesFor } from './models/model-files.ts'
import { createModels } from './models/create-models.ts'
import { databaseTime } from './nodes/attention.pure.ts'
import { createNodeHistory, type NodeHistory } from './nodes/history.ts'
import { createMembership } from './nodes/membership.ts'
import { PulseLoop } from './nodes/pulse-loop.ts'
import { viewOf } from './nodes/view.ts'
import { createOperations, type OperationsDeps } from './operations/create-operations.ts'
import { createSubmissions } from './operations/submit.ts'
import type { PageState } from './page/page.ts'
import { type ReplicaFacts, viewReplica } from './replicas/replicas.pure.ts'
import { createSilenceTicks } from './replicas/silence-ticks.ts'
import { createRollouts } from './rollouts/create-rollouts.ts'
import { createSettingsLoop, type RuntimeSettings } from './runtime-settings.ts'
import { isBusOpen, type ControllerSettings } from './settings.ts'
import { createScaleLoop } from './scaling/scale-loop.ts'
import { createStatsReader } from './stats/stats-buckets.ts'
import type { OpenDatabase } from './store/open-database.ts'
import type { Store } from './store/store.ts'
import { createInbound } from './work/exchange.ts'
import { withLive } from './with-live.ts'
import { createWorkerSettings } from './worker-settings.ts'

export interface ControllerDeps {
  readonly settings: ControllerSettings
  /** The settings with their origins, for display. */
  readonly explained?: readonly ExplainedSetting[]
  readonly dataDir: DataDir
  readonly log: Log
  readonly clock: Clock
  /** The bus inside this process, when there is no --nats-url. */
  readonly localHub?: LocalHub
  /** Keys of the workers in this process, which are approved automatically. */
  readonly ownWorkers?: () => ReadonlySet<string>
  /** Directory of the built-in backends; default: Muster's own. */
  readonly backendsDirectory?: string
  /** Models of the built-in gallery that a new installation starts with. */
  readonly firstModels?: readonly string[]
  /** Called at named points of commands and submissions, for crash tests. */
  readonly step?: Step
  /** For secrets that files of settings take from the environment. */
  readonly env?: Readonly<Record<string, string | undefined>>
  /** Cancels the start. */
  readonly signal?: AbortSignal
}

export interface Foundation extends ControllerDeps {
  readonly runtime: RuntimeSettings
  readonly connected: ConnectedBus
  readonly database: OpenDatabase
  readonly store: Store
  /** Built-in backends and models, once they are packed. */
  readonly builtin: Promise<BuiltinBlobs>
  readonly stopping: AbortSignal
  /** True from the beginning of a stop in order: /readyz answers 503, requests are still served. */
  readonly isDraining: () => boolean
  /** True from the end of the drain: workers of the same process sign off, and nothing is placed any more. */
  readonly isDrained: () => boolean
  /** Aborted when the controller accepts no more connections: long polls and event streams end. */
  readonly closing: AbortSignal
  readonly page: () => PageState
  /** The URL for browsers and workers. */
  readonly url: string
}
type Parts = ReturnType<typeof createParts>

/** Twice the longest tick: a later loop counts as stopped. */
const tickedWithinMs = 10_000

export function assemble(foundation: Foundation) {
  const { stopping, clock } = foundation
  const parts = createParts(foundation)
  let isStarted = false
  const isReady = (): boolean => {
    const { since, lastProbeAt } = parts.pulse.attention
    const isWatching = since !== null && clock.monotonic() - lastProbeAt < tickedWithinMs
    // Until the models are read, /v1 answers 503.
    return isStarted && isWatching && parts.serving.inference.isReady() && !stopping.aborted
  }
  return {
    http: createHttp(foundation, parts, { isStarted: () => isStarted, isReady }),
    isReady,
    isInferenceOpen: isOpenTo('inference', listenerOf(foundation.settings)),

    /** Runs until aborted. When a loop throws, the others are stopped and the error is thrown. */
    async run(signal: AbortSignal): Promise<void> {
      isStarted = true
      const failing = new AbortController()
      const until = AbortSignal.any([signal, failing.signal])
      const listening = foundation.database.listen('muster_changes', () => parts.feed.wake())
      const { inbound, feed, pulse, inventory, operations, rollouts, loads, models, principalWatch, housekeeping, serving, scaling } = parts
      const records = [inbound, feed, pulse, inventory, parts.settingsLoop]
      const loops = [...records, operations, rollouts, loads, models, principalWatch, housekeeping, serving, scaling]
      await Promise.all(loops.map((loop) => loop.run(until).catch((error: unknown) => failing.abort(error))))
      await Promise.all([parts.inventory.queries.drained(), listening.stop()])
      failing.signal.throwIfAborted()
    },
  }
}

function createParts(foundation: Foundation) {
  const { settings, store, connected, clock, log } = foundation
  const { bus } = connected
  const metrics = createMetrics()
  const feed = new ChangeFeed({ changes: store.changes, clock, log })
  const principals = createPrincipalFinder({ access: store.access, clock })
  const principalWatch = createPrincipalWatch({ access: store.access, principals, clock, log })
  const readNodes = async (ids: readonly string[]): Promise<Map<string, object>> =>
    new Map((await store.nodes.listByIds(ids)).map((node) => [node.id, viewOf(node)]))
  const id = newId('c')
  const { operations, inventory, planners, submissions, loads } = createBackendParts(foundation, {
    ...{ id, onSettled: metrics.settled, onReady: () => models.noteReady(), metrics },
  })
  const rollouts = createRollouts({
    ...{ store: store.rollouts, wakeOperations: operations.wake, onEnded: metrics.rollouts.ended, clock, log },
  })
  feed.listen(({ changes }) => {
    operations.wake()
    rollouts.wake()
    models.wake()
    loads.noteChanges(new Set(changes.map(({ kind }) => kind)))
  })
  const models = createModels({
    ...{ bus, store, settings, holder: id, builtin: foundation.builtin, stopping: foundation.stopping, clock, log },
    outbound: planners.outbound,
  })
  const facts: ReplicaFacts = {
    inFlight: loads.inFlight,
    rotationNote: (replica) => serving.rotationNote(replica),
    unknownAfterMs: unknownAfterMsOf(settings),
  }
  const readers = {
    stats: createStatsReader(store.stats),
    model: models.read,
    replica: readReplicasOf(store, facts),
    node: readNodes,
    operation: operations.read,
    backend: inventory.fleet.read,
  }
  const hub = createEventHub({ feed, changes: store.changes, readers, log })
  operations.publishTo(hub)
  const history = createNodeHistory({ clock })
  feed.listen(({ changes }) => changes.forEach(({ kind, id: node, deleted }) => kind === 'node' && deleted && history.forget(node)))
  const pulse = pulseOf(foundation, { metrics, hub, history, probeUnproven: inventory.queries.probeUnproven })
  const membership = membershipOf(foundation, feed)
  const scaling = scalingOf(foundation, { pulse, inFlight: loads.inFlight })
  const serving = createServing({
    ...{ store, feed, controllerId: id, settings, errorEvent, loads: loads.cold, onInFlight: loads.onInFlight, clock, log },
    metrics: metrics.inference,
    onStats: (at) => void hub.tick('stats', [at]),
    onRotation: (replica) => void hub.tick('replica', [replica]),
  })
  const inbound = inboundOf(foundation, { pulse, loads, inventory, operations })
  const housekeeping = housekeepingOf(foundation, id, principals)
  const settingsLoop = settingsLoopOf(foundation, feed, inventory.checker.wake)
  return {
    ...{ inbound, metrics, feed, principals, principalWatch, pulse, history, inventory, membership },
    ...{ facts, hub, housekeeping, settingsLoop, models, operations, rollouts, planners, submissions, loads, serving, scaling },
  }
}

function housekeepingOf({ settings, store, runtime, url, clock, log }: Foundation, id: string, principals: PrincipalFinder) {
  const own = { id, version, url, pinned: runtime.pinned }
  return createHousekeeping(withLive({ store, principals, own, clock, log }, { historyMs: () => settings.historyRetention }))
}

/** A changed interval, or the first automatic upgrade, takes effect with a check now. */
function settingsLoopOf({ runtime, store, clock, log }: Foundation, feed: ChangeFeed, checkUpgrades: () => void) {
  runtime.onChanged((changed) => {
    if (changed.has('upgrade-check-interval') || changed.has('auto-upgrade')) checkUpgrades()
  })
  return createSettingsLoop({ runtime, read: () => store.runtimeSettings.read(), feed, clock, log })
}

type BackendParts = ReturnType<typeof createBackendParts>
type InboundParts = Pick<BackendParts, 'loads' | 'inventory' | 'operations'> & { readonly pulse: PulseLoop }

function inboundOf({ connected: { bus }, log }: Foundation, { pulse, loads, inventory, operations }: InboundParts) {
  return createInbound({
    ...{ bus, log },
    receivers: {
      heartbeat: [(beat) => pulse.receive(beat), loads.receiveHeartbeat],
      lostHeartbeat: () => pulse.recordLostBeat(),
      leaving: (goodbye, node) => pulse.receiveLeaving(goodbye, node),
      inventory: inventory.receive,
      replica: loads.receiveEvent,
      result: { intent: operations.receiveResult, load: loads.receiveEvent },
      progress: operations.receiveProgress,
    },
  })
}

type PulseParts = Readonly<{
  metrics: Metrics
  hub: EventHub
  history: NodeHistory
  probeUnproven: (signal: AbortSignal) => Promise<void>
}>

function pulseOf({ settings, store, connected, clock, log }: Foundation, { metrics, hub, history, probeUnproven }: PulseParts): PulseLoop {
  const ticks = createNodeTicks({ hub, clock })
  const silence = createSilenceTicks({
    ...{ replicas: store.replicas, unknownAfterMs: unknownAfterMsOf(settings), clock },
    tick: (ids) => void hub.tick('replica', ids),
  })
  return new PulseLoop({
    ...{ bus: connected.bus, pulses: store.pulses, probeUnproven, clock, log },
    silence: { nodeTimeoutMs: settings.nodeTimeout, offlineAfterMs: settings.nodeOfflineAfter },
    onBeat: history.note,
    onTick: ({ attention, reported }) => {
      metrics.attentive.set(attention.since === null ? 0 : 1)
      metrics.beats.inc(reported.length)
      ticks.add(reported)
      silence.note(reported)
    },
  })
}

const readReplicasOf = (store: Store, facts: ReplicaFacts) => async (ids: readonly string[]) =>
  new Map((await store.replicas.listByIds(ids)).map((replica) => [replica.id, viewReplica(replica, facts)]))

/** One heartbeat may be late; the second is missing. */
const unknownAfterMsOf = ({ heartbeatInterval }: Pick<ControllerSettings, 'heartbeatInterval'>): number => 1.5 * heartbeatInterval + 1_000

/** Scaling waits until two heartbeats of every node were due while bus and database worked. */
function scalingOf({ settings, store, clock, log }: Foundation, { pulse, inFlight }: { pulse: PulseLoop; inFlight: Loads['inFlight'] }) {
  const isInformed = (): boolean => {
    const { since } = pulse.attention
    return since !== null && clock.monotonic() - since >= 2 * settings.heartbeatInterval
  }
  const deps = { scaling: store.scaling, inFlight, isInformed, clock, log }
  return createScaleLoop(withLive(deps, { idleMs: () => settings.idleScaleDown }))
}

function membershipOf({ settings, store, connected, clock, log, ...foundation }: Foundation, feed: ChangeFeed) {
  const { bus, url, ca, credentials } = connected
  const deps = {
    nodes: store.nodes,
    access: store.access,
    feed,
    log,
    isOwnWorker: (key: string) => foundation.ownWorkers?.().has(key) ?? false,
    bus: { kind: bus.kind, url, ca, credentials },
    workerSettings: createWorkerSettings({ settings, store, builtin: foundation.builtin, feed, clock }),
  }
  return createMembership(withLive(deps, { autoApprove: () => settings.autoApprove }))
}

interface BackendPartsDeps {
  readonly id: string
  readonly onSettled: OperationsDeps['onSettled']
  /** True when a replica serves the model. */
  readonly onReady: () => void
  readonly metrics: Pick<Metrics, 'loadStepped' | 'placement'>
}

/** Backends: intents, inventory, planners and loads. */
function createBackendParts(foundation: Foundation, { id, onSettled, onReady, metrics }: BackendPartsDeps) {
  const { settings, store, clock, log, stopping } = foundation
  const { bus } = foundation.connected
  const planners = createPlanners({ settings, env: foundation.env ?? {}, store, builtin: foundation.builtin, stopping, clock, log })
  const submissions = createSubmissions({
    ...{ nodes: store.nodes, intents: store.intents, replicas: store.replicas, store: store.submissions, ...planners },
    upgradable: () => inventory.fleet.upgradable(),
    diskCheck: () => settings.diskCheck,
    step: foundation.step ?? noStep,
    now: () => new Date(clock.now()).toISOString(),
    wake: () => operations.wake(),
  })
  const operations = createOperations({
    ...{ bus, store, settings, holder: id, random: Math.random, step: foundation.step ?? noStep, clock, log },
    onSettled: (settled) => {
      onSettled(settled)
      inventory.checker.wake()
      loads.noteInstalled(settled.map(({ intent }) => intent.nodeId))
    },
    recordLoadProgress: (ticks) => store.loads.recordProgress(ticks, quietMsOf(settings)),
  })
  const loads: Loads = createLoads({
    ...{ bus, store, settings, holder: id, submissions, random: Math.random, step: foundation.step ?? noStep, clock, log },
    catalogue: planners.catalogue,
    isAssembling: planners.isAssembling,
    isPaused: foundation.isDrained,
    latestProgress: operations.latestProgress,
    settleProgress: operations.settleProgress,
    filesFor: createFilesFor({ holders: store.fileHolders, controller: id }),
    readHeaders: createSourceHeaders({
      ...{ outbound: planners.outbound, builtin: foundation.builtin, contents: store.fileContents, clock, log },
    }),
    onRefused: metrics.placement.refused,
    onEvicted: metrics.placement.evicted,
    onStep(taken) {
      metrics.loadStepped(taken)
      if (taken.to !== 'gone' && taken.to.state === 'ready') onReady()
    },
  })
  const inventory = createInventory({
    ...{ bus, store, settings, holder: id, stopping, clock, log },
    ...planners,
    settleByInventory: operations.settleByInventory,
    async submitUpgrade(backend) {
      const submission = await submissions.upgrade(backend, { strategy: 'rolling' }, { requestedBy: 'auto-upgrade', signal: stopping })
      await submissions.submit([submission])
    },
  })
  return { operations, inventory, planners, submissions, loads }
}

function createHttp(foundation: Foundation, parts: Parts, states: ControllerStates) {
  const { settings, clock, log, stopping, page } = foundation
  const { metrics, principals } = parts
  const shared: Omit<AppDeps, 'endpoints' | 'fallbackPage' | 'verifyRequest' | 'sharedNow' | 'stopping'> = {
    principals,
    listener: listenerOf(settings),
    isStarted: states.isStarted,
    clock,
    log,
    onAnswer: ({ route, method, status, ms }) => metrics.requests.observe({ route, method, status }, ms / 1000),
  }
  const endpoints = [...apiEndpoints(foundation, parts, states), ...webEndpoints(page)]
  const fallbackPage: AppDeps['fallbackPage'] = (request) => webFallback(page, request)
  // The clocks of controllers may differ: a worker that joined through one of them has to be able to join through all others.
  const sharedNow = (): number | null => databaseTime(parts.pulse.attention, clock.monotonic())
  return {
    fetch: createApp({ ...shared, endpoints, fallbackPage, verifyRequest: createRequestVerifier(), sharedNow, stopping }).fetch,
    raw: createInferenceHandler({ ...shared, inference: parts.serving.inference }),
  }
}

interface ControllerStates {
  readonly isStarted: () => boolean
  readonly isReady: () => boolean
}

function apiEndpoints(foundation: Foundation, parts: Parts, { isStarted, isReady }: ControllerStates): Endpoint[] {
  const { settings, store, connected, builtin, clock, url, closing, isDraining } = foundation
  const { loads, principals, principalWatch, pulse, membership, hub, operations, inventory, planners, submissions } = parts
  const endpoints: Endpoint[] = []
  const own: Endpoint[] = [
    ...nodeEndpoints({ nodes: store.nodes, intents: store.intents, history: parts.history }),
    ...nodeActionEndpoints({ nodes: store.nodes, keys: store.submissions, log: foundation.log }),
    ...replicaEndpoints({ ...store, facts: parts.facts, place: loads.place }),
    ...nodeAgentEndpoints({ membership, nodes: store.nodes, pulse, joinFailures: createFailureLimit(clock), closing }),
    ...blobEndpoints({ nodes: store.nodes, builtin }),
    ...galleryEndpoints({ galleries: store.galleries, builtin, catalogues: countedCatalogues(parts) }),
    ...operationEndpoints({ ...store, idempotency: store.submissions, view: operations.view, wake: operations.wake }),
    ...backendEndpoints({
      ...inventory,
      catalogue: planners.catalogue,
      submissions,
      store: store.submissions,
      nodes: store.nodes,
    }),
    ...modelEndpoints({ store, models: parts.models, refreshRoutes: parts.serving.inference.refreshRoutes, place: loads.place }),
    ...keyEndpoints({ access: store.access, principals }),
    ...joinTokenEndpoints({ access: store.access, busKind: connected.bus.kind, url }),
    ...loginEndpoints({ access: store.access, principals, url, failures: createFailureLimit(clock), isStarted }),
    ...eventEndpoints({ hub, clock, principalWatch, closing }),
    ...openAiEndpoints(parts.serving.inference),
    ...nodeLogEndpoints({ openLogs: parts.serving.openLogs, principalWatch, closing }),
    ...statsEndpoints({ stats: store.stats, clock }),
    ...settingEndpoints({ runtime: foundation.runtime, store: store.runtimeSettings, controller: url }),
    ...systemEndpoints({
      isReady,
      isDraining,
      bus: connected.bus,
      isBusOpen: isBusOpen(settings),
      nodes: store.nodes,
      controllers: store.controllers,
      metrics: metricsOf(foundation, parts),
      openApi: () => openApiOf(endpoints.map((endpoint) => endpoint.route)),
    }),
  ]
  // As after a change by /api/models: the caller can use the model on this controller at once.
  const wake = async (model: ModelName): Promise<void> => {
    parts.models.wake()
    await parts.serving.inference.refreshRoutes(model).catch(() => undefined)
  }
  // Before Muster's own, because /v1/models/:id would match /v1/models/capabilities.
  endpoints.push(...localAiEndpoints({ endpoints: own, store: store.modelSubmissions, wake, publicUrl: settings.publicUrl, clock }), ...own)
  return endpoints
}

const countedCatalogues = ({ planners, models }: Parts): Parameters<typeof galleryEndpoints>[0]['catalogues'] => ({
  backend: async (how) => countBackends(await planners.catalogue(how)),
  model: async (how) => countModels(await models.catalogue(how)),
})

function metricsOf({ connected: { bus }, store }: Foundation, { metrics, serving, models, hub }: Parts) {
  return {
    registry: metrics.registry,
    async refresh(): Promise<void> {
      serving.refreshMetrics()
      await refreshMetrics(metrics, { bus, store, listeners: hub.listenerCount(), readModels: models.read })
    },
  }
}

/** A loopback address behind a proxy (a public URL) is reachable by others, so it is not open. */
export function listenerOf({ host, publicUrl, requireApiKey }: ControllerSettings) {
  const publicHost = publicUrl === '' ? null : new URL(publicUrl).hostname
  const isLoopback = isLoopbackHost(host)
  return { isLoopback, isOpen: isLoopback && (publicHost === null || isLoopbackHost(publicHost)), requireApiKey, publicHost }
}
