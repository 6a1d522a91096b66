// Operations about models over the API of two controllers; above all deletions, and what is left of them on nodes. Workers
// are reduced to the wire, so that each test says what they answer.
import { BusError } from '@muster/bus'
import { modelDelete, ReplicaId, type CommandReply, type NodeId } from '@muster/protocol'
import { administer, readEvents, waitFor } from '@muster/testkit'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { startOperationsWorld, type OperationsWorld, type WireWorker } from '../operations/operations-world.ts'

let world: OperationsWorld
let one: WireWorker
let two: WireWorker
/** Deletions that workers received. */
const deleted: { node: NodeId; model: string }[] = []
const answers = new Map<NodeId, () => CommandReply>()

beforeAll(async () => {
  world = await startOperationsWorld({
    postgresUrl: inject('postgresUrl'),
    controllers: 2,
    flags: { 'op-retry-base': '50ms', 'op-retry-max': '200ms' },
  })
  const features = ['async', 'progress', 'upgrade']
  one = await world.addWireWorker('one', { features })
  two = await world.addWireWorker('two', { features })
  await world.addWireWorker('agent', { node_type: 'agent', features })
  for (const worker of [one, two]) serve(worker)
})
afterAll(() => world[Symbol.asyncDispose]())

const serve = (worker: WireWorker) =>
  worker.bus.serve(modelDelete, { node: worker.id }, ({ model }) => {
    deleted.push({ node: worker.id, model })
    return answers.get(worker.id)?.() ?? { success: true }
  })
const query = async (text: string, values: unknown[] = []): Promise<Record<string, unknown>[]> =>
  await administer(world.database.url, async (client) => (await client.query<Record<string, unknown>>(text, values)).rows)
const create = async (name: string, config: object = {}): Promise<void> => {
  const answer = await world.api().put(`/api/models/${name}`, { backend: 'llama', ...config })
  if (answer.status >= 300) throw new Error(answer.text)
}
const start = async (name: string, what: 'load' | 'unload', key?: string): Promise<string> => {
  const answer = await world.api().post(`/api/models/${name}/${what}`, {}, key === undefined ? {} : { headers: { 'idempotency-key': key } })
  expect(answer.status).toBe(202)
  return String(answer.body['operation_id'])
}
const remove = async (name: string, index = 0): Promise<string> => {
  const answer = await world.api(index).delete(`/api/models/${name}`)
  expect(answer.status).toBe(202)
  return String(answer.body['operation_id'])
}
const told = (model: string): NodeId[] => deleted.filter((each) => each.model === model).map((each) => each.node)
const addReplica = (id: string, model: string, node: NodeId, state = 'ready') =>
  query(
    `insert into replicas (id, model, revision, ordinal, node_id, backend, config, state, ready_at)
     select $1, $2, 'r', coalesce(max(ordinal) + 1, 0), $3, 'llama', '{}', $4, case when $4 = 'ready' then now() end from replicas where model = $2`,
    [id, model, node, state],
  )
const exit = (id: string) => query(`update replicas set state = 'exited', exited_at = now() where id = $1`, [id])

describe('S0.29 W31 a deletion', () => {
  it('is of the configuration first, then of the files on every node that may have some', async () => {
    await create('gone', { scheduling: { min_replicas: 1 } })
    await query(`insert into model_load_info (model, backend, revision, options) values ('gone', 'llama', 'r', '{}')`)
    await query(`insert into model_uploads (model, filename, digest, size_bytes) values ('gone', 'f', 'sha256:' || repeat('a', 64), 1)`)
    const id = await remove('gone')
    for (const index of [0, 1]) expect((await world.api(index).get('/api/models/gone')).status).toBe(404)
    expect((await world.api().delete('/api/models/gone')).status).toBe(404)
    const end = await world.ended(id)
    expect(end).toMatchObject({ kind: 'model.delete', model: 'gone', backend: null, state: 'succeeded' })
    expect(end.nodes.map((node) => [node.node_name, node.status])).toEqual([
      ['one', 'success'],
      ['two', 'success'],
    ])
    expect(told('gone').toSorted()).toEqual([one.id, two.id].toSorted())
    for (const table of [
      'models where name',
      'model_load_info where model',
      'model_uploads where model',
      'loads where model',
      'model_removals where model',
    ])
      expect(await query(`select from ${table} = 'gone'`)).toEqual([])
  })

  it('S4.14 reaches a node that was away when it returns, and nothing brings the model back', async () => {
    await create('later')
    two.beSilent(true)
    await waitFor(async () => (await world.api().get(`/api/nodes/${two.id}`)).body['status'] !== 'healthy', { what: 'two to be missed' })
    const id = await remove('later')
    const seen = await world.until(id, 'left to the absent one', ({ nodes }) => nodes.some((node) => node.status === 'success'))
    expect(seen).toMatchObject({ state: 'background', finished_at: null })
    expect(seen.nodes[1]).toMatchObject({
      node_name: 'two',
      status: 'queued',
      message: expect.stringMatching(/^node \w+, will retry when healthy$/) as string,
    })
    expect(told('later')).toEqual([one.id])
    two.beSilent(false)
    expect(await world.ended(id)).toMatchObject({ state: 'succeeded' })
    expect(told('later')).toEqual([one.id, two.id])
    expect((await world.api().get('/api/models/later')).status).toBe(404)
  })

  it('is not undone by a node that fails; that one is tried again', async () => {
    let left = 3
    answers.set(two.id, () => (left-- > 0 ? { success: false, error: 'disk is read-only' } : { success: true }))
    await create('stubborn')
    const id = await remove('stubborn')
    await world.until(id, 'failing', ({ nodes }) =>
      nodes.some((node) => node.status === 'error' && node.attempts > 0 && node.next_retry_at !== null),
    )
    expect((await world.api().get('/api/models/stubborn')).status).toBe(404)
    expect(await world.ended(id)).toMatchObject({ state: 'succeeded' })
    answers.clear()
  })

  it('that a node refuses for good fails there, and can be retried', async () => {
    answers.set(two.id, () => ({ accepted: false, failure: { code: 'invalid', retry: 'never', message: 'I do not know models' } }))
    await create('refused')
    const id = await remove('refused')
    expect(await world.ended(id)).toMatchObject({
      state: 'failed',
      nodes: [{ status: 'success' }, { status: 'error', error: 'I do not know models', error_code: 'invalid' }],
    })
    answers.clear()
    expect((await world.api().post(`/api/operations/${id}/retry`, {})).status).toBe(202)
    expect(await world.ended(id)).toMatchObject({ state: 'succeeded' })
  })

  it('is over where a node is removed', async () => {
    const third = await world.addWireWorker('third', { features: ['async'] })
    await create('orphaned')
    const id = await remove('orphaned')
    await world.until(id, 'waiting for the third', ({ nodes }) => nodes.filter((node) => node.status === 'success').length === 2)
    expect((await world.api().delete(`/api/nodes/${third.id}`)).status).toBe(204)
    const end = await world.ended(id)
    expect(end.state).toBe('succeeded')
    expect(end.nodes.find((node) => node.node_name === 'third')).toMatchObject({ status: 'cancelled', message: 'node removed' })
  })

  it('gives way to a model that is created again', async () => {
    two.beSilent(true)
    await waitFor(async () => (await world.api().get(`/api/nodes/${two.id}`)).body['status'] !== 'healthy', { what: 'two to be missed' })
    await create('again')
    const id = await remove('again')
    await world.until(id, 'done on one', ({ nodes }) => nodes[0]?.status === 'success')
    await create('again')
    expect(await world.ended(id)).toMatchObject({
      state: 'succeeded',
      nodes: [{ status: 'success' }, { status: 'cancelled', message: 'the model was created again' }],
    })
    two.beSilent(false)
    await world.untilStatus(two.id, 'healthy')
    expect(told('again')).toEqual([one.id])
    expect((await world.api().get('/api/models/again')).status).toBe(200)
  })

  it('waits for the processes that still have the files open', async () => {
    await create('running')
    // A process that no heartbeat lists would count as exited.
    one.replicas.push({ replica_id: ReplicaId.parse('r-running'), state: 'ready', in_flight: 0 })
    await addReplica('r-running', 'running', one.id)
    const id = await remove('running')
    await world.until(id, 'done on two', ({ nodes }) => nodes[1]?.status === 'success')
    expect(told('running')).toEqual([two.id])
    // Drained by the deletion, or before it as one that no load has.
    expect(await query(`select state from replicas where id = 'r-running'`)).toEqual([{ state: 'draining' }])
    one.replicas.length = 0
    await exit('r-running')
    expect(await world.ended(id)).toMatchObject({ state: 'succeeded' })
    expect(told('running')).toEqual([two.id, one.id])
  })

  it('survives a worker that does not answer, and a controller that dies between command and note', async () => {
    await create('unheard')
    let calls = 0
    answers.set(one.id, () => {
      calls += 1
      if (calls === 1) throw new BusError('timeout', 'nobody knows')
      return { success: true }
    })
    // A lease that is not renewed: its holder is gone.
    const id = await remove('unheard')
    await query(`update model_removals set holder = 'gone', lease_until = now() - interval '1 s' where model = 'unheard'`)
    expect(await world.ended(id)).toMatchObject({ state: 'succeeded' })
    answers.clear()
  })
})

describe('a load', () => {
  it('is safe to repeat with its key', async () => {
    await create('keyed')
    const id = await start('keyed', 'load', 'key-1')
    expect(await start('keyed', 'load', 'key-1')).toBe(id)
    const other = await world.api().post('/api/models/keyed/unload', {}, { headers: { 'idempotency-key': 'key-1' } })
    expect(other).toMatchObject({ status: 422 })
    expect(await query(`select from operations where model = 'keyed'`)).toHaveLength(1)
    expect((await world.api().post('/api/models/nobody/load', {}, { headers: { 'idempotency-key': 'key-2' } })).status).toBe(404)
    await create('nobody')
    await start('nobody', 'load', 'key-2')
  })

  it('called off is over at once, and nothing more is wanted', async () => {
    await create('cancelled')
    const id = await start('cancelled', 'load')
    expect(await world.api().post(`/api/operations/${id}/cancel`, {})).toMatchObject({ status: 202, body: { state: 'cancelled' } })
    expect(await world.api().post(`/api/operations/${id}/cancel`, {})).toMatchObject({
      ...{ status: 409, body: { error: { code: 'already_finished' } } },
    })
    expect((await world.api().get('/api/models/cancelled')).body).toMatchObject({ replicas_desired: 0 })
  })
})

it('an unload of a model that is not loaded ends at once, and listeners receive it', async () => {
  await create('idle', { scheduling: { min_replicas: 1 } })
  await using reader = await readEvents(world.api(1))
  const id = await start('idle', 'unload')
  expect(await world.operation(id)).toMatchObject({ state: 'succeeded', nodes: [], message: 'no replicas were running' })
  await reader.until('the end on another controller', ({ event, data }) => event === 'operation' && data['id'] === id)
  expect((await world.api().get('/api/models/idle')).body).toMatchObject({ replicas_desired: 0 })
  expect((await world.api().put('/api/models/idle/scheduling', { min_replicas: 2 })).body).toMatchObject({ replicas_desired: 2 })
})
