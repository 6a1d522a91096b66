// A load and an install of a model, from the request to the end, with workers reduced to the wire: the loop that moves loads
// and the one that shows operations, together.
import { BackendName, modelLoad, modelUnload, nodeEvents, opCancel, opStatus, type LoadModel } from '@muster/protocol'
import { administer, readEvents, waitFor } from '@muster/testkit'
import { afterAll, beforeAll, expect, inject, it } from 'vitest'
import { listed, startOperationsWorld, type OperationsWorld, type WireWorker } from '../operations/operations-world.ts'

let world: OperationsWorld
let worker: WireWorker
const loads: LoadModel[] = []
const cancelled = new Set<string>()

beforeAll(async () => {
  world = await startOperationsWorld({ postgresUrl: inject('postgresUrl'), controllers: 2 })
  worker = await world.addWireWorker('one', { features: ['async', 'progress', 'upgrade'] })
  worker.say({ type: 'inventory', backends: [listed('scripted')] })
  worker.bus.serve(modelLoad, { node: worker.id }, (load) => {
    loads.push(load)
    return { accepted: true as const }
  })
  worker.bus.serve(modelUnload, { node: worker.id }, ({ replica_id: id }) => {
    const load = loads.find((each) => each.replica_id === id)
    if (load !== undefined) say('replica.exited', load)
    return { accepted: true as const }
  })
  worker.bus.serve(opStatus, { node: worker.id }, ({ op_id: id }) => ({ op_id: id, state: 'running' as const }))
  worker.bus.serve(opCancel, { node: worker.id }, ({ op_id: id }) => {
    cancelled.add(id)
    return { op_id: id, state: 'cancelled' as const }
  })
})
afterAll(() => world[Symbol.asyncDispose]())

let seq = 1_000
const say = (type: 'replica.ready' | 'replica.exited', { replica_id, model, revision, op_id }: LoadModel): void =>
  worker.bus.publish(
    nodeEvents,
    { node: worker.id },
    { type, incarnation: worker.incarnation, seq: ++seq, replica_id, model, revision, ...(op_id === undefined ? {} : { op_id }) },
  )
const loadOf = (model: string): Promise<LoadModel> =>
  waitFor(() => loads.findLast((each) => each.model === model), { what: `${model} to be loaded` })
const query = async (text: string): Promise<Record<string, unknown>[]> =>
  await administer(world.database.url, async (client) => (await client.query<Record<string, unknown>>(text)).rows)
const post = async (path: string, body: object = {}): Promise<string> => {
  const answer = await world.api().post(path, body)
  if (answer.status !== 202) throw new Error(`${path}: ${answer.status} ${answer.text}`)
  return String(answer.body['operation_id'])
}
/** Over and over, as workers do: one alone may be lost. */
function tick(load: LoadModel, current: number): Disposable {
  const timer = setInterval(() => tickOnce(load, current), 200)
  return { [Symbol.dispose]: () => clearInterval(timer) }
}
const tickOnce = (load: LoadModel, current: number): void =>
  worker.tick(load.op_id ?? '', {
    backend: BackendName.parse('scripted'),
    file_name: 'f',
    current,
    total: 100,
    percentage: current,
    phase: 'downloading',
    seq: ++seq,
  })

it('S4.2 a load is shown with its node, ends when its replica is ready, and stores its parameters', async () => {
  await world.api().put('/api/models/served', { backend: 'scripted', context_size: 512 })
  const id = await post('/api/models/served/load')
  const load = await loadOf('served')
  using held = new DisposableStack()
  held.use(tick(load, 40))
  const shown = await world.until(id, 'fetching', ({ nodes }) => nodes[0]?.current === 40)
  expect(shown).toMatchObject({
    state: 'running',
    nodes: [{ node_name: 'one', status: 'downloading', phase: 'downloading', percentage: 40 }],
  })
  say('replica.ready', load)
  expect(await world.ended(id)).toMatchObject({ state: 'succeeded', nodes: [{ node_name: 'one', status: 'success', percentage: 100 }] })
  const [info] = await waitFor(
    async () => {
      const rows = await query(`select backend, revision, options from model_load_info where model = 'served'`)
      return rows.length > 0 && rows
    },
    { what: 'the load info' },
  )
  expect(info).toMatchObject({ backend: 'scripted', revision: load.revision })
  expect((await world.api(1).get('/api/models/served')).body).toMatchObject({ state: 'ready', replicas_ready: 1 })

  const unload = await post('/api/models/served/unload')
  expect(await world.ended(unload)).toMatchObject({ state: 'succeeded', nodes: [{ node_name: 'one', status: 'success' }] })
  expect((await world.api(1).get('/api/models/served')).body).toMatchObject({ state: 'unloaded', replicas_ready: 0, replicas_desired: 0 })
  // S4.6: no process of it is left, and the parameters of its last load are still shown.
  const { body } = await world.api(1).get('/api/models/served')
  expect(body).toMatchObject({ last_loaded: { backend: 'scripted', revision: load.revision, options: { backend: 'scripted' } } })
})

it('S0.38 an install streams its progress to listeners, and is cancelled on its worker', async () => {
  world.offer('[]')
  await world.api().put('/api/models/plain', { backend: 'scripted', files: [{ uri: 'https://h.example/f', filename: 'f' }] })
  // In one statement, as a submission does it.
  await query(`
    with submitted as (insert into operations (id, kind, model, requested_by) values ('op-install', 'model.install', 'plain', 'test'))
    insert into loads (model, purpose, ordinal, revision, operation_id, state, next_at)
    select name, 'stage', 0, revision, 'op-install', 'waiting', now() from models where name = 'plain'`)
  await using reader = await readEvents(world.api(1))
  const load = await loadOf('plain')
  expect(load.stage_only).toBe(true)
  using held = new DisposableStack()
  held.use(tick(load, 30))
  await reader.until('the bytes', ({ event, data }) => event === 'operation' && data['id'] === 'op-install' && data['current_bytes'] === 30)
  expect(await world.operation('op-install')).toMatchObject({ kind: 'model.install', state: 'running', progress: 30, nodes: [] })
  expect((await world.api().post('/api/operations/op-install/cancel', {})).status).toBe(202)
  expect(await world.ended('op-install')).toMatchObject({ state: 'cancelled', nodes: [] })
  expect(cancelled.has(load.op_id ?? '')).toBe(true)
})

it('S4.14 a deletion ends the process, and no tick, event or heartbeat brings the model back', async () => {
  await world.api().put('/api/models/deleted', { backend: 'scripted', scheduling: { min_replicas: 1 } })
  const load = await loadOf('deleted')
  say('replica.ready', load)
  await waitFor(async () => (await world.api().get('/api/models/deleted')).body['state'] === 'ready', {
    what: 'it to be ready',
  })
  expect((await world.api().delete('/api/models/deleted')).status).toBe(202)
  await waitFor(async () => (await query(`select from replicas where model = 'deleted' and state <> 'exited'`)).length === 0, {
    what: 'its process to be ended',
  })
  say('replica.ready', load)
  const before = loads.length
  await world.api().put('/api/models/after', { backend: 'scripted', scheduling: { min_replicas: 1 } })
  await loadOf('after')
  expect(loads.slice(before).filter(({ model }) => model === 'deleted')).toEqual([])
  for (const table of ['models where name', 'loads where model', 'model_load_info where model'])
    expect(await query(`select from ${table} = 'deleted'`)).toEqual([])
})
