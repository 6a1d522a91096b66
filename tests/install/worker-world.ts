// A whole worker with its own installer, joined to a real controller over a real NATS, and a hand on its bus. Sources on
// loopback are allowed to it.
import { createHash } from 'node:crypto'
import { createServer } from 'node:http'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { connectNats, type Bus } from '@muster/bus'
import { openDataDir, resolveSettings, silentLog, systemClock, type Step } from '@muster/host'
import {
  backendDelete,
  backendInstall,
  backendList,
  backendUpgrade,
  opCancel,
  opStatus,
  progress,
  type BackendList,
  type CommandReply,
  type NodeId,
  type OpStatusReply,
  type Progress,
} from '@muster/protocol'
import { createTestDatabase, joinToken, makeImage, makeTempDir, startNats, startTestController, tar, waitFor } from '@muster/testkit'
import type { ApiClient, ImageFixture, ImageOptions, NatsServer, TarEntry } from '@muster/testkit'
import { startWorker, workerSettings } from '@muster/worker'

export type Installing = Readonly<{
  backend: string
  uri?: string
  digest?: string
  op_id?: string
  generation?: number
  epoch?: number
  exact?: boolean
  force?: boolean
  name?: string
  async?: boolean
}>

export interface WorkerWorld extends AsyncDisposable {
  readonly node: NodeId
  readonly bus: Bus
  readonly nats: NatsServer
  readonly api: ApiClient
  /** Everything of this world; the worker's data directory is in it unless told otherwise. */
  readonly directory: string
  /** Where the worker keeps backends. */
  readonly store: string
  /** Sets the content of the cluster's gallery. */
  offer(gallery: string | readonly object[]): void
  /** Every progress event, in the order of arrival. */
  readonly ticks: readonly (Progress & { readonly at: number })[]
  /** To the end, as the original asks. */
  install(body: Installing): Promise<CommandReply>
  upgrade(body: Installing): Promise<CommandReply>
  remove(body: Installing): Promise<CommandReply>
  /** Accepted only. */
  start(kind: 'install' | 'upgrade' | 'delete', body: Installing & { op_id: string }): Promise<CommandReply>
  status(opId: string): Promise<OpStatusReply>
  cancel(opId: string): Promise<OpStatusReply>
  ended(opId: string, timeoutMs?: number): Promise<OpStatusReply>
  list(): Promise<BackendList['backends']>
  /** Names of what lies in a directory of the store. */
  inStore(...path: string[]): Promise<string[]>
}

export type WorldOptions = Readonly<{ postgresUrl: string; dataPath?: string; step?: Step }>

const long = { timeoutMs: 60_000 }
const soon = { timeoutMs: 10_000 }

export async function startWorkerWorld({ postgresUrl, dataPath, step }: WorldOptions): Promise<WorkerWorld> {
  const ending = new AsyncDisposableStack()
  const directory = ending.use(await makeTempDir('world')).path
  const nats = ending.use(await startNats())
  const database = await createTestDatabase({ serverUrl: postgresUrl })
  ending.defer(() => database.drop())
  const gallery = ending.use(await serveGallery())
  const flags = { 'nats-url': nats.url, gallery: `mine=${gallery.url}`, 'allow-source': '127.0.0.0/8', 'auto-approve': true }
  const controller = ending.use(await startTestController({ directory, databaseUrl: database.url, flags }))
  const dataDir = await openDataDir({ path: dataPath ?? join(directory, 'worker'), role: 'worker' })
  ending.defer(() => dataDir.release())
  const settings = resolveSettings(workerSettings, {
    flags: { join: controller.url, token: joinToken, name: 'one', 'gateway-listen': '127.0.0.1:0' },
    env: {},
  })
  const worker = await startWorker({ settings, dataDir, log: silentLog, clock: systemClock, ...(step === undefined ? {} : { step }) })
  ending.defer(() => worker.stop())
  const bus = await connectNats({ url: nats.url, name: 'test', inboxPrefix: '_INBOX_test', log: silentLog, clock: systemClock })
  ending.defer(() => bus.close())
  const node = await waitFor(() => worker.nodeId(), { what: 'the node to register' })
  const ticks: (Progress & { at: number })[] = []
  bus.subscribe(progress, { node, op: '*' }, (tick) => void ticks.push({ ...tick, at: performance.now() }))
  await waitFor(() => bus.request(backendList, { node }, {}, { timeoutMs: 5_000 }), { what: 'the node to answer' })
  const store = join(dataDir.root, 'backends')
  return {
    ...commandsTo(bus, node),
    ...{ node, bus, nats, directory, store, ticks, api: controller.api, offer: gallery.offer },
    inStore: async (...path) => (await readdir(join(store, ...path))).toSorted(),
    [Symbol.asyncDispose]: () => ending.disposeAsync(),
  }
}

/** Read anew for each command that needs it. */
async function serveGallery(): Promise<Pick<WorkerWorld, 'offer'> & { url: string } & AsyncDisposable> {
  let text = '[]'
  const server = createServer((_, response) => void response.end(text))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('not listening on a port')
  return {
    url: `http://127.0.0.1:${address.port}/index.yaml`,
    offer: (gallery) => void (text = typeof gallery === 'string' ? gallery : JSON.stringify(gallery)),
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

type Commands = Pick<WorkerWorld, 'install' | 'upgrade' | 'remove' | 'start' | 'status' | 'cancel' | 'ended' | 'list'>

function commandsTo(bus: Bus, node: NodeId): Commands {
  const to = { node }
  const commands = { install: backendInstall, upgrade: backendUpgrade, delete: backendDelete }
  const status: Commands['status'] = (op_id) => bus.request(opStatus, to, { op_id }, soon)
  return {
    install: (body) => bus.request(backendInstall, to, body, long),
    upgrade: (body) => bus.request(backendUpgrade, to, body, long),
    remove: (body) => bus.request(backendDelete, to, body, long),
    start: (kind, body) => bus.request(commands[kind], to, { ...body, async: true }, { timeoutMs: 60_000 }),
    status,
    cancel: (op_id) => bus.request(opCancel, to, { op_id }, soon),
    ended: (opId, timeoutMs = 90_000) =>
      waitFor(
        async () => {
          const now = await status(opId)
          return ['succeeded', 'failed', 'cancelled'].includes(now.state) ? now : null
        },
        { what: `${opId} to end`, timeoutMs },
      ),
    list: async () => (await bus.request(backendList, to, {}, soon)).backends,
  }
}

/** An image of a backend that says its version; what is given lies beside it, a layer each. */
export function backendImage(version: string, more: readonly TarEntry[] = [], options: Omit<ImageOptions, 'layers'> = {}): ImageFixture {
  const description = { name: 'echo', version, driver: 'openai-http', command: ['./run.sh', '--addr', '{addr}'] }
  const own = tar([
    { path: 'run.sh', data: '#!/bin/sh\nexit 0\n', mode: 0o755 },
    { path: 'backend.json', data: JSON.stringify(description) },
  ])
  const platform = { os: 'linux', architecture: process.arch === 'arm64' ? 'arm64' : 'amd64' }
  return makeImage({ platform, ...options, layers: [own, ...more.map((entry) => tar([entry]))] })
}

/** Bytes that no compression makes smaller, the same each time. */
export function noise(bytes: number, seed = 'noise'): Buffer {
  const blocks = Array.from({ length: Math.ceil(bytes / 64) }, (_, at) => createHash('sha512').update(`${seed} ${at}`).digest())
  return Buffer.concat(blocks).subarray(0, bytes)
}
