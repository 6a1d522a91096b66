// The only wiring of a controller. Everything is made here and handed on; nothing below reaches for it.
import { networkInterfaces } from 'node:os'
import { fileURLToPath } from 'node:url'
import { connectNats, createCredentialIssuer, type Bus, type LocalHub } from '@muster/bus'
import { createRequestVerifier, newId, version, type Clock, type DataDir, type Log } from '@muster/host'
import type { PublicKey, WorkerSettings } from '@muster/protocol'
import { createFailureLimit } from './auth/failure-limit.ts'
import { ensureSecrets, type FirstStart } from './auth/first-start.ts'
import { isLoopbackHost } from './auth/origin.ts'
import { createPrincipalFinder } from './auth/principal.ts'
import { createChangeFeed } from './events/feed.ts'
import { createEventHub } from './events/hub.ts'
import { createHousekeeping } from './housekeeping.ts'
import { createApp } from './http/app.ts'
import type { Endpoint } from './http/endpoint.ts'
import { eventEndpoints } from './http/events.ts'
import { keyEndpoints } from './http/keys.ts'
import { createLoginLink, loginEndpoints } from './http/login.ts'
import { nodeAgentEndpoints } from './http/node-agent.ts'
import { nodeEndpoints } from './http/nodes.ts'
import { openApiOf } from './http/openapi.ts'
import { startServer } from './http/server.ts'
import { systemEndpoints } from './http/system.ts'
import { webEndpoints } from './http/web.ts'
import { createMetrics, type Metrics } from './metrics.ts'
import { createBusCredentials, noCredentials, type BusCredentials } from './nodes/bus-credentials.ts'
import { createMembership } from './nodes/membership.ts'
import { createProber } from './nodes/probe.ts'
import { createPulseLoop } from './nodes/pulse-loop.ts'
import { viewOf } from './nodes/view.ts'
import { ownUrl } from './own-url.ts'
import type { ControllerSettings } from './settings.ts'
import { openDatabase, type OpenDatabase } from './store/open-database.ts'
import { createStore, type Store } from './store/store.ts'

export interface ControllerDeps {
  readonly settings: ControllerSettings
  readonly dataDir: DataDir
  readonly log: Log
  readonly clock: Clock
  /** The bus inside this process, when there is no --nats-url. */
  readonly localHub?: LocalHub
  /** Keys of the workers that run in this process: approved without asking. */
  readonly ownWorkers?: () => ReadonlySet<string>
}

export interface Controller {
  readonly url: string
  /** What was made at this start, to be shown once. Resolves when the database is ready. */
  readonly made: Promise<FirstStart>
  /** Resolves when database and bus work. */
  ready(signal?: AbortSignal): Promise<void>
  createLoginLink(): Promise<{ url: string; expires_at: string }>
  stop(): Promise<void>
}

const webDirectory = fileURLToPath(new URL('../../web/public', import.meta.url))
/** Long before its own token of a day ends. */
const renewOwnEveryMs = 6 * 3_600_000
/** Workers are told of controllers that reported this recently. */
const liveWithinMs = 60_000

export async function startController(deps: ControllerDeps): Promise<Controller> {
  const { settings, log, clock } = deps
  const stopping = new AbortController()
  const database = await openDatabase({ url: settings.databaseUrl, dataDir: deps.dataDir, log, clock })
  const { bus, credentials } = await connectBus(deps, stopping.signal)
  const store = createStore(database.db)
  const parts = assemble({ ...deps, bus, credentials, store, database, stopping: stopping.signal })

  const server = await startServer({ fetch: parts.app.fetch, host: settings.host, port: settings.port, log }).catch(async (error: unknown) => {
    await bus.close()
    await database.close()
    throw error
  })
  const url = ownUrl({ ...settings, port: server.port }, networkInterfaces())
  parts.setUrl(url)
  await deps.dataDir.writeFile('endpoint', `${url}\n`)

  const made = database.prepare({ signal: stopping.signal, afterwards: () => ensureSecrets({ access: store.access, dataDir: deps.dataDir, given: settings, log }) })
  const running = made.then(() => parts.run(stopping.signal))
  // Whoever waits for `made` learns of its failure; nobody may wait.
  running.catch(() => undefined)
  log.info('controller listens', { url, version, bus: bus.kind })

  return {
    url,
    made,
    ready: (signal) => parts.untilReady(signal ?? stopping.signal),
    createLoginLink: () => createLoginLink({ access: store.access, url: () => url }),
    async stop() {
      stopping.abort()
      await server.stop()
      await running.catch(() => undefined)
      await bus.close()
      await database.close()
    },
  }
}

interface ConnectedBus {
  readonly bus: Bus
  readonly credentials: BusCredentials
}

async function connectBus({ settings, localHub, log, clock }: ControllerDeps, stopping: AbortSignal): Promise<ConnectedBus> {
  if (settings.natsUrl === '' && localHub !== undefined) return { bus: localHub.connect(), credentials: noCredentials }
  const inboxPrefix = `_INBOX_${newId()}`
  const options = { url: settings.natsUrl, name: 'muster controller', inboxPrefix, log, clock }
  if (settings.natsAccountSeed === undefined) return { bus: await connectNats(options), credentials: noCredentials }
  const issuer = createCredentialIssuer({ accountSeed: settings.natsAccountSeed.reveal(), now: () => clock.now() })
  let own = await issuer.forController(inboxPrefix)
  void (async () => {
    while (!stopping.aborted) {
      await clock.sleep(renewOwnEveryMs, stopping).catch(() => undefined)
      own = await issuer.forController(inboxPrefix)
    }
  })()
  return { bus: await connectNats({ ...options, credentials: () => own }), credentials: createBusCredentials({ issuer, clock }) }
}

interface Parts extends ControllerDeps, ConnectedBus {
  readonly store: Store
  readonly database: OpenDatabase
  readonly stopping: AbortSignal
}

function assemble(parts: Parts) {
  const { settings, store, bus, clock, log, stopping } = parts
  let url = ''
  const own = { id: newId('c'), version, get url() { return url } }
  const metrics = createMetrics()
  const feed = createChangeFeed({ changes: store.changes, clock, log })
  const principals = createPrincipalFinder({ access: store.access, clock })
  const prober = createProber({ bus, nodes: store.nodes, pulses: store.pulses, log })
  const pulse = createPulseLoop({
    bus,
    pulses: store.pulses,
    clock,
    log,
    silence: { nodeTimeoutMs: settings.nodeTimeout, offlineAfterMs: settings.nodeOfflineAfter },
    probeUnproven: prober.probeUnproven,
    onTick: ({ attention, beats }) => {
      metrics.attentive.set(attention.since === null ? 0 : 1)
      metrics.beats.inc(beats)
    },
  })
  const membership = createMembership({
    nodes: store.nodes,
    access: store.access,
    feed,
    log,
    autoApprove: settings.autoApprove,
    isOwnWorker: (key: PublicKey) => parts.ownWorkers?.().has(key) ?? false,
    bus: { kind: bus.kind, url: bus.kind === 'local' ? 'local:' : settings.workerNatsUrl || settings.natsUrl, credentials: parts.credentials },
    workerSettings: createWorkerSettings(parts),
  })
  const readNodes = async (ids: readonly string[]) => new Map((await store.nodes.listByIds(ids)).map((node) => [node.id as string, viewOf(node)]))
  const hub = createEventHub({ feed, changes: store.changes, readers: { node: readNodes }, log })
  const housekeeping = createHousekeeping({ store, principals, own, clock, log })
  const isReady = (): boolean => pulse.attention().since !== null

  const endpoints: Endpoint[] = [
    ...nodeEndpoints({ nodes: store.nodes }),
    ...nodeAgentEndpoints({ membership, nodes: store.nodes, pulse, joinFailures: createFailureLimit(clock) }),
    ...keyEndpoints({ access: store.access }),
    ...loginEndpoints({ access: store.access, principals, url: () => url }),
    ...eventEndpoints({ hub, clock }),
    ...webEndpoints(webDirectory),
  ]
  endpoints.push(
    ...systemEndpoints({
      isReady,
      bus,
      nodes: store.nodes,
      controllers: store.controllers,
      metrics: { registry: metrics.registry, refresh: () => refreshMetrics(metrics, { bus, store, listeners: hub.listenerCount() }) },
      openApi: () => openApiOf(endpoints.map((endpoint) => endpoint.route)),
    }),
  )
  let isStarted = false
  const publicHost = settings.publicUrl === '' ? null : new URL(settings.publicUrl).hostname
  const app = createApp({
    endpoints,
    principals,
    listener: { isLoopback: isLoopbackHost(settings.host), requireApiKey: settings.requireApiKey, publicHost },
    verifyRequest: createRequestVerifier(),
    isStarted: () => isStarted,
    stopping,
    clock,
    log,
    onAnswer: ({ route, method, status, ms }) => metrics.requests.observe({ route, method, status }, ms / 1000),
  })

  return {
    app,
    setUrl(value: string): void {
      url = value
    },
    async untilReady(signal: AbortSignal): Promise<void> {
      while (!isReady()) await clock.sleep(20, signal)
    },
    async run(signal: AbortSignal): Promise<void> {
      isStarted = true
      const listening = parts.database.listen('muster_changes', feed.wake)
      await Promise.all([feed.run(signal), pulse.run(signal), housekeeping.run(signal)])
      await Promise.all([prober.settle(), listening.stop()])
    },
  }
}

/** The settings that workers follow; the list of controllers is read at most once a second, however many ask. */
function createWorkerSettings({ settings, store, clock }: Parts): () => Promise<WorkerSettings> {
  let known: { at: number; controllers: Promise<string[]> } | null = null
  return async () => {
    if (known === null || clock.monotonic() - known.at > 1_000) {
      const controllers = store.controllers.listLive(liveWithinMs).then((live) => [...new Set(live.map((controller) => controller.url))].toSorted())
      known = { at: clock.monotonic(), controllers }
    }
    return { heartbeat_interval_ms: settings.heartbeatInterval, controllers: await known.controllers, allow_source: [...settings.allowSource] }
  }
}

async function refreshMetrics(metrics: Metrics, now: { bus: Bus; store: Store; listeners: number }): Promise<void> {
  const { sent, received, dropped, malformed } = now.bus.stats()
  for (const [outcome, count] of Object.entries({ sent, received, dropped, malformed })) metrics.busMessages.set({ outcome }, count)
  metrics.busConnected.set(now.bus.isConnected() ? 1 : 0)
  metrics.listeners.set(now.listeners)
  metrics.nodes.reset()
  for (const status of ['pending', 'offline', 'unhealthy', 'draining', 'healthy']) metrics.nodes.set({ status }, 0)
  for (const node of await now.store.nodes.list()) metrics.nodes.inc({ status: viewOf(node).status })
}

