// An intent beside others: repeated, joined, replaced, and kept in the history.
import { backendDelete, backendInstall } from '@muster/protocol'
import { administer, waitFor } from '@muster/testkit'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { backendName, createGate, failing } from '../../packages/worker/test/scripted-installer.ts'
import { startOperationsWorld, type OperationsWorld, type ScriptedWorker } from './operations-world.ts'

let world: OperationsWorld
let one: ScriptedWorker
let two: ScriptedWorker

beforeAll(async () => {
  world = await startOperationsWorld({ postgresUrl: inject('postgresUrl'), controllers: 2 })
  one = await world.addWorker('one')
  two = await world.addWorker('two')
})
afterAll(() => world[Symbol.asyncDispose]())

const query = async (text: string, values: unknown[] = []): Promise<Record<string, unknown>[]> =>
  await administer(world.database.url, async (client) => (await client.query<Record<string, unknown>>(text, values)).rows)
const count = async (): Promise<string> => {
  const tables = ['operations', 'operation_nodes', 'intents', 'intent_events', 'idempotency_keys']
  const counts = await Promise.all(tables.map((table) => query(`select count(*) from ${table}`)))
  return JSON.stringify(counts)
}
const listed = async (filter: string): Promise<string[]> => {
  const { status, body } = await world.api(1).get(`/api/operations${filter}`)
  expect(status).toBe(200)
  return (body['operations'] as unknown as { id: string }[]).map(({ id }) => id)
}
const installWithKey = (key: string, body: object, index = 0) =>
  world.api(index).post('/api/backends/install', body, { headers: { 'idempotency-key': key } })

describe('an Idempotency-Key', () => {
  it('W15 B11 makes twenty equal requests on two controllers one operation', async () => {
    world.publish('once', '1.0.0')
    const answers = await Promise.all(Array.from({ length: 20 }, (_, index) => installWithKey('the-key', { backend: 'once' }, index % 2)))
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([202]))
    expect(new Set(answers.map(({ body }) => body['operation_id'])).size).toBe(1)
    expect(await query(`select from operations where backend = 'once'`)).toHaveLength(1)
    const again = await installWithKey('the-key', { backend: 'once' })
    expect(again.body).toEqual(answers[0]?.body)
    // Other orders of keys and other spaces are the same request.
    const other = await world.api().call('POST', '/api/backends/install', {
      raw: '{ "backend":   "once" }',
      headers: { 'idempotency-key': 'the-key', 'content-type': 'application/json' },
    })
    expect(other).toMatchObject({ status: 202, body: again.body })
    await world.ended(String(again.body['operation_id']))
  })

  it('with another body, or for another request, is 422', async () => {
    world.publish('mismatch', '1.0.0')
    const first = await installWithKey('used', { backend: 'mismatch' })
    expect(first.status).toBe(202)
    await world.ended(String(first.body['operation_id']))
    const before = await count()
    for (const answer of [
      await installWithKey('used', { backend: 'mismatch', nodes: [one.id] }),
      await world.api().post('/api/backends/mismatch/upgrade', {}, { headers: { 'idempotency-key': 'used' } }),
    ]) {
      expect(answer).toMatchObject({ status: 422, body: { error: { code: 'idempotency_mismatch' } } })
    }
    expect(await count()).toBe(before)
    expect(await installWithKey('a key', { backend: 'mismatch' })).toMatchObject({ status: 400 })
  })

  it('without one every accepted POST is its own operation', async () => {
    world.publish('each', '1.0.0')
    const ids = await Promise.all(Array.from({ length: 10 }, (_, index) => world.install('each', {}, index % 2)))
    expect(new Set(ids).size).toBe(10)
    for (const id of ids) expect(await world.ended(id)).toMatchObject({ state: 'succeeded' })
    expect(await query(`select from intents where backend = 'each'`)).toHaveLength(2)
  })

  it('a failed request is not remembered', async () => {
    expect(await installWithKey('later', { backend: 'offered-later' })).toMatchObject({ status: 404 })
    world.publish('offered-later', '1.0.0')
    expect(
      await waitFor(async () => (await installWithKey('later', { backend: 'offered-later' })).status === 202, { what: 'the offer' }),
    ).toBe(true)
  })
})

describe('the same operation again', () => {
  it('S0.16 attaches: running work goes on, and both show that node alike', async () => {
    world.publish('joined', '1.0.0')
    const gate = createGate()
    one.installer.script.set(backendName('joined'), gate.behaviour)
    const first = await world.install('joined', { nodes: [one.id] })
    await world.until(first, 'in work', ({ nodes }) => nodes[0]?.status === 'downloading')
    const second = await world.install('joined', {}, 1)
    const [a, b] = [await world.row(first, 'one'), await world.row(second, 'one', 1)]
    expect(b).toEqual(a)
    expect(b.status).toBe('downloading')
    expect(gate.arrived()).toBe(1)

    // Calling one off only detaches it.
    const left = await world.api().post(`/api/operations/${first}/cancel`, {})
    expect(left).toMatchObject({ status: 202, body: { state: 'cancelled', nodes: [{ status: 'cancelled', message: 'cancelled' }] } })
    expect(left.body['finished_at']).not.toBeNull()
    expect(await world.row(second, 'one')).toMatchObject({ status: 'downloading' })
    gate.open()
    expect(await world.ended(second)).toMatchObject({ state: 'succeeded' })
    expect(await world.operation(first)).toMatchObject({ state: 'cancelled' })
    expect(gate.arrived()).toBe(1)
    expect(one.installer.calls.filter((call) => call.backend === 'joined')).toHaveLength(1)
  })

  it('S0.16 that waits for its next attempt is sent now, from the start, and no longer shows the old failure', async () => {
    world.publish('hurried', '1.0.0')
    await two.stop()
    const first = await world.install('hurried', { nodes: [two.id] })
    await query(`update intents set attempts = 7, last_failure = '{"code":"unavailable","retry":"backoff","message":"old"}',
      next_at = now() + interval '1 hour', was_sent = true, row_version = row_version + 1 where backend = 'hurried'`)
    const second = await world.install('hurried', { nodes: [two.id] })
    const [row] = await query(`select attempts, last_failure, next_at <= now() as is_due from intents where backend = 'hurried'`)
    expect(row).toEqual({ attempts: 0, last_failure: null, is_due: true })
    await two.start()
    for (const id of [first, second]) expect(await world.ended(id)).toMatchObject({ state: 'succeeded', nodes: [{ attempts: 0 }] })
  })

  it('is another intent when a version was requested, or the content has changed', async () => {
    world.publish('moved', '1.0.0')
    await two.stop()
    const first = await world.install('moved', { nodes: [two.id] })
    const digest = world.publish('moved', '2.0.0')
    const second = await world.install('moved', { nodes: [two.id] })
    expect(await world.operation(first)).toMatchObject({
      state: 'cancelled',
      nodes: [{ status: 'cancelled', message: `superseded by operation ${second}` }],
    })
    await two.start()
    await world.ended(second)
    expect(two.installer.installed.get(backendName('moved'))?.digest).toBe(digest)
  })
})

describe('a newer intent', () => {
  it('S0.31 S0.35 W6 supersedes: one row, the newest generation, and the older operation names the newer one', async () => {
    world.publish('fought', '1.0.0')
    const gate = createGate()
    one.installer.script.set(backendName('fought'), gate.behaviour)
    const installing = await world.install('fought', { nodes: [one.id] })
    await world.until(installing, 'in work', ({ nodes }) => nodes[0]?.status === 'downloading')
    const [before] = await query(`select generation from intents where backend = 'fought'`)
    const removing = await world.remove('fought', `?node=${one.id}`, 1)
    expect(await world.operation(installing)).toMatchObject({
      state: 'cancelled',
      message: `superseded by operation ${removing}`,
      nodes: [{ status: 'cancelled', message: `superseded by operation ${removing}`, error: null }],
    })
    // The work is called off on the worker: the gate was never opened.
    await waitFor(() => gate.arrived() === 2, { what: 'the deletion to reach the worker' })
    gate.open()
    expect(await world.ended(removing)).toMatchObject({ state: 'succeeded' })
    expect(one.installer.installed.has(backendName('fought'))).toBe(false)
    const rows = await query(`select kind, generation::int from intents where backend = 'fought'`)
    expect(rows).toEqual([{ kind: 'delete', generation: expect.any(Number) as number }])
    expect(Number(rows[0]?.['generation'])).toBeGreaterThan(Number(before?.['generation']))
  })

  it('A8 S0.31 of three made at once from two controllers the last one wins, and disk equals it', async () => {
    world.publish('storm', '1.0.0')
    const ids: string[] = []
    for (let round = 0; round < 8; round += 1) {
      const made = await Promise.all([
        world.install('storm', { nodes: [one.id] }, 0),
        world.remove('storm', `?node=${one.id}`, 1),
        world.install('storm', { nodes: [one.id] }, 1),
      ])
      ids.push(...made)
    }
    const ends = await Promise.all(ids.map((id) => world.ended(id)))
    const [row] = await query(`select kind, op_id, state from intents where backend = 'storm'`)
    expect(row).toMatchObject({ state: 'applied' })
    expect(one.installer.installed.has(backendName('storm'))).toBe(row?.['kind'] === 'install')
    for (const end of ends) expect(['succeeded', 'cancelled']).toContain(end.state)
    expect(ends.find(({ id }) => id === row?.['op_id'])).toMatchObject({ state: 'succeeded' })
    const wrong = await query(`select id from operations where (finished_at is null) <>
      exists (select from operation_nodes n where n.operation_id = operations.id and n.status = 'open')`)
    expect(wrong).toEqual([])
  })

  it('S0.34 W5 carries all that a retry needs, as of the request: a later edit of the gallery or tag changes nothing', async () => {
    const digest = world.publish('pinned', '1.0.0', { alias: 'pin' })
    one.installer.script.set(backendName('pinned'), failing({ code: 'unavailable', retry: 'backoff', message: 'not now' }))
    const id = await world.install('pinned', { nodes: [one.id] })
    await world.until(id, 'failed', ({ nodes }) => (nodes[0]?.attempts ?? 0) > 0)
    world.publish('pinned', '2.0.0')
    world.offer('[]')
    one.installer.script.delete(backendName('pinned'))
    expect(await world.ended(id)).toMatchObject({ state: 'succeeded' })
    const requests = one.installer.calls.flatMap((call) => (call.backend === 'pinned' && call.request !== undefined ? [call.request] : []))
    expect(requests.length).toBeGreaterThan(1)
    for (const request of requests)
      expect(request).toMatchObject({ digest, alias: 'pin', uri: expect.stringContaining('/library/pinned:latest') as string })
  })

  it('W5 an install from a uri is retried with its uri, name and alias', async () => {
    world.publish('by-uri', '1.0.0')
    let tries = 0
    one.installer.script.set(backendName('mine'), async (context) => {
      tries += 1
      if (tries === 1) await failing({ code: 'unavailable', retry: 'backoff', message: 'not now' })(context)
    })
    const uri = `oci://${world.registry.host}/library/by-uri:latest`
    const answer = await world.api().post('/api/backends/install', { uri, name: 'mine', alias: 'ours', nodes: [one.id] })
    expect(await world.ended(String(answer.body['operation_id']))).toMatchObject({ state: 'succeeded', backend: 'mine' })
    const requests = one.installer.calls.flatMap((call) => (call.backend === 'mine' ? [call.request] : []))
    expect(requests).toEqual([expect.objectContaining({ uri, alias: 'ours' }), expect.objectContaining({ uri, alias: 'ours' })])
  })
})

describe('deletion', () => {
  it('S0.18 S0.19 reaches every node that has the backend, has an intent for it, or is away; nothing brings it back', async () => {
    world.publish('zombie', '1.0.0')
    const three = await world.addWorker('three')
    await world.ended(await world.install('zombie', { nodes: [one.id, two.id] }))
    await untilListed('zombie', one)
    await two.stop()
    await three.stop()
    const open = await world.install('zombie', { nodes: [three.id] })
    const id = await world.remove('zombie')
    const seen = await world.until(id, 'done on one', ({ nodes }) => nodes[0]?.status === 'success')
    expect(seen.nodes.map(({ node_name, status }) => [node_name, status])).toEqual([
      ['one', 'success'],
      ['three', 'queued'],
      ['two', 'queued'],
    ])
    expect(await world.operation(open)).toMatchObject({ state: 'cancelled', message: `superseded by operation ${id}` })
    await Promise.all([two.start(), three.start()])
    expect(await world.ended(id)).toMatchObject({ state: 'succeeded' })
    for (const { installer } of [one, two, three]) expect(installer.installed.has(backendName('zombie'))).toBe(false)
  })

  it('S0.19 of a backend that no node has is accepted for absent nodes', async () => {
    await two.stop()
    const id = await world.remove('heard-of-by-nobody')
    expect((await world.operation(id)).nodes.map(({ node_name, status }) => [node_name, status])).toEqual([['two', 'queued']])
    await two.start()
    expect(await world.ended(id)).toMatchObject({ state: 'succeeded' })
    expect(await world.api().delete('/api/backends/heard-of-by-nobody')).toMatchObject({
      status: 404,
      body: { error: { code: 'not_installed' } },
    })
  })

  it('S0.19 right after an install is also for a node that has not yet listed it', async () => {
    const wire = await world.addWireWorker('unlisted')
    const reply = () => ({ success: true })
    const served = [wire.bus.serve(backendInstall, { node: wire.id }, reply), wire.bus.serve(backendDelete, { node: wire.id }, reply)]
    world.publish('unlisted-one', '1.0.0')
    await world.ended(await world.install('unlisted-one', { nodes: [wire.id] }))
    const id = await world.remove('unlisted-one')
    expect(await world.ended(id)).toMatchObject({ state: 'succeeded', nodes: [{ node_name: 'unlisted', status: 'success' }] })
    expect(await world.api().delete('/api/backends/unlisted-one')).toMatchObject({ status: 404 })
    for (const each of served) await each.stop()
    await world.api().delete(`/api/nodes/${wire.id}`)
  })

  it('S0.19 right after an install is distinguished from one of an unknown backend', async () => {
    world.publish('brief', '1.0.0')
    for (let round = 0; round < 5; round += 1) {
      await world.ended(await world.install('brief', { nodes: [one.id] }), { index: 1 })
      const removal = await world.api(1).delete('/api/backends/brief')
      expect([round, removal.status]).toEqual([round, 202])
      await world.ended(String(removal.body['operation_id']))
    }
  })
})

it('history lists active and finished operations, newest first', async () => {
  world.publish('listed', '1.0.0')
  const done = await world.install('listed', { nodes: [one.id] })
  await world.ended(done)
  await two.stop()
  const open = await world.install('listed', { nodes: [two.id] })
  expect(await listed('')).toEqual([open])
  expect(await listed('?state=active')).toEqual([open])
  expect((await listed('?state=finished'))[0]).toBe(done)
  expect((await listed('?state=all')).slice(0, 2)).toEqual([open, done])
  expect(await listed('?state=finished')).not.toContain(open)
  await two.start()
  await world.ended(open)
  expect(await listed('')).toEqual([])
})

const untilListed = (backend: string, { id }: ScriptedWorker) =>
  waitFor(async () => (await world.api().get(`/api/nodes/${id}/backends`)).text.includes(`"${backend}"`), {
    what: `${backend} in the inventory`,
  })
