// Installed and offered backends, over HTTP: a real worker, a real registry whose tag moves, and nodes that misbehave.
import { chmod, mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createLocalHub, type Bus } from '@muster/bus'
import { openDataDir, resolveSettings, silentLog, systemClock } from '@muster/host'
import {
  backendList,
  heartbeat,
  Incarnation,
  InstalledBackend,
  NodeId,
  Resources,
  type BackendView,
  type UpgradeView,
} from '@muster/protocol'
import {
  createNodeCaller,
  createProcesses,
  createTestDatabase,
  makeTempDir,
  readEvents,
  startRegistry,
  startTestController,
  waitFor,
  type ApiAnswer,
  type Registry,
  type TempDir,
  type TestController,
} from '@muster/testkit'
import { loadNodeKey, startWorker, workerSettings, type Worker } from '@muster/worker'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'

const processes = createProcesses()
const hub = createLocalHub({ log: silentLog })
let directory: TempDir
let registry: Registry
let controller: TestController
let worker: Worker
let bus: Bus
let uri: string
const ownWorkers = new Set<string>()
const endings: (() => Promise<unknown>)[] = []

beforeAll(async () => {
  directory = await makeTempDir('inventory')
  registry = await startRegistry()
  uri = `${registry.host}/backends/talk:latest`
  const gallery = join(directory.path, 'gallery.yaml')
  await writeFile(
    gallery,
    JSON.stringify([
      { name: 'talk', capabilities: { default: 'cpu-talk', nvidia: 'cuda12-talk' } },
      { name: 'cpu-talk', uri, description: 'talks' },
      { name: 'cuda12-talk', uri: `${registry.host}/backends/cuda12-talk:latest` },
    ]),
  )
  const database = await createTestDatabase({ serverUrl: inject('postgresUrl') })
  const dataDir = await openDataDir({ path: join(directory.path, 'worker'), role: 'worker' })
  const { publicKey } = await loadNodeKey(dataDir)
  controller = await startTestController({
    directory: directory.path,
    databaseUrl: database.url,
    hub,
    ownWorkers: () => ownWorkers.add(publicKey),
    flags: { 'allow-source': registry.host, gallery: `own=file://${gallery}` },
  })
  const settings = resolveSettings(workerSettings, {
    flags: { join: controller.url, name: 'one', 'gateway-listen': '127.0.0.1:0' },
    env: {},
  })
  worker = await startWorker({ settings, dataDir, log: silentLog, clock: systemClock, connectBus: async () => hub.connect() })
  bus = hub.connect()
  const node = await waitFor(() => worker.nodeId(), { what: 'the node to register' })
  await waitFor(async () => (await controller.api.get(`/api/nodes/${node}`)).body['status'] === 'healthy', { what: 'a healthy node' })
  endings.push(
    () => worker.stop(),
    () => dataDir.release(),
    () => bus.close(),
    () => controller.stop(),
    () => registry.stop(),
    () => database.drop(),
    () => directory.remove(),
  )
})
afterAll(async () => {
  for (const end of endings) await end()
  await processes.stopAll()
})

/** Moves the tag to this version; its digest. */
async function publish(version: string): Promise<string> {
  const from = join(directory.path, `talk-${version}`)
  await mkdir(from, { recursive: true })
  const about = { name: 'talk', version, driver: 'openai-http', command: ['./run.sh', '{addr}'], health_path: '/health', env: {} }
  await writeFile(join(from, 'backend.json'), JSON.stringify(about))
  await writeFile(join(from, 'run.sh'), '#!/bin/sh\nexit 0\n')
  await chmod(join(from, 'run.sh'), 0o755)
  const pack = await processes.muster(['pack', from, '-t', uri, '--push', '--allow-source', registry.host, '-o', 'json'])
  expect(await pack.exited, pack.output()).toMatchObject({ code: 0 })
  return (JSON.parse(pack.stdout()) as { digest: string }).digest
}
const ok = (answer: ApiAnswer): ApiAnswer => {
  expect(answer.status, answer.text).toBeLessThan(300)
  return answer
}
const backends = async (): Promise<BackendView[]> =>
  ok(await controller.api.get('/api/backends')).body['backends'] as unknown as BackendView[]
const talk = async (): Promise<BackendView | undefined> => (await backends()).find(({ name }) => name === 'talk')
const upgradesIn = (answer: ApiAnswer) => ok(answer).body['upgrades'] as unknown as Record<string, UpgradeView>
const check = async () => upgradesIn(await controller.api.post('/api/backends/upgrades/check', {}))
async function finished(operation: unknown): Promise<void> {
  await waitFor(
    async () => {
      const { state } = (await controller.api.get(`/api/operations/${String(operation)}`)).body
      expect(state).not.toBe('failed')
      return state === 'succeeded'
    },
    { what: `operation ${String(operation)}` },
  )
}

describe('the backends of a cluster', () => {
  it('are offered with the nodes they fit, from Muster itself and from galleries', async () => {
    const { body } = ok(await controller.api.get('/api/backends/gallery'))
    const offered = body['backends'] as unknown as {
      name: string
      gallery: string
      is_meta: boolean
      nodes: { fits: boolean; reason: string }[]
    }[]
    const by = (name: string) => offered.find((each) => each.name === name)
    expect(by('echo')).toMatchObject({ gallery: 'builtin', nodes: [{ fits: true }] })
    expect(by('talk')).toMatchObject({ gallery: 'own', is_meta: true, nodes: [{ fits: true, reason: null }] })
    expect(by('cuda12-talk')).toMatchObject({ nodes: [{ fits: false, reason: expect.stringMatching(/NVIDIA/) as string }] })
    expect(body['problems']).toEqual([])
  })

  it('S0.21 S0.22 S0.28 S3.1 S3.2 S3.17 are listed as installed, as outdated when their tag moves, and as current when upgraded', async () => {
    const first = await publish('1.0.0')
    const events = await readEvents(controller.api)
    const { operation_id } = ok(await controller.api.post('/api/backends/install', { backend: 'talk' })).body
    await finished(operation_id)
    const installed = await waitFor(talk, { what: 'the backend in the listing' })
    expect(installed).toMatchObject({
      is_meta: true,
      metadata: { name: 'talk', version: '1.0.0', digest: first, uri },
      nodes: [{ node_id: worker.nodeId(), node_name: 'one', node_status: 'healthy', version: '1.0.0', digest: first }],
      upgrade_available: false,
      drift: false,
    })
    expect(await check()).toEqual({})

    const second = await publish('1.1.0')
    expect(await check()).toMatchObject({ talk: { installed_digest: first, available_digest: second, node_drift: [] } })
    expect(await talk()).toMatchObject({ upgrade_available: true })
    await events.until('the news of it', ({ event, data }) => event === 'backend' && data['upgrade_available'] === true)

    // None of these upgrades anything.
    const upgrade = (body: object) => controller.api.post('/api/backends/upgrades', body)
    expect(await upgrade({ dry_run: true, nodes: [worker.nodeId()] })).toMatchObject({
      status: 200,
      body: { operations: [{ kind: 'backend.upgrade', backend: 'talk', nodes: [{ node_name: 'one' }] }] },
    })
    expect(await upgrade({ selector: { zone: 'elsewhere' } })).toMatchObject({ status: 200, body: { operations: [] } })
    expect(await upgrade({ nodes: ['n-unknown'] })).toMatchObject({ status: 404 })
    expect(await upgrade({ dryrun: true })).toMatchObject({ status: 400, body: { error: { details: { param: 'dryrun' } } } })
    expect(await controller.api.get('/api/operations')).toMatchObject({ body: { operations: [] } })
    expect(await talk()).toMatchObject({ upgrade_available: true, metadata: { digest: first } })

    const { operations } = ok(await upgrade({ nodes: [worker.nodeId()] })).body as unknown as { operations: { operation_id: string }[] }
    expect(operations).toHaveLength(1)
    await finished(operations[0]?.operation_id)
    await waitFor(async () => (await talk())?.metadata.digest === second, { what: 'the new digest in the listing' })
    expect(upgradesIn(await controller.api.get('/api/backends/upgrades'))).toEqual({})
    await events.close()
  })

  it('S3.17 are checked for newer builds after an operation, without a request', async () => {
    await check()
    await publish('1.2.0')
    expect(await talk()).toMatchObject({ upgrade_available: false })
    await finished(ok(await controller.api.post('/api/backends/install', { backend: 'talk' })).body['operation_id'])
    await waitFor(async () => (await talk())?.upgrade_available, { what: 'the newer build', timeoutMs: 60_000 })
  })

  it('come from Muster itself too, and listeners are notified of a deletion', async () => {
    const events = await readEvents(controller.api)
    await finished(ok(await controller.api.post('/api/backends/install', { backend: 'echo' })).body['operation_id'])
    const isEcho = (digest: unknown): boolean => typeof digest === 'string' && digest.startsWith('sha256:')
    await waitFor(async () => isEcho((await backends()).find(({ name }) => name === 'echo')?.metadata.digest), {
      what: 'echo in the listing',
    })
    expect(await check()).not.toHaveProperty('echo')
    await finished(ok(await controller.api.delete('/api/backends/echo')).body['operation_id'])
    await events.until('echo to be gone', ({ event, data }) => event === 'backend' && data['id'] === 'echo' && data['deleted'] === true)
    expect((await backends()).map(({ name }) => name)).toEqual(['talk'])
    await events.close()
  })

  it('S0.23 S0.24 query only nodes that never reported one: no responders is unhealthy, an answer counts', async () => {
    const enter = async (name: string): Promise<NodeId> => {
      const caller = createNodeCaller(controller.url)
      ownWorkers.add(caller.key.publicKey)
      const node = NodeId.parse(ok(await caller.register({ name })).body['id'])
      const beat = {
        node_id: node,
        incarnation: Incarnation.parse(caller.incarnation),
        seq: 1,
        version: '0',
        resources: Resources.parse({}),
      }
      await waitFor(
        async () => {
          bus.publish(heartbeat, { node }, { ...beat, seq: beat.seq++ })
          return (await controller.api.get(`/api/nodes/${node}`)).body['status'] === 'healthy'
        },
        { what: `${name} to be healthy` },
      )
      return node
    }
    const [mute, well] = [await enter('mute'), await enter('well')]
    const served = bus.serve(backendList, { node: well }, () => ({
      backends: [InstalledBackend.parse({ name: 'talk', version: '1.0.0' })],
    }))
    const listed = await talk()
    expect(listed?.nodes.map(({ node_name }) => node_name)).toEqual(['one', 'well'])
    expect((await controller.api.get(`/api/nodes/${mute}`)).body['status']).toBe('unhealthy')
    await served.stop()
    // It is known now: no node is asked again, so it does not change.
    expect((await talk())?.nodes).toHaveLength(2)
    expect((await controller.api.get(`/api/nodes/${well}`)).body['status']).toBe('healthy')
  })

  it('S0.23 W8 S0.27 are still known of a node that left, with its status', async () => {
    await worker.stop()
    await waitFor(async () => (await talk())?.nodes.find(({ node_name }) => node_name === 'one')?.node_status === 'offline', {
      what: 'the node to be offline in the listing',
    })
    const third = await publish('1.2.0')
    expect(await check()).toMatchObject({ talk: { available_digest: third } })
  })
})
