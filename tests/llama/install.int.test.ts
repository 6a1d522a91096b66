// The llama backend from the built-in gallery to a node, and a model answered from what was installed there.
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createLocalHub } from '@muster/bus'
import { openDataDir, resolveSettings, silentLog, systemClock } from '@muster/host'
import { type NodeId, PlacementView } from '@muster/protocol'
import { loadNodeKey, startWorker, workerSettings } from '@muster/worker'
import { afterAll, beforeAll, expect, inject, it } from 'vitest'
import {
  createProcesses,
  createTestDatabase,
  makeTempDir,
  startRegistry,
  startTestController,
  waitFor,
  type TempDir,
  type TestController,
} from '../../packages/testkit/src/index.ts'
import { repository, startLlama, untilLoaded } from './server.ts'

const processes = createProcesses()
let directory: TempDir
let controller: TestController
let node: NodeId
const endings: (() => Promise<unknown>)[] = []

beforeAll(async () => {
  directory = await makeTempDir('llama')
  const hub = createLocalHub({ log: silentLog })
  const database = await createTestDatabase({ serverUrl: inject('postgresUrl') })
  const dataDir = await openDataDir({ path: join(directory.path, 'worker'), role: 'worker' })
  const { publicKey } = await loadNodeKey(dataDir)
  const ownWorkers = () => new Set([publicKey])
  controller = await startTestController({ directory: directory.path, databaseUrl: database.url, hub, ownWorkers })
  const flags = { join: controller.url, name: 'one', 'gateway-listen': '127.0.0.1:0' }
  const settings = resolveSettings(workerSettings, { flags, env: {} })
  const worker = await startWorker({ settings, dataDir, log: silentLog, clock: systemClock, connectBus: async () => hub.connect() })
  endings.push(
    () => processes.stopAll(),
    () => worker.stop(),
    () => dataDir.release(),
    () => controller.stop(),
    () => database.drop(),
    () => directory.remove(),
  )
  node = await waitFor(() => worker.nodeId(), { what: 'the node to register' })
  await waitFor(async () => (await controller.api.get(`/api/nodes/${node}`)).body['status'] === 'healthy', { what: 'a healthy node' })
})
afterAll(async () => {
  for (const end of endings) await end()
})

async function ended(operation: unknown): Promise<Record<string, unknown>> {
  return await waitFor(
    async () => {
      const { body } = await controller.api.get(`/api/operations/${String(operation)}`)
      return body['finished_at'] === null ? null : body
    },
    { what: 'the operation to end' },
  )
}

it('is offered by every controller, installed like any other backend, and answers from there', async () => {
  // A first start assembles it; until then the gallery does not offer it.
  const { body } = await waitFor(
    async () => {
      const answer = await controller.api.post('/api/backends/install', { backend: 'llama' })
      return answer.status === 202 ? answer : null
    },
    { what: 'llama to be offered' },
  )
  expect(await ended(body['operation_id'])).toMatchObject({ state: 'succeeded', nodes: [{ node_id: node, status: 'success' }] })

  const trees = join(directory.path, 'worker', 'backends', 'trees', 'sha256')
  const [tree = ''] = await readdir(trees)
  const installed = join(trees, tree, 'root')
  const llama = await untilLoaded(await startLlama(processes, { directory: installed }))
  const answer = await llama.openai.chat.completions.create({
    ...{ model: 'tiny', temperature: 0, messages: [{ role: 'user', content: 'What is the capital of France?' }] },
  })
  expect(answer.choices[0]?.message.content).toBe('The capital of France is Paris.')
  const json = await llama.openai.chat.completions.create({
    ...{ model: 'tiny', temperature: 0, messages: [{ role: 'user', content: 'Give me JSON' }], response_format: { type: 'json_object' } },
  })
  expect(JSON.parse(json.choices[0]?.message.content ?? '')).toBeTypeOf('object')
  expect((await llama.openai.embeddings.create({ model: 'tiny', input: 'ping' })).data[0]?.embedding).toHaveLength(160)
  await llama.process.stop()

  // It wrote nothing where it lies: every file is compared with what was fetched.
  const again = await controller.api.post('/api/backends/llama/upgrade', {})
  expect(await ended(again.body['operation_id'])).toMatchObject({
    ...{ state: 'succeeded', nodes: [{ message: expect.stringContaining('already up to date') as string }] },
  })
})

it('books a model by the header that the worker reported, in RAM', async () => {
  const config = { name: 'long', backend: 'llama', context_size: 65_536, options: { parallel: 8 } }
  await controller.api.put('/api/models/long', config)
  const raw = await readFile(join(repository, 'models/tiny/tiny.gguf'))
  const headers = { 'content-type': 'application/octet-stream' }
  expect(await controller.api.call('PUT', '/api/models/long/files/tiny.gguf', { raw, headers })).toMatchObject({ status: 200 })
  const view = await waitFor(
    async () => {
      const placement = PlacementView.parse((await controller.api.get('/api/models/long/placement')).body)
      return placement.memory?.basis === 'gguf' ? placement : null
    },
    { what: 'the header of the file' },
  )
  // The process uses 1,465 MiB: memory.int.test.ts.
  expect(view.memory?.parts?.total).toBeGreaterThan(0.75 * 1_465 * 2 ** 20)
  expect(view.memory?.parts?.total).toBeLessThan(1.25 * 1_465 * 2 ** 20)
  expect(view.nodes).toMatchObject([{ memory: { device: 'cpu', ram: view.memory?.parts?.total, vram: 0, card: null } }])
})

it('can be packed and pushed from where it was assembled', async () => {
  await using registry = await startRegistry()
  const { host } = new URL(registry.url)
  const from = join(repository, '.cache', 'backends', `llama-${process.platform}-${process.arch}`)
  const pack = await processes.muster(['pack', from, '-t', `${host}/llama:1`, '--push', '--allow-source', host, '-o', 'json'])
  expect(await pack.exited, pack.output()).toMatchObject({ code: 0 })
  expect(JSON.parse(pack.stdout())).toMatchObject({ digest: expect.stringMatching(/^sha256:/) as string })
})
