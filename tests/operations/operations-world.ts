// A cluster for operations: real controllers on a real database, real workers whose installer does what a test says,
// workers of the original, and workers reduced to the wire. One bus in this process, or a real nats-server.
import { createServer } from 'node:http'
import { join } from 'node:path'
import { connectNats, createLocalHub, type Bus, type LocalHub } from '@muster/bus'
import { openDataDir, resolveSettings, silentLog, systemClock, type Log } from '@muster/host'
import {
  BackendName,
  heartbeat,
  Incarnation,
  NodeId,
  nodeEvents,
  OperationId,
  progress,
  type Heartbeat,
  type InstalledBackend,
  type NodeEvent,
  type OperationNode,
  type OperationView,
  type Progress,
} from '@muster/protocol'
import {
  createNodeCaller,
  createTestDatabase,
  joinToken,
  makeTempDir,
  startHostileRegistry,
  startLegacyWorker,
  startNats,
  startTestController,
  waitFor,
  type ApiAnswer,
  type ApiClient,
  type HostileRegistry,
  type LegacyWorker,
  type LegacyWorkerOptions,
  type NatsServer,
  type TestController,
} from '@muster/testkit'
import { loadNodeKey, startWorker, workerSettings, type Worker } from '@muster/worker'
import { createScriptedInstaller, type ScriptedInstaller } from '../../packages/worker/test/scripted-installer.ts'
import { backendImage } from '../install/worker-world.ts'

export interface OperationsWorldOptions {
  readonly postgresUrl: string
  readonly controllers?: number
  /** A real server instead of the bus in this process. */
  readonly nats?: boolean
  readonly flags?: Readonly<Record<string, string | boolean>>
  readonly log?: Log
}
export interface RunningWorker {
  readonly id: NodeId
  readonly name: string
  stop(): Promise<void>
  /** The same data directory and installer, another process life. */
  start(): Promise<void>
}
/** A whole worker, its journal included; only what installing means is scripted. */
export interface ScriptedWorker extends RunningWorker {
  readonly installer: ScriptedInstaller
}
export interface WireWorker {
  readonly id: NodeId
  readonly incarnation: Incarnation
  readonly bus: Bus
  /** The replicas that its heartbeats list. */
  readonly replicas: NonNullable<Heartbeat['replicas']>
  say(
    event:
      | Omit<Extract<NodeEvent, { type: 'replica.ready' }>, 'incarnation' | 'seq'>
      | Omit<Extract<NodeEvent, { type: 'replica.exited' }>, 'incarnation' | 'seq'>
      | Omit<Extract<NodeEvent, { type: 'op.result' }>, 'incarnation' | 'seq'>
      | Omit<Extract<NodeEvent, { type: 'inventory' }>, 'incarnation' | 'seq'>,
  ): void
  tick(opId: string, tick: Omit<Progress, 'op_id' | 'node_id'>): void
  /** Heartbeats stop, or go on. */
  beSilent(isSilent: boolean): void
}
export type OperationsWorld = Awaited<ReturnType<typeof startOperationsWorld>>

const quick = {
  'heartbeat-interval': '200ms',
  'node-timeout': '2s',
  'node-offline-after': '4s',
  'op-retry-base': '200ms',
  'op-retry-max': '1s',
}

/** An entry of a node's list, of which only the name, and perhaps the digest, matters. */
export const listed = (name: string, digest = ''): InstalledBackend => ({
  ...{ is_system: false, is_meta: false, installed_at: '', gallery_url: '', version: '1', uri: '' },
  name: BackendName.parse(name),
  digest,
})

export async function startOperationsWorld(options: OperationsWorldOptions) {
  const ending = new AsyncDisposableStack()
  const directory = ending.use(await makeTempDir('operations')).path
  const nats = options.nats === true ? ending.use(await startNats()) : null
  const hub = createLocalHub({ log: silentLog })
  const database = await createTestDatabase({ serverUrl: options.postgresUrl })
  ending.defer(() => database.drop())
  const registry = ending.use(await startHostileRegistry())
  const gallery = ending.use(await serveText())
  const flags = {
    ...quick,
    'auto-approve': true,
    'allow-source': '127.0.0.0/8',
    gallery: `mine=${gallery.url}`,
    ...(nats === null ? {} : { 'nats-url': nats.url }),
    ...options.flags,
  }
  // With the bus in this process only workers of this process may join.
  const ownKeys = new Set<string>()
  const startOne = (index: number): Promise<TestController> =>
    startTestController({
      directory: join(directory, `controller-${index}`),
      databaseUrl: database.url,
      hub,
      ownWorkers: () => ownKeys,
      flags,
      ...(options.log === undefined ? {} : { log: options.log }),
    })
  const controllers = await Promise.all(Array.from({ length: options.controllers ?? 1 }, (_, index) => startOne(index)))
  for (const controller of controllers) ending.defer(() => controller.stop())
  const connect = connector({ hub, nats, ending })
  const bus = await connect('test')
  const base: World = { directory, controllers, ownKeys, connect, ending }
  const api = (index = 0): ApiClient => {
    const controller = controllers[index]
    if (controller === undefined) throw new Error(`there is no controller ${index}`)
    return controller.api
  }
  return {
    ...{ directory, database, registry, nats, hub, bus, controllers, api },
    offer: gallery.offer,
    /** An image in the registry, and its entry in the gallery. Its digest. */
    publish: publisher(registry, gallery),
    addWorker: (name: string, workerFlags: Readonly<Record<string, string>> = {}) => addWorker({ name, flags: workerFlags }, base),
    /** A worker that installs what its sources have. */
    addInstallingWorker: (name: string) => startOneWorker({ name, flags: {} }, base),
    addLegacyWorker: (name: string, legacy: Omit<LegacyWorkerOptions, 'bus' | 'nodeId'> = {}) => addLegacyWorker(name, legacy, base),
    addWireWorker: (name: string, fields: Readonly<Record<string, unknown>> = {}) => addWireWorker({ name, fields }, base),
    ...callsTo(api),
    [Symbol.asyncDispose]: () => ending.disposeAsync(),
  }
}

type Connect = (name: string) => Promise<Bus>
type World = Readonly<{
  directory: string
  controllers: readonly TestController[]
  ownKeys: Set<string>
  connect: Connect
  ending: AsyncDisposableStack
}>

function connector({ hub, nats, ending }: { hub: LocalHub; nats: NatsServer | null; ending: AsyncDisposableStack }): Connect {
  return async (name) => {
    if (nats === null) return hub.connect()
    const bus = await connectNats({ url: nats.url, name, inboxPrefix: `_INBOX_${name}`, log: silentLog, clock: systemClock })
    ending.defer(() => bus.close())
    return bus
  }
}

function callsTo(api: (index?: number) => ApiClient) {
  const operation = async (id: string, index = 0): Promise<OperationView> => {
    const { status, body, text } = await api(index).get(`/api/operations/${id}`)
    if (status !== 200) throw new Error(`GET /api/operations/${id}: ${status} ${text}`)
    return body as unknown as OperationView
  }
  const until = (id: string, what: string, condition: (operation: OperationView) => boolean, { timeoutMs = 60_000, index = 0 } = {}) =>
    waitFor(
      async () => {
        const now = await operation(id, index)
        return condition(now) ? now : null
      },
      { what: `operation ${id} to be ${what}`, timeoutMs },
    )
  const start = async (path: string, body: object, index = 0): Promise<string> => {
    // 503 has stored nothing and asks for a repeat: a busy machine may keep the database waiting.
    const post = async (): Promise<ApiAnswer | null> => {
      const got = await api(index).post(path, body)
      return got.status === 503 ? null : got
    }
    const answer = await waitFor(post, { what: `an answer of POST ${path}` })
    if (answer.status !== 202) throw new Error(`POST ${path}: ${answer.status} ${answer.text}`)
    return String(answer.body['operation_id'])
  }
  return {
    operation,
    until,
    /** To its very end. */
    ended: (id: string, options?: { timeoutMs?: number; index?: number }) =>
      until(id, 'ended', ({ state }) => ['succeeded', 'failed', 'cancelled'].includes(state), options),
    /** The row of one node, by its name. */
    row: async (id: string, name: string, index = 0): Promise<OperationNode> => {
      const found = (await operation(id, index)).nodes.find((node) => node.node_name === name)
      if (found === undefined) throw new Error(`operation ${id} has no node ${name}`)
      return found
    },
    install: (backend: string, body: object = {}, index = 0) => start('/api/backends/install', { backend, ...body }, index),
    upgrade: (backend: string, body: object = {}, index = 0) => start(`/api/backends/${backend}/upgrade`, body, index),
    async remove(backend: string, query = '', index = 0): Promise<string> {
      const answer = await api(index).delete(`/api/backends/${backend}${query}`)
      if (answer.status !== 202) throw new Error(`DELETE ${backend}: ${answer.status} ${answer.text}`)
      return String(answer.body['operation_id'])
    },
    untilStatus: (nodeId: string, status: string, timeoutMs = 60_000) =>
      waitFor(async () => (await api().get(`/api/nodes/${nodeId}`)).body['status'] === status, {
        what: `${nodeId} to be ${status}`,
        timeoutMs,
      }),
  }
}

type AddedWorker = Readonly<{ name: string; flags: Readonly<Record<string, string>> }>

async function addWorker(added: AddedWorker, world: World): Promise<ScriptedWorker> {
  const installer = createScriptedInstaller()
  return { ...(await startOneWorker({ ...added, installer }, world)), installer }
}

/** With an installer of its own unless one is given. */
async function startOneWorker(
  { name, flags, ...installer }: AddedWorker & { readonly installer?: ScriptedInstaller },
  world: World,
): Promise<RunningWorker> {
  const { controllers, directory, connect, ending } = world
  const url = controllers[0]?.url ?? ''
  const dataDir = await openDataDir({ path: join(directory, `worker-${name}`), role: 'worker' })
  const settings = resolveSettings(workerSettings, {
    flags: { join: url, token: joinToken, name, 'gateway-listen': '127.0.0.1:0', ...flags },
    env: {},
  })
  world.ownKeys.add((await loadNodeKey(dataDir)).publicKey)
  let worker: Worker | null = null
  const start = async (): Promise<void> => {
    worker = await startWorker({
      settings,
      dataDir,
      ...installer,
      log: silentLog,
      clock: systemClock,
      connectBus: () => connect(`worker-${name}-${Math.random().toString(36).slice(2)}`),
    })
  }
  const stop = async (): Promise<void> => {
    await worker?.stop()
    worker = null
  }
  await start()
  ending.defer(async () => {
    await stop()
    await dataDir.release()
  })
  const id = await waitFor(() => worker?.nodeId(), { what: `${name} to register` })
  await untilHealthy(world, id)
  return {
    ...{ id, name, start },
    async stop() {
      await stop()
      // Its goodbye is stored a moment later.
      await waitFor(async () => (await controllers[0]?.api.get(`/api/nodes/${id}`))?.body['status'] !== 'healthy', {
        what: `${name} to be shown as stopped`,
      })
    },
  }
}

async function untilHealthy({ controllers }: World, id: NodeId): Promise<void> {
  const api = controllers[0]?.api
  await waitFor(async () => (await api?.get(`/api/nodes/${id}`))?.body['status'] === 'healthy', {
    what: `${id} to be healthy`,
  })
}

async function register(name: string, fields: Readonly<Record<string, unknown>>, { controllers, ownKeys }: World) {
  const caller = createNodeCaller(controllers[0]?.url ?? '')
  ownKeys.add(caller.key.publicKey)
  const answer = await caller.register({ name, token: joinToken, ...fields })
  if (answer.status !== 201) throw new Error(`${name} could not register: ${answer.status} ${answer.text}`)
  return { caller, id: NodeId.parse(answer.body['id']) }
}

/** Speaks the original's wire alone, and heartbeats over HTTP. */
async function addLegacyWorker(
  name: string,
  options: Omit<LegacyWorkerOptions, 'bus' | 'nodeId'>,
  world: World,
): Promise<LegacyWorker & { id: NodeId; restart(): Promise<void> }> {
  const { caller, id } = await register(name, { features: [] }, world)
  const begin = async (life: number): Promise<LegacyWorker> =>
    startLegacyWorker({ ...options, bus: await world.connect(`legacy-${name}-${life}`), nodeId: id })
  const first = await begin(0)
  let current = first
  let incarnation = caller.incarnation
  const beat = (): void =>
    void caller.post(`/api/node/${id}/heartbeat`, { node_id: id, incarnation, version: '0.0.0', resources: {} }).catch(() => undefined)
  const timer = setInterval(beat, 300)
  beat()
  world.ending.defer(async () => {
    clearInterval(timer)
    await current.stop()
  })
  await untilHealthy(world, id)
  /** Another process: what the first one was at is gone, and so is what it had to say. */
  const restart = async (): Promise<void> => {
    void current.stop()
    incarnation = `${caller.incarnation}-again`
    await caller.register({ name, features: [], incarnation })
    current = await begin(1)
  }
  return { ...first, id, restart }
}

/** A node that reports and does nothing else until a test serves its subjects. */
async function addWireWorker(
  { name, fields }: { name: string; fields: Readonly<Record<string, unknown>> },
  world: World,
): Promise<WireWorker> {
  const { caller, id } = await register(name, fields, world)
  const bus = await world.connect(`wire-${name}`)
  const incarnation = Incarnation.parse(caller.incarnation)
  let seq = 0
  let isSilent = false
  const replicas: WireWorker['replicas'] = []
  const beat = (): void => {
    if (isSilent) return
    bus.publish(heartbeat, { node: id }, { node_id: id, incarnation, seq: ++seq, version: '0.0.0', resources: {}, replicas })
  }
  // As workers do when they join. A node without an inventory is queried, and answers only if a test serves its subjects.
  bus.publish(nodeEvents, { node: id }, { type: 'inventory', incarnation, seq: ++seq, backends: [] })
  const timer = setInterval(beat, 200)
  beat()
  world.ending.defer(() => clearInterval(timer))
  await untilHealthy(world, id)
  return {
    ...{ id, incarnation, bus, replicas },
    say: (event) => bus.publish(nodeEvents, { node: id }, { ...event, incarnation, seq: ++seq }),
    tick: (opId, tick) => {
      const op = OperationId.parse(opId)
      bus.publish(progress, { node: id, op }, { ...tick, op_id: op, node_id: id })
    },
    beSilent: (silent) => void (isSilent = silent),
  }
}

function publisher(registry: HostileRegistry, gallery: Awaited<ReturnType<typeof serveText>>) {
  const entries = new Map<string, object>()
  return (name: string, version: string, more: object = {}): string => {
    const image = backendImage(version)
    registry.addImage(`library/${name}`, image, 'latest')
    entries.set(name, { name, version, uri: `oci://${registry.host}/library/${name}:latest`, ...more })
    gallery.offer(JSON.stringify([...entries.values()]))
    return image.manifest.digest
  }
}

async function serveText(): Promise<{ url: string; offer: (text: string) => void } & AsyncDisposable> {
  let text = '[]'
  const server = createServer((_, response) => void response.end(text))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('not listening on a port')
  return {
    url: `http://127.0.0.1:${address.port}/index.yaml`,
    offer: (given) => void (text = given),
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
