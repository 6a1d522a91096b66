// A backend on a worker, end to end: packed, pushed to a real registry, installed by a command on the bus, upgraded, deleted.
import { chmod, mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createLocalHub, type Bus } from '@muster/bus'
import { openDataDir, resolveSettings, silentLog, systemClock } from '@muster/host'
import {
  backendDelete,
  backendInstall,
  backendList,
  backendUpgrade,
  type NodeId,
  opStatus,
  type BackendList,
  type NodeEvent,
  nodeEvents,
  type OpStatusReply,
} from '@muster/protocol'
import {
  createProcesses,
  createTestDatabase,
  makeTempDir,
  startRegistry,
  startTestController,
  waitFor,
  type Registry,
  type TempDir,
  type TestController,
} from '@muster/testkit'
import { loadNodeKey, startWorker, workerSettings, type Worker } from '@muster/worker'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'

const processes = createProcesses()
let directory: TempDir
let registry: Registry
let controller: TestController
let worker: Worker
let bus: Bus
let node: NodeId
const events: NodeEvent[] = []
const endings: (() => Promise<unknown>)[] = []

beforeAll(async () => {
  directory = await makeTempDir('install')
  registry = await startRegistry()
  const hub = createLocalHub({ log: silentLog })
  const database = await createTestDatabase({ serverUrl: inject('postgresUrl') })
  const dataDir = await openDataDir({ path: join(directory.path, 'worker'), role: 'worker' })
  const { publicKey } = await loadNodeKey(dataDir)
  controller = await startTestController({
    directory: directory.path,
    databaseUrl: database.url,
    hub,
    ownWorkers: () => new Set([publicKey]),
    flags: { 'allow-source': new URL(registry.url).host },
  })
  const settings = resolveSettings(workerSettings, {
    flags: { join: controller.url, name: 'one', 'gateway-listen': '127.0.0.1:0' },
    env: {},
  })
  worker = await startWorker({ settings, dataDir, log: silentLog, clock: systemClock, connectBus: async () => hub.connect() })
  bus = hub.connect()
  node = await waitFor(() => worker.nodeId(), { what: 'the node to register' })
  bus.subscribe(nodeEvents, { node }, (event) => void events.push(event))
  await waitFor(async () => (await controller.api.get(`/api/nodes/${node}`)).body['status'] === 'healthy', { what: 'a healthy node' })
  endings.push(
    () => worker.stop(),
    () => dataDir.release(),
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

/** Packs a small backend with the CLI and pushes it; its digest. */
async function publish(version: string): Promise<{ uri: string; digest: string }> {
  const from = join(directory.path, `echo-${version}`)
  await mkdir(from, { recursive: true })
  await writeFile(
    join(from, 'backend.json'),
    JSON.stringify({
      name: 'echo',
      version,
      driver: 'openai-http',
      command: ['./run.sh', '--addr', '{addr}'],
      health_path: '/health',
      env: {},
    }),
  )
  await writeFile(join(from, 'run.sh'), '#!/bin/sh\nexit 0\n')
  await chmod(join(from, 'run.sh'), 0o755)
  const { host } = new URL(registry.url)
  const uri = `${host}/backends/echo:${version}`
  const pack = await processes.muster(['pack', from, '-t', uri, '--push', '--allow-source', host, '-o', 'json'])
  expect(await pack.exited, pack.output()).toMatchObject({ code: 0 })
  return { uri, digest: (JSON.parse(pack.stdout()) as { digest: string }).digest }
}
const list = async (): Promise<BackendList['backends']> => (await bus.request(backendList, { node }, {}, { timeoutMs: 5_000 })).backends
const result = (op: string): Promise<OpStatusReply> =>
  waitFor(
    async () => {
      const status = await bus.request(opStatus, { node }, { op_id: op }, { timeoutMs: 5_000 })
      return ['succeeded', 'failed', 'cancelled'].includes(status.state) ? status : null
    },
    { what: `${op} to end`, timeoutMs: 20_000 },
  )

describe('a backend on a worker', () => {
  it('S3.1 is installed by digest from a registry, upgraded to what the registry has now, and deleted', async () => {
    const first = await publish('1.0.0')
    expect(
      await bus.request(
        backendInstall,
        { node },
        { backend: 'echo', uri: first.uri, op_id: 'op-1', generation: 1, epoch: 1, async: true },
        { timeoutMs: 2_000 },
      ),
    ).toEqual({ accepted: true })
    expect(await result('op-1')).toMatchObject({ state: 'succeeded', digest: first.digest, version: '1.0.0' })
    expect(await list()).toMatchObject([{ name: 'echo', version: '1.0.0', digest: first.digest, uri: first.uri }])

    const second = await publish('1.1.0')
    await bus.request(
      backendUpgrade,
      { node },
      {
        backend: 'echo',
        uri: second.uri,
        digest: second.digest,
        op_id: 'op-2',
        generation: 2,
        epoch: 1,
        async: true,
      },
      { timeoutMs: 2_000 },
    )
    expect(await result('op-2')).toMatchObject({ state: 'succeeded', digest: second.digest, version: '1.1.0' })
    expect(await list()).toMatchObject([{ name: 'echo', version: '1.1.0', digest: second.digest }])

    await bus.request(
      backendDelete,
      { node },
      { backend: 'echo', op_id: 'op-3', generation: 3, epoch: 1, async: true },
      { timeoutMs: 2_000 },
    )
    expect(await result('op-3')).toMatchObject({ state: 'succeeded' })
    expect(await list()).toEqual([])
    expect(events.filter((event) => event.type === 'op.result').length).toBeGreaterThanOrEqual(3)
  }, 60_000)

  it('is taken from a directory of the machine, and answers at the end to who asks without async', async () => {
    const from = join(directory.path, 'echo-1.0.0')
    const reply = await bus.request(backendInstall, { node }, { backend: 'local-echo', uri: `file://${from}` }, { timeoutMs: 20_000 })
    expect(reply).toMatchObject({ success: true })
    expect(await list()).toMatchObject([{ name: 'local-echo', version: '1.0.0', digest: expect.stringMatching(/^sha256:/) as string }])
    const root = await readFile(join(from, 'backend.json'), 'utf8')
    expect(root).toContain('openai-http')
  }, 60_000)

  it.each([
    ['an unknown backend', { backend: 'nothing' }, /no gallery offers nothing|not_found|knows no/],
    ['a source that is none', { backend: 'x', uri: 'ftp://example.org/x' }, /no source/],
    ['a private address that is not listed', { backend: 'x', uri: 'oci://127.0.0.1:1/x:1' }, /source_forbidden|unavailable|refused/],
  ])(
    'fails with a reason for %s, and changes nothing',
    async (_, request, words) => {
      const before = await list()
      const reply = await bus.request(backendInstall, { node }, request, { timeoutMs: 30_000 })
      expect(JSON.stringify(reply)).toMatch(words)
      expect(reply).toMatchObject({ success: false })
      expect(await list()).toEqual(before)
    },
    60_000,
  )
})
