// Built-in backends on a worker: fetched from any controller that has them, through kills, upgrades and damage.
import { randomBytes } from 'node:crypto'
import { cp, mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { connectNats, type Bus } from '@muster/bus'
import { openDataDir, resolveSettings, silentLog, systemClock } from '@muster/host'
import {
  backendDelete,
  backendInstall,
  backendList,
  backendUpgrade,
  Digest,
  NodeId,
  nodeAgentRoutes,
  type BackendList,
} from '@muster/protocol'
import {
  adminKey,
  createApiClient,
  createNodeCaller,
  createProcesses,
  createTestDatabase,
  freePort,
  joinToken,
  makeTempDir,
  startNats,
  waitFor,
  type ApiClient,
  type StartedProcess,
  type TempDir,
} from '@muster/testkit'
import { startWorker, workerSettings, type Worker } from '@muster/worker'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { createControllerClient } from '../../packages/worker/src/controllers/controller-client.ts'
import { createBuiltinSource } from '../../packages/worker/src/installer/builtin-source.ts'

interface RunningController {
  readonly api: ApiClient
  readonly port: number
  readonly blobs: string
  process: StartedProcess
}

const processes = createProcesses()
/** Much more than the network holds on its way. */
const largeBytes = 24 * 1024 ** 2
let directory: TempDir
let databaseUrl: string
let natsUrl: string
let controllers: RunningController[]
let worker: Worker
let bus: Bus
let node: NodeId
/** Run when the worker reaches a step. */
const steps = new Map<string, () => Promise<void>>()
const endings: (() => Promise<unknown>)[] = []

beforeAll(async () => {
  directory = await makeTempDir('builtin')
  const nats = await startNats()
  const database = await createTestDatabase({ serverUrl: inject('postgresUrl') })
  ;[databaseUrl, natsUrl] = [database.url, nats.url]
  await makeBackends('1.0.0')
  controllers = [await startController(0, '1.0.0'), await startController(1, '1.0.0')]
  const dataDir = await openDataDir({ path: join(directory.path, 'worker'), role: 'worker' })
  const settings = resolveSettings(workerSettings, {
    flags: { join: first().api.url, token: joinToken, name: 'one', 'gateway-listen': '127.0.0.1:0' },
    env: {},
  })
  const step = async (name: string): Promise<void> => await steps.get(name)?.()
  worker = await startWorker({ settings, dataDir, log: silentLog, clock: systemClock, step })
  bus = await connectNats({ url: natsUrl, name: 'test', log: silentLog, clock: systemClock, inboxPrefix: '_INBOX_test' })
  node = await waitFor(() => worker.nodeId(), { what: 'the node to register' })
  await first().api.post(`/api/nodes/${node}/approve`)
  await untilHealthy(second())
  endings.push(
    () => worker.stop(),
    () => dataDir.release(),
    () => bus.close(),
    () => processes.stopAll(),
    () => nats.stop(),
    () => database.drop(),
    () => directory.remove(),
  )
})
afterAll(async () => {
  for (const end of endings) await end()
})

const first = (): RunningController => controllers[0] as RunningController
const second = (): RunningController => controllers[1] as RunningController
const untilHealthy = ({ api }: RunningController) =>
  waitFor(async () => (await api.get(`/api/nodes/${node}`)).body['status'] === 'healthy', { what: 'a healthy node' })

/** The echo of this clone under another version, and one that takes a while to fetch. */
async function makeBackends(version: string): Promise<void> {
  const to = join(directory.path, `backends-${version}`)
  await mkdir(to)
  await cp(join(import.meta.dirname, '../../backends/echo'), join(to, 'echo'), { recursive: true })
  const about = JSON.parse(await readFile(join(to, 'echo', 'backend.json'), 'utf8')) as object
  await writeFile(join(to, 'echo', 'backend.json'), JSON.stringify({ ...about, version }))
  await mkdir(join(to, 'large'))
  await writeFile(join(to, 'large', 'backend.json'), JSON.stringify({ ...about, name: 'large', version }))
  await writeFile(join(to, 'large', 'weights'), randomBytes(largeBytes))
}

async function startController(index: number, version: string, port?: number): Promise<RunningController> {
  const own = join(directory.path, `controller-${index}`)
  const listen = port ?? (await freePort())
  const options = {
    directory: own,
    databaseUrl,
    flags: { port: String(listen), 'nats-url': natsUrl },
    backendsDirectory: join(directory.path, `backends-${version}`),
  }
  const process = await processes.start('node', { args: [join(import.meta.dirname, 'controller-process.ts'), JSON.stringify(options)] })
  await process.waitForOutput(/^ready /m)
  const api = createApiClient(`http://127.0.0.1:${listen}`, adminKey)
  return { api, port: listen, blobs: join(own, 'controller', 'builtin', 'blobs', 'sha256'), process }
}

const list = async (): Promise<BackendList['backends']> => (await bus.request(backendList, { node }, {}, { timeoutMs: 60_000 })).backends
const install = (request: Readonly<{ backend: string; uri?: string; digest?: string; exact?: boolean }>) =>
  bus.request(backendInstall, { node }, request, { timeoutMs: 60_000 })
const remove = (backend: string) => bus.request(backendDelete, { node }, { backend }, { timeoutMs: 60_000 })
/** How often a controller answered a request for a blob with this status. */
async function served({ api }: RunningController, status: number): Promise<number> {
  const lines = (await api.get('/metrics')).text.split('\n').filter((line) => /_count\{/.test(line) && line.includes('/blobs/'))
  return lines.filter((line) => line.includes(`status="${status}"`)).reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0)
}
/** Digests of a backend's manifest and layer, as a controller's gallery leads to them. */
async function digestsOf(name: string, { api, blobs }: RunningController): Promise<{ manifest: Digest; layer: Digest }> {
  const [gallery] = (await api.get('/api/galleries')).body['galleries'] as unknown as { url: string }[]
  const read = async (digest: string): Promise<unknown> => JSON.parse(await readFile(join(blobs, digest.slice(7)), 'utf8'))
  const entries = (await read(gallery?.url.split('@')[1] ?? '')) as { name: string; uri: string }[]
  const manifest = Digest.parse(entries.find((entry) => entry.name === name)?.uri.split('@')[1])
  const { layers } = (await read(manifest)) as { layers: { digest: string }[] }
  return { manifest, layer: Digest.parse(layers[0]?.digest) }
}

describe('a built-in backend on a worker', () => {
  it('is installed by its name alone, by the digest of the gallery, and fetched only once', async () => {
    const { manifest } = await digestsOf('echo', first())
    expect(await install({ backend: 'echo' })).toMatchObject({ success: true })
    expect(await list()).toMatchObject([
      {
        name: 'echo',
        version: '1.0.0',
        digest: manifest,
        uri: `builtin://echo@${manifest}`,
        gallery_url: expect.stringContaining('builtin:'),
      },
    ])
    const before = (await served(first(), 200)) + (await served(second(), 200))
    expect(before).toBeGreaterThanOrEqual(4)
    const again = { backend: 'echo', uri: `builtin://echo@${manifest}`, digest: manifest, exact: true }
    expect(await install(again)).toMatchObject({ success: true })
    expect((await served(first(), 200)) + (await served(second(), 200))).toBe(before)
  })

  it('is refused when no controller has that digest, or when the content does not match it; nothing changes', async () => {
    const before = await list()
    const unknown = `builtin://echo@sha256:${'0'.repeat(64)}`
    const absent = await install({ backend: 'other', uri: unknown })
    expect(absent).toMatchObject({ success: false, error: expect.stringMatching(/no controller has .*404.*404/) as string })
    expect(await install({ backend: 'other', uri: 'builtin://echo' })).toMatchObject({
      success: false,
      error: expect.stringContaining('builtin://NAME@sha256:') as string,
    })
    const { layer } = await digestsOf('large', first())
    const whole = await readFile(join(first().blobs, layer.slice(7)))
    for (const { blobs } of controllers) await writeFile(join(blobs, layer.slice(7)), Buffer.alloc(whole.length))
    const damaged = await install({ backend: 'large' })
    for (const { blobs } of controllers) await writeFile(join(blobs, layer.slice(7)), whole)
    expect(damaged).toMatchObject({ success: false, error: expect.stringMatching(/has another hash/) as string })
    expect(await list()).toEqual(before)
  })

  it('E8 is fetched from another controller when one sends content that does not match the digest', async () => {
    const { manifest, layer } = await digestsOf('large', first())
    // Each controller has one of the two damaged, so the first one that is asked has too.
    const damaged = [join(first().blobs, layer.slice(7)), join(second().blobs, manifest.slice(7))]
    const whole = await Promise.all(damaged.map((path) => readFile(path)))
    await Promise.all(damaged.map((path, index) => writeFile(path, Buffer.alloc(whole[index]?.length ?? 0))))
    const outcome = await install({ backend: 'large' })
    await Promise.all(damaged.map((path, index) => writeFile(path, whole[index] ?? '')))
    expect(outcome).toEqual({ success: true })
    expect(await list()).toContainEqual(expect.objectContaining({ name: 'large', digest: manifest }))
    expect(await remove('large')).toEqual({ success: true })
  })

  it('goes on at the same byte from another controller when one is killed in the middle', async () => {
    const { manifest } = await digestsOf('large', first())
    expect(await served(second(), 206)).toBe(0)
    steps.set('W.pull.mid_layer', async () => {
      steps.clear()
      first().process.kill('SIGKILL')
      await first().process.exited
    })
    expect(await install({ backend: 'large' })).toMatchObject({ success: true })
    expect(first().process.hasExited()).toBe(true)
    expect(await list()).toContainEqual(expect.objectContaining({ name: 'large', digest: manifest }))
    expect(await served(second(), 206)).toBe(1)
    await remove('large')
    controllers[0] = await startController(0, '1.0.0', first().port)
  })

  it('comes from the controller that has it during an upgrade of the controllers, and is upgraded to their build', async () => {
    const old = await digestsOf('echo', first())
    await makeBackends('2.0.0')
    // Killed, so that it is not forgotten before it is back.
    second().process.kill('SIGKILL')
    await second().process.exited
    controllers[1] = await startController(1, '2.0.0', second().port)
    const fresh = await digestsOf('echo', second())
    expect(fresh.manifest).not.toBe(old.manifest)
    // Only the second has it, whichever is asked first; and the old one is still at both.
    const exactly = (manifest: Digest) => install({ backend: 'echo', uri: `builtin://echo@${manifest}`, digest: manifest, exact: true })
    await waitFor(async () => 'success' in (await exactly(fresh.manifest)) && (await list())[0]?.version === '2.0.0', {
      what: 'the new version from the second controller',
    })
    expect(await list()).toMatchObject([{ name: 'echo', version: '2.0.0', digest: fresh.manifest }])
    expect(await exactly(old.manifest)).toMatchObject({ success: true })
    expect(await list()).toMatchObject([{ name: 'echo', version: '1.0.0', digest: old.manifest }])

    await first().process.stop()
    controllers[0] = await startController(0, '2.0.0', first().port)
    // The next session tells of the new gallery.
    await waitFor(
      async () => {
        const request = { backend: 'echo' }
        expect(await bus.request(backendUpgrade, { node }, request, { timeoutMs: 60_000 })).toMatchObject({ success: true })
        return (await list())[0]?.version === '2.0.0'
      },
      { what: 'the upgrade to bring 2.0.0' },
    )
    expect(await list()).toMatchObject([{ name: 'echo', digest: fresh.manifest, uri: `builtin://echo@${fresh.manifest}` }])
  })

  it('is for approved nodes only: a pending node gets an error', async () => {
    const pending = createNodeCaller(first().api.url)
    const id = NodeId.parse((await pending.register({ token: joinToken })).body['id'])
    const urls = (): [string, string] => [first().api.url, second().api.url]
    const client = createControllerClient({ key: pending.key, urls, clock: systemClock, log: silentLog })
    const clock = { ...systemClock, sleep: async () => undefined }
    const { manifest } = await digestsOf('echo', first())
    const { signal } = new AbortController()
    const source = createBuiltinSource({ client, nodeId: () => id, clock, log: silentLog })
    await expect(source.readGallery(manifest, signal)).rejects.toThrow(/not_approved/)
    const asSomebodyElse = {
      route: nodeAgentRoutes.blob,
      params: { id: node, digest: manifest },
      headers: {},
      okStatuses: [200],
      what: 'it',
      signal,
    }
    await expect(client.open(asSomebodyElse)).rejects.toThrow(/404.*404/)
    await first().api.post(`/api/nodes/${id}/approve`)
    expect(JSON.parse(await source.readGallery(manifest, signal))).toMatchObject({ schemaVersion: 2 })
  })
})
