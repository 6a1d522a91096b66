// An administrator's word about an operation that exists: cancel it, retry it, remove the node it waits for.
import { createLog } from '@muster/host'
import { backendInstall, opCancel } from '@muster/protocol'
import { administer, waitFor } from '@muster/testkit'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { backendName, createGate, failing } from '../../packages/worker/test/scripted-installer.ts'
import { startOperationsWorld, type OperationsWorld, type ScriptedWorker } from './operations-world.ts'

let world: OperationsWorld
let one: ScriptedWorker
let two: ScriptedWorker
const lines: string[] = []

beforeAll(async () => {
  const log = createLog({ level: 'warn', format: 'json', stream: { write: (line) => lines.push(line) } })
  world = await startOperationsWorld({
    postgresUrl: inject('postgresUrl'),
    controllers: 2,
    log,
    flags: { 'op-retry-base': '20ms', 'op-retry-max': '40ms', 'op-max-attempts': '2' },
  })
  one = await world.addWorker('one')
  two = await world.addWorker('two')
})
afterAll(() => world[Symbol.asyncDispose]())

const query = async (text: string, values: unknown[] = []): Promise<Record<string, unknown>[]> =>
  await administer(world.database.url, async (client) => (await client.query<Record<string, unknown>>(text, values)).rows)
const cancel = (id: string, index = 0) => world.api(index).post(`/api/operations/${id}/cancel`)
const retry = (id: string, body: object = {}, index = 0) => world.api(index).post(`/api/operations/${id}/retry`, body)
const unavailable = { code: 'unavailable', retry: 'backoff', message: 'the registry is down' } as const
const inWork = (id: string) => world.until(id, 'in work', ({ nodes }) => nodes.some(({ status }) => status === 'downloading'))

describe('cancel', () => {
  it('of an intent that was not sent yet is final at once, and the node never receives it', async () => {
    world.publish('unsent', '1.0.0')
    await two.stop()
    const id = await world.install('unsent', { nodes: [two.id] })
    const answer = await cancel(id, 1)
    expect(answer).toMatchObject({
      status: 202,
      body: { id, state: 'cancelled', message: 'cancelled', nodes: [{ status: 'cancelled', message: 'cancelled', attempts: 0 }] },
    })
    expect(answer.body['finished_at']).not.toBeNull()
    expect(await cancel(id)).toMatchObject({ status: 409, body: { error: { code: 'already_finished' } } })
    await two.start()
    world.publish('after-unsent', '1.0.0')
    await world.ended(await world.install('after-unsent', { nodes: [two.id] }))
    expect(two.installer.calls.filter(({ backend }) => backend === 'unsent')).toEqual([])
  })

  it('W10 of running work reaches the worker, and ends when the worker confirms', async () => {
    world.publish('running', '1.0.0')
    const gate = createGate()
    one.installer.script.set(backendName('running'), gate.behaviour)
    const id = await world.install('running', { nodes: [one.id] })
    await inWork(id)
    const answer = await cancel(id)
    expect(answer.status).toBe(202)
    expect(await world.ended(id)).toMatchObject({
      state: 'cancelled',
      nodes: [{ status: 'cancelled', message: 'cancelled', attempts: 0, error: null, dead: false }],
    })
    expect(one.installer.installed.has(backendName('running'))).toBe(false)
    expect(gate.arrived()).toBe(1)
  })

  it('is shown as cancelling until the worker has answered, and may be repeated', async () => {
    const wire = await world.addWireWorker('wire')
    const served = [wire.bus.serve(backendInstall, { node: wire.id }, () => ({ accepted: true as const }))]
    const told = Promise.withResolvers<void>()
    served.push(
      wire.bus.serve(opCancel, { node: wire.id }, async ({ op_id }) => {
        await told.promise
        return { op_id, state: 'cancelled' as const }
      }),
    )
    world.publish('cancelling', '1.0.0')
    const id = await world.install('cancelling', { nodes: [wire.id] })
    await inWork(id)
    for (const index of [0, 1]) {
      expect(await cancel(id, index)).toMatchObject({
        status: 202,
        body: { state: 'running', finished_at: null, nodes: [{ status: 'downloading', message: 'cancelling' }] },
      })
    }
    told.resolve()
    expect(await world.ended(id)).toMatchObject({ state: 'cancelled' })
    for (const each of served) await each.stop()
    await world.api().delete(`/api/nodes/${wire.id}`)
  })

  it('comes too late for completed work, which keeps its outcome', async () => {
    const wire = await world.addWireWorker('quick')
    const served = [
      wire.bus.serve(backendInstall, { node: wire.id }, () => ({ accepted: true as const })),
      wire.bus.serve(opCancel, { node: wire.id }, ({ op_id }) => ({ op_id, state: 'succeeded' as const })),
    ]
    world.publish('done-first', '1.0.0')
    const id = await world.install('done-first', { nodes: [wire.id] })
    await inWork(id)
    expect((await cancel(id)).status).toBe(202)
    expect(await world.ended(id)).toMatchObject({ state: 'succeeded', nodes: [{ status: 'success' }] })
    expect(await cancel(id)).toMatchObject({ status: 409, body: { error: { code: 'already_finished' } } })
    for (const each of served) await each.stop()
    await world.api().delete(`/api/nodes/${wire.id}`)
  })

  it('B12 that waits for a result which is being written answers 409, and counts nothing twice', async () => {
    world.publish('raced', '1.0.0')
    const gate = createGate()
    one.installer.script.set(backendName('raced'), gate.behaviour)
    const id = await world.install('raced', { nodes: [one.id] })
    const other = await world.install('raced', { nodes: [one.id] })
    await inWork(id)
    const answer = await administer(world.database.url, async (client) => {
      await client.query('begin')
      await client.query(`update intents set state = 'applied', finished_at = now(), accepted_at = null, sign_at = null, wait = null,
        row_version = row_version + 1 where backend = 'raced'`)
      await client.query(`update operation_nodes set status = 'success', finished_at = now() where operation_id = any($1)`, [[id, other]])
      await client.query('select update_finished_at(id) from unnest($1::text[]) id', [[id, other]])
      const asked = cancel(id)
      await untilBlocked()
      await client.query('commit')
      return await asked
    })
    expect([answer.status, answer.body]).toMatchObject([409, { error: { code: 'already_finished' } }])
    expect(await world.operation(id)).toMatchObject({ state: 'succeeded' })
    gate.open()
  })

  it('of work on an absent node is sent when the node returns', async () => {
    world.publish('gone-away', '1.0.0')
    const gate = createGate()
    two.installer.script.set(backendName('gone-away'), gate.behaviour)
    const id = await world.install('gone-away', { nodes: [two.id] })
    await inWork(id)
    await two.stop()
    await world.untilStatus(two.id, 'offline')
    expect(await cancel(id)).toMatchObject({
      status: 202,
      body: { state: 'background', nodes: [{ status: 'queued', message: 'cancelling' }] },
    })
    await two.start()
    expect(await world.ended(id)).toMatchObject({ state: 'cancelled', nodes: [{ status: 'cancelled' }] })
    expect(two.installer.installed.has(backendName('gone-away'))).toBe(false)
  })

  it('of work on an old worker waits for its end, which is recorded unchanged', async () => {
    const gate = Promise.withResolvers<void>()
    let isBad = false
    const legacy = await world.addLegacyWorker('legacy', {
      hasProgress: true,
      work: async ({ tick }) => {
        tick(10)
        await gate.promise
        if (isBad) throw new Error('no')
      },
    })
    world.publish('old-way', '1.0.0')
    const id = await world.install('old-way', { nodes: [legacy.id] })
    await inWork(id)
    expect(await cancel(id)).toMatchObject({ status: 202, body: { nodes: [{ message: 'cancelling' }] } })
    // Long enough for it to be asked, had anybody asked it.
    const asked = performance.now() + 2_500
    await waitFor(() => performance.now() > asked, { what: 'a few rounds of the loop' })
    expect(await world.operation(id)).toMatchObject({ finished_at: null, nodes: [{ message: 'cancelling' }] })
    gate.resolve()
    expect(await world.ended(id)).toMatchObject({ state: 'succeeded', nodes: [{ status: 'success' }] })
    isBad = true
    world.publish('old-bad', '1.0.0')
    const bad = await world.install('old-bad', { nodes: [legacy.id] })
    expect(await world.ended(bad)).toMatchObject({ state: 'failed', nodes: [{ dead: true, attempts: 2 }] })
    await world.api().delete(`/api/nodes/${legacy.id}`)
    await legacy.stop()
  })

  it('stops further attempts of failed work', async () => {
    world.publish('between', '1.0.0')
    one.installer.script.set(backendName('between'), failing(unavailable))
    await query(`create function wait_long() returns trigger language plpgsql as $$ begin
      if new.backend = 'between' and new.state = 'waiting' and new.attempts > 0 then new.next_at := now() + interval '1 hour'; end if;
      return new; end $$`)
    await query('create trigger wait_long before update on intents for each row execute function wait_long()')
    const id = await world.install('between', { nodes: [one.id] })
    await world.until(id, 'failed once', ({ nodes }) => nodes[0]?.status === 'error')
    // Nothing runs on the worker: there is nothing to wait for.
    expect(await cancel(id)).toMatchObject({
      status: 202,
      body: { state: 'cancelled', nodes: [{ status: 'cancelled', attempts: 1, next_retry_at: null, error: null }] },
    })
    expect(one.installer.calls.filter(({ backend }) => backend === 'between')).toHaveLength(1)
    await query('drop trigger wait_long on intents')
  })
})

describe('retry', () => {
  it('B11 with an Idempotency-Key is safe to repeat, and so is a cancel', async () => {
    const gate = createGate()
    world.publish('repeated', '1')
    one.installer.script.set(backendName('repeated'), failing({ code: 'not_found', retry: 'never', message: 'not there' }))
    const id = await world.install('repeated', { nodes: [one.id] })
    expect((await world.ended(id)).state).toBe('failed')
    one.installer.script.set(backendName('repeated'), gate.behaviour)
    const post = (verb: string, key: string, body: object = {}) =>
      world.api().post(`/api/operations/${id}/${verb}`, body, { headers: { 'idempotency-key': key } })
    expect(await post('retry', 'r-1')).toMatchObject({ status: 202 })
    expect(await post('retry', 'r-1')).toMatchObject({ status: 202, body: { id } })
    expect(await post('retry', 'r-1', { node_id: one.id })).toMatchObject({ status: 422 })
    expect(await post('retry', 'r-2')).toMatchObject({ status: 409, body: { error: { code: 'nothing_failed' } } })
    expect(await post('cancel', 'c-1')).toMatchObject({ status: 202 })
    expect((await world.ended(id)).state).toBe('cancelled')
    expect(await post('cancel', 'c-1')).toMatchObject({ status: 202, body: { state: 'cancelled' } })
    expect(await post('cancel', 'c-2')).toMatchObject({ status: 409, body: { error: { code: 'already_finished' } } })
  })

  it('A11 reopens one failed node, or all, with attempts 0 and a new generation', async () => {
    world.publish('retried', '1.0.0')
    for (const worker of [one, two]) worker.installer.script.set(backendName('retried'), failing(unavailable))
    const id = await world.install('retried')
    const failed = await world.ended(id)
    expect(failed).toMatchObject({
      state: 'failed',
      nodes: [
        { dead: true, attempts: 2 },
        { dead: true, attempts: 2 },
      ],
    })
    const generations = async () =>
      (await query(`select generation::int as g from intents where backend = 'retried' order by node_id`)).map((row) => Number(row['g']))
    const before = await generations()

    const gate = createGate()
    one.installer.script.set(backendName('retried'), gate.behaviour)
    const answer = await retry(id, { node_id: one.id }, 1)
    expect(answer.status).toBe(202)
    expect(answer.body).toMatchObject({
      id,
      finished_at: null,
      nodes: [{ node_name: 'one', attempts: 0, dead: false, error: null, error_code: null }, { dead: true }],
    })
    gate.open()
    expect(await world.ended(id)).toMatchObject({
      state: 'failed',
      nodes: [
        { status: 'success', attempts: 0 },
        { status: 'error', dead: true },
      ],
    })
    expect((await generations()).filter((generation) => !before.includes(generation))).toHaveLength(1)

    two.installer.script.delete(backendName('retried'))
    expect((await retry(id)).status).toBe(202)
    expect(await world.ended(id)).toMatchObject({ state: 'succeeded', nodes: [{ status: 'success' }, { status: 'success' }] })
    expect(await retry(id)).toMatchObject({ status: 409, body: { error: { code: 'nothing_failed' } } })
  })

  it('of work that has not failed, or is still retried, is 409', async () => {
    world.publish('fine', '1.0.0')
    await two.stop()
    const id = await world.install('fine')
    await world.until(id, 'done on one', ({ nodes }) => nodes[0]?.status === 'success')
    for (const body of [{}, { node_id: one.id }, { node_id: two.id }, { node_id: 'no-such-node' }]) {
      expect(await retry(id, body)).toMatchObject({ status: 409, body: { error: { code: 'nothing_failed' } } })
    }
    await two.start()
    await world.ended(id)
  })

  it('of an intent that a newer one replaced is 409 superseded, and changes nothing', async () => {
    world.publish('followed', '1.0.0')
    one.installer.script.set(backendName('followed'), failing({ code: 'not_found', retry: 'never', message: 'not there' }))
    const first = await world.install('followed', { nodes: [one.id] })
    const failed = await world.ended(first)
    expect(failed).toMatchObject({ state: 'failed', nodes: [{ dead: false, attempts: 1 }] })
    one.installer.script.delete(backendName('followed'))
    const second = await world.remove('followed', `?node=${one.id}`)
    await world.ended(second)
    expect(await retry(first)).toMatchObject({ status: 409, body: { error: { code: 'superseded' } } })
    expect(await world.operation(first)).toEqual(failed)
  })

  it('reopens the other nodes where only some have a newer intent', async () => {
    world.publish('partly', '1.0.0')
    for (const worker of [one, two]) worker.installer.script.set(backendName('partly'), failing(unavailable))
    const id = await world.install('partly')
    await world.ended(id)
    for (const worker of [one, two]) worker.installer.script.delete(backendName('partly'))
    await world.ended(await world.install('partly', { nodes: [one.id] }))
    expect(await retry(id, { node_id: one.id })).toMatchObject({ status: 409, body: { error: { code: 'superseded' } } })
    expect((await retry(id)).status).toBe(202)
    expect(await world.ended(id)).toMatchObject({ state: 'failed', nodes: [{ status: 'error', dead: true }, { status: 'success' }] })
  })

  it('twenty at once on two controllers open it once', async () => {
    world.publish('stampede', '1.0.0')
    one.installer.script.set(backendName('stampede'), failing(unavailable))
    const id = await world.install('stampede', { nodes: [one.id] })
    await world.ended(id)
    const gate = createGate()
    one.installer.script.set(backendName('stampede'), gate.behaviour)
    const answers = await Promise.all(Array.from({ length: 20 }, (_, index) => retry(id, {}, index % 2)))
    expect(answers.filter(({ status }) => status === 202)).toHaveLength(1)
    expect(answers.filter(({ status }) => status === 409)).toHaveLength(19)
    gate.open()
    expect(await world.ended(id)).toMatchObject({ state: 'succeeded' })
    expect(await query(`select node_id from operation_nodes where operation_id = $1 and status = 'open'`, [id])).toEqual([])
  })
})

describe('a node that is removed', () => {
  it('A15 takes its intents with it, and its operations show that', async () => {
    const three = await world.addWireWorker('three')
    const four = await world.addWireWorker('four')
    four.beSilent(true)
    await world.untilStatus(four.id, 'unhealthy')
    const served = three.bus.serve(backendInstall, { node: three.id }, () => ({ accepted: true as const }))
    world.publish('left', '1.0.0')
    const id = await world.install('left')
    const other = await world.install('left', { nodes: [three.id] })
    await world.until(id, 'in work', ({ nodes }) => nodes.find(({ node_name }) => node_name === 'three')?.status === 'downloading')
    const removals = await Promise.all([three.id, four.id].map((node) => world.api().delete(`/api/nodes/${node}`)))
    expect(removals.map(({ status }) => status)).toEqual([204, 204])
    const seen = await world.ended(id)
    expect(seen.state).toBe('succeeded')
    expect(seen.nodes.map(({ node_name, status, message }) => [node_name, status, message])).toEqual([
      ['four', 'cancelled', 'node removed'],
      ['one', 'success', ''],
      ['three', 'cancelled', 'node removed'],
      ['two', 'success', ''],
    ])
    expect(await world.operation(other)).toMatchObject({ state: 'cancelled', message: 'node removed' })
    expect(await query(`select from intents where node_id = any($1)`, [[three.id, four.id]])).toEqual([])
    const events = await query(`select detail from intent_events where backend = 'left' and type = 'cancelled'`)
    expect(events.map((event) => event['detail'])).toEqual([{ reason: 'node removed' }, { reason: 'node removed' }])
    await served.stop()
  })

  it.each([
    ['joins its intent', (node: string) => world.api(1).post('/api/backends/install', { backend: 'joined', nodes: [node] })],
    ['is retried', (_: string, failed: string) => retry(failed, {}, 1)],
  ])('while an operation %s leaves none that waits for the node', async (_, act) => {
    const gone = await world.addWireWorker('gone-joined')
    const served = gone.bus.serve(backendInstall, { node: gone.id }, () => ({
      success: false,
      error: 'no',
      code: 'integrity',
      retry: 'never',
    }))
    world.publish('joined', '1.0.0')
    const failed = await world.install('joined', { nodes: [gone.id] })
    await world.ended(failed)
    await served.stop()
    gone.bus.serve(backendInstall, { node: gone.id }, () => new Promise<never>(() => undefined))
    if (act.length === 1) await world.install('joined', { nodes: [gone.id] })
    await administer(world.database.url, async (client) => {
      // Stops the operation after it wrote its nodes, and before it commits.
      await client.query('begin')
      await client.query(`select from changes where kind = 'node' and id = $1 for update`, [gone.id])
      const answered = act(gone.id, failed)
      await untilBlocked(1)
      const removed = world.api().delete(`/api/nodes/${gone.id}`)
      await untilBlocked(2)
      await client.query('commit')
      expect((await answered).status).toBe(202)
      expect((await removed).status).toBe(204)
    })
    expect(await world.api().get('/api/operations?state=active')).toMatchObject({ status: 200, body: { operations: [] } })
  })

  it('while operations for it are submitted leaves no intent waiting forever', async () => {
    world.publish('between-two', '1.0.0')
    for (let round = 0; round < 5; round += 1) {
      const gone = await world.addWireWorker(`gone-${round}`)
      const [, ...answers] = await Promise.all([
        world.api().delete(`/api/nodes/${gone.id}`),
        ...Array.from({ length: 6 }, (_, index) =>
          world.api(index % 2).post('/api/backends/install', { backend: 'between-two', nodes: [gone.id] }),
        ),
      ])
      for (const { status } of answers) expect([202, 404, 503]).toContain(status)
    }
    const all = await world.api().get('/api/operations?state=active')
    expect(all).toMatchObject({ status: 200, body: { operations: [] } })
    expect((await world.api().get('/api/operations?state=all')).status).toBe(200)
  })
})

it('nothing of all this failed unexpectedly', () => {
  expect(lines.filter((line) => line.includes('failed unexpectedly') || line.includes('inside the controller'))).toEqual([])
})

/** So many statements wait for a lock of this database. */
const untilBlocked = (statements = 1) =>
  waitFor(
    async () =>
      (await query(`select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`)).length >= statements,
    {
      what: 'a statement that waits for a lock',
    },
  )
