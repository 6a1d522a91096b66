// A backend on a worker, end to end: packed, pushed to a real registry, installed by a command on the bus, upgraded, deleted.
import { chmod, cp, mkdir, readFile, symlink, utimes, writeFile } from 'node:fs/promises'
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
const list = async (): Promise<BackendList['backends']> => (await bus.request(backendList, { node }, {}, { timeoutMs: 60_000 })).backends
const result = (op: string): Promise<OpStatusReply> =>
  waitFor(
    async () => {
      const status = await bus.request(opStatus, { node }, { op_id: op }, { timeoutMs: 60_000 })
      return ['succeeded', 'failed', 'cancelled'].includes(status.state) ? status : null
    },
    { what: `${op} to end` },
  )

describe('a backend on a worker', () => {
  it('S3.1 is installed by digest from a registry, upgraded to the current build, and deleted', async () => {
    const first = await publish('1.0.0')
    expect(
      await bus.request(
        backendInstall,
        { node },
        { backend: 'echo', uri: first.uri, op_id: 'op-1', generation: 1, epoch: 1, async: true },
        { timeoutMs: 60_000 },
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
      { timeoutMs: 60_000 },
    )
    expect(await result('op-2')).toMatchObject({ state: 'succeeded', digest: second.digest, version: '1.1.0' })
    expect(await list()).toMatchObject([{ name: 'echo', version: '1.1.0', digest: second.digest }])

    await bus.request(
      backendDelete,
      { node },
      { backend: 'echo', op_id: 'op-3', generation: 3, epoch: 1, async: true },
      { timeoutMs: 60_000 },
    )
    expect(await result('op-3')).toMatchObject({ state: 'succeeded' })
    expect(await list()).toEqual([])
    expect(events.filter((event) => event.type === 'op.result').length).toBeGreaterThanOrEqual(3)
  })

  it('is taken from a directory of the machine, under the digest that packing it gives; without async the answer comes at the end', async () => {
    const from = join(directory.path, 'odd')
    await cp(join(directory.path, 'echo-1.0.0'), from, { recursive: true })
    await mkdir(join(from, 'empty'))
    await mkdir(join(from, 'a/ö'), { recursive: true, mode: 0o700 })
    await writeFile(join(from, 'a/ö/only-mine'), 'x', { mode: 0o400 })
    await writeFile(join(from, 'a/tool'), 'y', { mode: 0o711 })
    await symlink('../run.sh', join(from, 'a/link'))
    await utimes(join(from, 'run.sh'), new Date(0), new Date(0))
    const pack = await processes.muster([
      'pack',
      from,
      '-t',
      'odd:1',
      '--compression',
      'none',
      '--out',
      join(directory.path, 'layout'),
      '-o',
      'json',
    ])
    expect(await pack.exited, pack.output()).toMatchObject({ code: 0 })
    const { digest } = JSON.parse(pack.stdout()) as { digest: string }

    const request = { backend: 'local-echo', uri: `file://${from}` }
    expect(await bus.request(backendInstall, { node }, request, { timeoutMs: 60_000 })).toMatchObject({ success: true })
    expect(await list()).toMatchObject([{ name: 'local-echo', version: '1.0.0', digest }])
    const pinned = { ...request, digest, exact: true }
    expect(await bus.request(backendInstall, { node }, pinned, { timeoutMs: 60_000 })).toMatchObject({ success: true })
    expect(await readFile(join(from, 'backend.json'), 'utf8')).toContain('openai-http')
    await bus.request(backendDelete, { node }, { backend: 'local-echo' }, { timeoutMs: 60_000 })
  })

  it('is one of those that come with Muster when only its name is given', async () => {
    expect(await bus.request(backendInstall, { node }, { backend: 'echo' }, { timeoutMs: 60_000 })).toMatchObject({ success: true })
    const [echo] = await list()
    expect(echo).toMatchObject({
      name: 'echo',
      uri: `builtin://echo@${echo?.digest}`,
      gallery_url: expect.stringMatching(/^builtin:/) as string,
    })
    await bus.request(backendDelete, { node }, { backend: 'echo' }, { timeoutMs: 60_000 })
    expect(await list()).toEqual([])
  })

  it.each([
    ['an unknown backend', { backend: 'nothing' }, /no gallery offers nothing|not_found|knows no/],
    ['a source that is none', { backend: 'x', uri: 'ftp://example.org/x' }, /unsupported source/],
    ['a private address that is not listed', { backend: 'x', uri: 'oci://127.0.0.1:1/x:1' }, /source_forbidden|unavailable|refused/],
  ])('fails with a reason for %s, and changes nothing', async (_, request, words) => {
    const before = await list()
    const reply = await bus.request(backendInstall, { node }, request, { timeoutMs: 60_000 })
    expect(JSON.stringify(reply)).toMatch(words)
    expect(reply).toMatchObject({ success: false })
    expect(await list()).toEqual(before)
  })
})
