// A model on one node alone: load, unload, delete and prefetch, with whole controllers and workers.
import { createHash } from 'node:crypto'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { adminKey, createProcesses, nodesOf, startFileServer, waitFor, type ApiClient, type FileServer } from '@muster/testkit'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { startFleet, type Fleet } from '../fleet/fleet-world.ts'
import { noise } from '../install/worker-world.ts'
import { visitWeb } from '../web/web-world.ts'

type SeenOperation = Readonly<{
  kind: string
  state: string
  message: string
  nodes: readonly Readonly<{ node_name: string; status: string; message: string }>[]
}>

let world: Fleet
let server: FileServer
const processes = createProcesses()
const weights = noise(512 * 1024, 'on nodes')
const sha256 = createHash('sha256').update(weights).digest('hex')

beforeAll(async () => {
  server = await startFileServer()
  server.put('/weights.bin', { bytes: weights })
  world = await startFleet({ postgresUrl: inject('postgresUrl'), controllers: 2, workers: ['one', 'two'] })
})
afterAll(async () => {
  await processes.stopAll()
  await world?.[Symbol.asyncDispose]()
  await server?.[Symbol.asyncDispose]()
})

const api = (index = 0): ApiClient => (world.controllers[index] ?? world.controllers[0])?.api as ApiClient
const idOf = async (name: string): Promise<string> => (await nodesOf(api())).find((node) => node.name === name)?.id ?? ''
const files = () => [{ uri: `${server.url}/weights.bin`, filename: 'weights.bin', sha256 }]
const isKept = async (name: string): Promise<boolean> =>
  (await readdir(join(world.directory, `worker-${name}`, 'models', 'blobs', 'sha256')).catch((): string[] => [])).includes(sha256)
const readyOn = async (model: string): Promise<string[]> =>
  (await world.replicas(model))
    .filter(({ state, reachable }) => state === 'ready' && reachable)
    .map(({ node_name: name }) => name)
    .toSorted()
const untilReadyOn = (model: string, names: string[]): Promise<unknown> =>
  waitFor(async () => JSON.stringify(await readyOn(model)) === JSON.stringify(names), {
    what: `${model} to be on ${names.join(', ') || 'no node'}`,
  })
const operation = async (id: string): Promise<SeenOperation> => (await api(1).get(`/api/operations/${id}`)).body as unknown as SeenOperation
const ended = (id: string): Promise<SeenOperation> =>
  waitFor(
    async () => {
      const seen = await operation(id)
      return ['succeeded', 'failed', 'cancelled'].includes(seen.state) ? seen : null
    },
    { what: `operation ${id} to end` },
  )
const start = async (path: string, body: object): Promise<SeenOperation> => {
  const answer = await api().post(path, body)
  expect(answer.status, answer.text).toBe(202)
  return await ended(String(answer.body['operation_id']))
}
const reasonAt = async (model: string, name: string): Promise<string> => {
  const { body } = await api(1).get(`/api/models/${model}/placement`)
  return (body['nodes'] as unknown as { node_name: string; reason: string }[]).find((node) => node.node_name === name)?.reason ?? ''
}
const muster = async (...args: string[]): Promise<{ code: number | null; output: string }> => {
  const cli = await processes.muster(args, { env: { MUSTER_URL: api(1).url, MUSTER_ADMIN_KEY: adminKey } })
  const { code } = await cli.exited
  return { code, output: cli.output() }
}
const offNode = 'unloaded on this node by an administrator'

describe('a model on one node alone', () => {
  it('is loaded where the command line says, and not started elsewhere when it is unloaded there without a minimum', async () => {
    await world.putModel('chosen', {}, { scheduling: { max_replicas: 2 } })
    for (const name of ['two', 'one']) {
      const loaded = await muster('models', 'load', 'chosen', '--node', name)
      expect(loaded, loaded.output).toMatchObject({ code: 0 })
      expect(await readyOn('chosen')).toContain(name)
    }
    expect(await api().post('/api/models/chosen/load', { node_id: await idOf('one') })).toMatchObject({ status: 202 })
    expect(await muster('models', 'unload', 'chosen', '--node', 'one')).toMatchObject({ code: 0 })
    await untilReadyOn('chosen', ['two'])
    expect(await muster('models', 'unload', 'chosen', '--node', 'two')).toMatchObject({ code: 0 })
    await world.until('chosen', ({ state }) => state === 'unloaded')
    expect(await readyOn('chosen')).toEqual([])
    // A change of the scheduling ends both.
    expect((await api().put('/api/models/chosen/scheduling', { min_replicas: 2, max_replicas: 2 })).status).toBe(200)
    await untilReadyOn('chosen', ['one', 'two'])
    await start('/api/models/chosen/unload', {})
  })

  it('is refused beyond its maximum, on a node that cannot run it, and on one that does not exist', async () => {
    await world.putModel('single', {}, { scheduling: { min_replicas: 1, node_selector: { 'node.name': 'one' } } })
    await untilReadyOn('single', ['one'])
    const load = async (body: object) => await api().post('/api/models/single/load', body)
    expect(await load({ node_id: await idOf('two') })).toMatchObject({
      ...{
        status: 409,
        body: { error: { code: 'not_eligible', message: expect.stringContaining('two cannot run single: its label') as string } },
      },
    })
    await api().put('/api/models/single/scheduling', { min_replicas: 1 })
    expect(await load({ node_id: await idOf('two') })).toMatchObject({
      ...{ status: 409, body: { error: { code: 'at_maximum', message: expect.stringContaining('max_replicas') as string } } },
    })
    expect((await load({ node_id: 'n-nobody' })).status).toBe(404)
    expect((await load({ node: 'one' })).text).toContain('node_id')
    expect((await api().post('/api/models/single/unload', { node_id: 'n-nobody' })).status).toBe(404)
    await start('/api/models/single/unload', {})
  })

  it('with one replica on every node has one less', async () => {
    await world.putModel('spread', {}, { scheduling: { replicas: 'all' } })
    await untilReadyOn('spread', ['one', 'two'])
    await start('/api/models/spread/unload', { node_id: await idOf('one') })
    await untilReadyOn('spread', ['two'])
    expect((await api(1).get('/api/models/spread')).body).toMatchObject({ replicas_desired: 1, failure: null })
    expect((await api(1).get(`/api/nodes/${await idOf('one')}`)).body['unloaded_models']).toContain('spread')
    await start('/api/models/spread/load', { node_id: await idOf('one') })
    await untilReadyOn('spread', ['one', 'two'])
    await start('/api/models/spread/unload', {})
  })
})

describe('in the browser', () => {
  it('a replica is unloaded on its node, which says so, and loaded there again', async () => {
    await world.putModel('paged', {}, { scheduling: { min_replicas: 1, node_selector: { 'node.name': 'one' } } })
    await untilReadyOn('paged', ['one'])
    await using visitor = await visitWeb({ api: api() }, { path: `/nodes/${await idOf('one')}` })
    const { page } = visitor
    await page.getByRole('button', { name: 'Actions for paged on one' }).click()
    await page.getByRole('button', { name: 'Unload on this node…' }).click()
    await page.getByRole('dialog', { name: 'Unload paged on one' }).getByRole('button', { name: 'Unload paged on one' }).click()
    await page.getByRole('dialog', { name: 'Unload model paged' }).getByText('Done').first().waitFor()
    await page.keyboard.press('Escape')
    await page.getByRole('button', { name: 'Load paged on this node' }).waitFor()
    await visitor.goto('/models/paged?tab=placement')
    await page.getByRole('row', { name: 'one' }).getByText(offNode).waitFor()
    await page.getByRole('button', { name: 'Actions for paged on one' }).click()
    await page.getByRole('button', { name: 'Load on this node' }).click()
    await page.getByRole('dialog', { name: 'Load model paged' }).getByText('Done').first().waitFor()
    await untilReadyOn('paged', ['one'])
    await visitor.goto('/models/paged')
    await page.getByRole('button', { name: 'Actions for paged on one' }).click()
    await page.getByRole('button', { name: 'Delete on this node…' }).click()
    await page.getByRole('dialog', { name: 'Delete paged on one' }).getByText('The model itself stays.').waitFor()
    await page.getByRole('button', { name: 'Delete paged on one' }).click()
    await untilReadyOn('paged', [])
    expect(visitor.problems()).toEqual([])
    await start('/api/models/paged/unload', {})
  })
})

describe('the files of a model', () => {
  it('are prefetched to chosen nodes without a process, also to one that was away', async () => {
    await world.putModel('files', {}, { parameters: { model: 'weights.bin' }, files: files() })
    await world.workers.get('two')?.stop()
    await waitFor(async () => (await nodesOf(api())).some(({ name, status }) => name === 'two' && status === 'offline'), {
      what: 'two to leave',
    })
    const answer = await api().post('/api/models/files/prefetch', {})
    expect(answer.status, answer.text).toBe(202)
    const id = String(answer.body['operation_id'])
    await waitFor(async () => (await operation(id)).state === 'background', { what: 'the operation to wait for two' })
    expect(await operation(id)).toMatchObject({
      kind: 'model.prefetch',
      nodes: [
        { node_name: 'one', status: 'success' },
        { node_name: 'two', status: 'queued', message: 'node offline, will retry when healthy' },
      ],
    })
    expect(await isKept('one')).toBe(true)
    expect(await isKept('two')).toBe(false)
    expect(await world.model('files')).toMatchObject({ state: 'unloaded', replicas_ready: 0 })
    await world.startWorker('two')
    expect(await ended(id)).toMatchObject({ state: 'succeeded' })
    expect(await isKept('two')).toBe(true)
    expect(await world.replicas('files')).toEqual([])
    expect((await muster('models', 'prefetch', 'files', '--node', 'one')).code).toBe(0)
  })

  it('are deleted on one node with its replica, and the model serves on the other', async () => {
    await api().put('/api/models/files/scheduling', { replicas: 'all' })
    await untilReadyOn('files', ['one', 'two'])
    const removed = await muster('models', 'rm', 'files', '--node', 'one')
    expect(removed, removed.output).toMatchObject({ code: 0 })
    await untilReadyOn('files', ['two'])
    expect([await isKept('one'), await isKept('two')]).toEqual([false, true])
    expect((await world.ask('files')).status).toBe(200)
    expect(await reasonAt('files', 'one')).toBe(offNode)
    // A prefetch brings the files back, and a load the replica.
    await start('/api/models/files/prefetch', { nodes: [await idOf('one')] })
    expect(await isKept('one')).toBe(true)
    expect(await readyOn('files')).toEqual(['two'])
    await api().put('/api/models/files/scheduling', {})
    await start('/api/models/files/unload', {})
  })

  it('that were uploaded are not deleted where their only copy is', async () => {
    await world.putModel('sent', {}, { parameters: { model: 'own.bin' } })
    const uploaded = await api().call('PUT', '/api/models/sent/files/own.bin', {
      raw: noise(1024, 'own'),
      headers: { 'content-type': 'application/octet-stream' },
    })
    expect(uploaded.status, uploaded.text).toBe(200)
    const [one, two] = [await idOf('one'), await idOf('two')]
    const removed = await api().delete(`/api/models/sent?node=${one}`)
    expect(removed.status, removed.text).toBe(202)
    await ended(String(removed.body['operation_id']))
    const [digest] = [String(uploaded.body['digest'])]
    await waitFor(async () => (await api().delete(`/api/models/sent?node=${two}`)).body['error'] !== undefined, {
      what: `the inventory without ${digest}`,
    })
    expect(await api().delete(`/api/models/sent?node=${two}`)).toMatchObject({ status: 409, body: { error: { code: 'only_copy' } } })
  })

  it('are prefetched to a worker that was started for them, once on either controller', async () => {
    await world.startWorker('three', ['--prefetch-models', 'files,later'])
    await waitFor(() => isKept('three'), { what: 'three to have the files' })
    expect(await world.model('files')).toMatchObject({ state: 'unloaded' })
    await world.putModel('later', {}, { parameters: { model: 'weights.bin' }, files: files() })
    const ofWorker = async (): Promise<string[]> =>
      (
        (await api(1).get('/api/operations?state=finished')).body['operations'] as unknown as {
          requested_by: string
          model: string
          state: string
        }[]
      )
        .filter(({ requested_by: by }) => by === 'worker three (--prefetch-models)')
        .map(({ model, state }) => `${model} ${state}`)
        .toSorted()
    await waitFor(async () => (await ofWorker()).length === 2, { what: 'the prefetch of the model that was created later' })
    expect(await ofWorker()).toEqual(['files succeeded', 'later succeeded'])
  })
})

// Last, because controllers that were killed hold up drains for a while.
describe('a model that was unloaded on one node', () => {
  it('moves with its minimum to another node, and nothing brings it back, not even a kill of both controllers', async () => {
    await world.putModel('moved', {}, { scheduling: { min_replicas: 1, max_replicas: 2, node_selector: { 'node.name': ['one', 'two'] } } })
    await waitFor(async () => (await readyOn('moved')).length === 1, { what: 'a replica' })
    const [first = ''] = await readyOn('moved')
    const other = first === 'one' ? 'two' : 'one'
    const end = await start('/api/models/moved/unload', { node_id: await idOf(first) })
    expect(end).toMatchObject({ kind: 'model.unload', state: 'succeeded', nodes: [{ node_name: first, status: 'success' }] })
    await untilReadyOn('moved', [other])
    expect(await reasonAt('moved', first)).toBe(offNode)
    expect((await muster('models', 'why', 'moved')).output).toContain(offNode)

    // Both controllers are killed, and the other node is gone: still not there.
    for (const controller of world.controllers) controller.process.kill('SIGKILL')
    await Promise.all(world.controllers.map((controller) => world.restartController(controller)))
    await world.workers.get(other)?.stop()
    await world.until('moved', ({ failure }) => failure?.code === 'no_capacity')
    expect(await readyOn('moved')).not.toContain(first)
    expect((await world.model('moved')).failure?.message).toContain(`${first}: ${offNode}`)

    // A load there ends it.
    expect(await start('/api/models/moved/load', { node_id: await idOf(first) })).toMatchObject({
      ...{ kind: 'model.load', state: 'succeeded', nodes: [{ node_name: first, status: 'success' }] },
    })
    expect(await readyOn('moved')).toEqual([first])
    expect(await reasonAt('moved', first)).not.toBe(offNode)
  })
})
