// The queue behind operations: who gets a row, when it is tried, what a failure does to it, and when it is given up.
import { createLog, newId } from '@muster/host'
import { backendInstall, backendList, type OperationEvent } from '@muster/protocol'
import { boundMs, administer, createNodeCaller, joinToken, waitFor } from '@muster/testkit'
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
    nats: true,
    log,
    flags: { 'auto-approve': false, 'op-retry-base': '50ms', 'op-retry-max': '200ms' },
  })
  one = await world.addWorker('one')
  two = await world.addWorker('two')
})
afterAll(() => world[Symbol.asyncDispose]())

const query = async (text: string, values: unknown[] = []): Promise<Record<string, unknown>[]> =>
  await administer(world.database.url, async (client) => (await client.query<Record<string, unknown>>(text, values)).rows)
const rowsOf = (backend: string) => query('select * from intents where backend = $1 order by node_id', [backend])
const unavailable = { code: 'unavailable', retry: 'backoff', message: 'the registry is down' } as const

describe('nodes that get an intent', () => {
  it('S0.1 S0.3 S0.36 agents and pending nodes are left out without a word; naming one is refused', async () => {
    const agent = await world.addWireWorker('agent', { node_type: 'agent' })
    const pending = await createNodeCaller(world.api().url).register({ name: 'stranger', token: joinToken })
    expect(pending.body).toMatchObject({ status: 'pending' })
    world.publish('who', '1.0.0')
    const done = await world.ended(await world.install('who'))
    expect(done).toMatchObject({ state: 'succeeded' })
    expect(done.nodes.map((node) => node.node_name)).toEqual(['one', 'two'])
    expect((await rowsOf('who')).map((row) => row['node_id'])).toEqual([one.id, two.id].toSorted())

    for (const id of [agent.id, String(pending.body['id'])]) {
      for (const answer of [
        await world.api().post('/api/backends/install', { backend: 'who', nodes: [id] }),
        await world.api().post('/api/backends/who/upgrade', { nodes: [one.id, id] }),
        await world.api().delete(`/api/backends/who?node=${id}`),
      ]) {
        expect(answer).toMatchObject({ status: 409, body: { error: { code: 'not_eligible' } } })
      }
    }
    expect(await query('select from operations where backend = $1', ['who'])).toHaveLength(1)
    await world.api().delete(`/api/nodes/${agent.id}`)
    await world.api().delete(`/api/nodes/${String(pending.body['id'])}`)
  })

  it('S0.2 a node that registered with an empty type is a backend node', async () => {
    const untyped = await world.addWireWorker('untyped', { node_type: '' })
    using held = new DisposableStack()
    held.use(disposing(untyped.bus.serve(backendInstall, { node: untyped.id }, () => ({ success: true }))))
    world.publish('untyped-one', '1.0.0')
    expect(await world.ended(await world.install('untyped-one', { nodes: [untyped.id] }))).toMatchObject({ state: 'succeeded' })
    await world.api().delete(`/api/nodes/${untyped.id}`)
  })

  it('S0.4 S0.6 absent nodes have a durable intent, are not tried, and show the reason', async () => {
    const silent = await world.addWireWorker('silent')
    silent.beSilent(true)
    await two.stop()
    await world.api().post(`/api/nodes/${one.id}/drain`)
    // Silent, and not only found to answer no commands.
    const reason = async (): Promise<string> => String((await world.api().get(`/api/nodes/${silent.id}`)).body['status_reason'])
    await waitFor(async () => (await reason()).includes('no heartbeat'), { what: 'the node to be missed' })
    await world.untilStatus(two.id, 'offline')
    world.publish('away', '1.0.0')
    const before = one.installer.calls.length
    const id = await world.install('away')
    const seen = await world.operation(id)
    expect(seen).toMatchObject({ state: 'background', finished_at: null })
    expect(
      seen.nodes.map(({ node_name, status, attempts, message, next_retry_at }) => [node_name, status, attempts, message, next_retry_at]),
    ).toEqual([
      ['one', 'queued', 0, 'node draining, will retry when healthy', null],
      ['silent', 'queued', 0, expect.stringMatching(/^node (unhealthy|offline), will retry when healthy$/), null],
      ['two', 'queued', 0, 'node offline, will retry when healthy', null],
    ])
    expect(await rowsOf('away')).toHaveLength(3)
    await world.api().delete(`/api/nodes/${silent.id}`)
    expect(await world.row(id, 'silent')).toMatchObject({ status: 'cancelled', message: 'node removed' })

    // S0.37: each is tried the moment it is back.
    await world.api().post(`/api/nodes/${one.id}/resume`)
    await world.until(id, 'done on one', ({ nodes }) => nodes[0]?.status === 'success', { timeoutMs: boundMs(3_000) })
    expect(one.installer.calls.length).toBe(before + 1)
    await two.start()
    expect(await world.ended(id)).toMatchObject({ state: 'succeeded', message: expect.stringContaining('2 of 3') as string })
    expect((await rowsOf('away')).map((row) => [row['state'], row['attempts'], row['epoch']])).toEqual([
      ['applied', 0, '1'],
      ['applied', 0, '1'],
    ])
  })
})

describe('a try', () => {
  it('S0.7 S0.17 S0.20 on a healthy node is made at once; its end closes the row and keeps the history', async () => {
    world.publish('plain', '1.0.0')
    const began = performance.now()
    const installed = await world.ended(await world.install('plain'))
    expect(performance.now() - began).toBeLessThan(boundMs(5_000))
    expect(
      installed.nodes.map(({ node_id, node_name, status, error, attempts }) => ({ node_id, node_name, status, error, attempts })),
    ).toEqual([
      { node_id: one.id, node_name: 'one', status: 'success', error: null, attempts: 0 },
      { node_id: two.id, node_name: 'two', status: 'success', error: null, attempts: 0 },
    ])
    expect(installed.finished_at).not.toBeNull()
    const removed = await world.ended(await world.remove('plain'))
    expect(removed).toMatchObject({ kind: 'backend.delete', state: 'succeeded' })
    expect(removed.nodes.map(({ node_name, status, error }) => ({ node_name, status, error }))).toEqual([
      { node_name: 'one', status: 'success', error: null },
      { node_name: 'two', status: 'success', error: null },
    ])
    expect(await world.operation(installed.id)).toEqual(installed)
    const history = await query('select type from intent_events where backend = $1 and node_id = $2 order by id', ['plain', one.id])
    expect(history.map((event) => event['type'])).toEqual(
      expect.arrayContaining(['requested', 'claimed', 'succeeded', 'requested', 'claimed', 'succeeded']) as unknown[],
    )
    const { body } = await world.api().get(`/api/operations/${removed.id}/history`)
    const shown = (body['events'] as unknown as OperationEvent[]).filter((event) => event.node_id === one.id)
    expect(shown[0]).toMatchObject({ type: 'requested', detail: { kind: 'backend.delete', operation: removed.id } })
    expect(shown.at(-1)).toMatchObject({ type: 'succeeded', generation: shown[0]?.generation })
    expect((await world.api().get('/api/operations/op-unknown/history')).status).toBe(404)
  })

  it('S0.8 S0.33 that fails keeps its row, is shown as an error with its next try, and may still succeed', async () => {
    world.publish('shaky', '1.0.0')
    const gate = createGate()
    let tries = 0
    one.installer.script.set(backendName('shaky'), async (context) => {
      tries += 1
      if (tries === 2) await gate.behaviour(context)
      if (tries <= 2) await failing(unavailable)(context)
    })
    const id = await world.install('shaky', { nodes: [one.id] })
    const failed = await world.until(id, 'failed once', ({ nodes }) => nodes[0]?.attempts === 1)
    const seen = failed.nodes[0]
    if (seen?.status === 'error') {
      expect(seen).toMatchObject({
        error: 'the registry is down',
        error_code: 'unavailable',
        dead: false,
        next_retry_at: expect.any(String) as string,
      })
      expect(failed).toMatchObject({ state: 'background', finished_at: null })
    }
    await waitFor(() => gate.arrived() === 1, { what: 'the second try' })
    gate.open()
    const done = await world.ended(id)
    expect(done).toMatchObject({ state: 'succeeded', nodes: [{ status: 'success', attempts: 2, error: null, error_code: null }] })
    const failures = await query(`select detail from intent_events where backend = 'shaky' and type = 'failed'`)
    expect(failures.map((event) => event['detail'])).toEqual([{ failure: unavailable }, { failure: unavailable }])
  })

  it('S0.33 that can never succeed is final at once, and is not dead', async () => {
    world.publish('never', '1.0.0')
    one.installer.script.set(backendName('never'), failing({ code: 'incompatible', retry: 'never', message: 'wrong machine' }))
    const done = await world.ended(await world.install('never', { nodes: [one.id] }))
    expect(done).toMatchObject({
      state: 'failed',
      message: 'one: wrong machine',
      nodes: [{ status: 'error', error: 'wrong machine', error_code: 'incompatible', dead: false, next_retry_at: null, attempts: 1 }],
    })
  })

  it('S0.12 that fails ten times is given up: it stays visible, is sent no more, and an ERROR line names it', async () => {
    world.publish('poison', '1.0.0')
    let tries = 0
    one.installer.script.set(backendName('poison'), async (context) => {
      tries += 1
      await failing(unavailable)(context)
    })
    const id = await world.install('poison', { nodes: [one.id] })
    const done = await world.ended(id)
    expect(done).toMatchObject({
      state: 'failed',
      nodes: [{ status: 'error', attempts: 10, dead: true, next_retry_at: null, error: 'the registry is down', error_code: 'unavailable' }],
    })
    expect(tries).toBe(10)
    expect(await query(`select state, next_at from intents where backend = 'poison'`)).toEqual([{ state: 'dead', next_at: null }])
    const said = lines
      .map((line) => JSON.parse(line) as Record<string, unknown>)
      .filter((line) => line['op'] === id && line['level'] === 50)
    expect(said).toEqual([expect.objectContaining({ backend: 'poison', node: one.id, attempts: 10, error: 'the registry is down' })])
    const listed = await world.api().get('/api/operations?state=finished')
    expect((listed.body['operations'] as unknown as { id: string }[]).map((each) => each.id)).toContain(id)

    // Due times of other rows pass, and it is left alone: only an administrator opens it again.
    expect(await world.ended(await world.install('plain', { nodes: [one.id] }))).toMatchObject({ state: 'succeeded' })
    expect(tries).toBe(10)
    const gate = createGate()
    one.installer.script.set(backendName('poison'), gate.behaviour)
    const retried = await world.api().post(`/api/operations/${id}/retry`, {})
    expect(retried).toMatchObject({ status: 202, body: { id, finished_at: null, nodes: [{ attempts: 0, dead: false, error: null }] } })
    gate.open()
    expect(await world.ended(id)).toMatchObject({ state: 'succeeded', nodes: [{ status: 'success', attempts: 0, dead: false }] })
  })

  it('S0.16 is made now, and counted from the start, when the operation is submitted again', async () => {
    world.publish('again', '1.0.0')
    one.installer.script.set(backendName('again'), failing(unavailable))
    const first = await world.install('again', { nodes: [one.id] })
    await world.until(first, 'failed thrice', ({ nodes }) => (nodes[0]?.attempts ?? 0) >= 3)
    const postpone = `update intents set next_at = now() + interval '1 hour', row_version = row_version + 1
      where backend = 'again' and state = 'waiting' returning 1`
    await waitFor(async () => (await query(postpone)).length > 0, { what: 'it to wait, so that its next try can be made a late one' })
    one.installer.script.delete(backendName('again'))
    const second = await world.install('again', { nodes: [one.id] })
    for (const id of [first, second]) expect(await world.ended(id)).toMatchObject({ state: 'succeeded', nodes: [{ attempts: 0 }] })
    expect(await rowsOf('again')).toHaveLength(1)
  })

  it('S0.25 S0.26 a refusal of an old worker shows the cause, and the intent stays', async () => {
    const legacy = await world.addLegacyWorker('legacy', {
      hasUpgrade: true,
      work: async ({ kind, request }) => {
        if (request.backend === 'legacy-bad') throw new Error(`no ${kind} today`)
      },
    })
    world.publish('legacy-bad', '1.0.0')
    legacy.backends.set('legacy-good', 1)
    const id = await world.install('legacy-bad', { nodes: [legacy.id] })
    const failed = await world.until(id, 'failed', ({ nodes }) => (nodes[0]?.attempts ?? 0) > 0 && nodes[0]?.status === 'error')
    expect(failed.nodes[0]).toMatchObject({ error: 'install failed: no install today', error_code: 'internal' })
    expect((await world.ended(id)).nodes[0]).toMatchObject({ attempts: 10, dead: true })
    const removal = await world.remove('legacy-bad', `?node=${legacy.id}`)
    expect((await world.until(removal, 'failed', ({ nodes }) => nodes[0]?.status === 'error')).nodes[0]?.error).toBe(
      'delete failed: no delete today',
    )
    await world.api().delete(`/api/nodes/${legacy.id}`)
    await legacy.stop()
  })

  it('S0.25 deleting an absent backend succeeds', async () => {
    const done = await world.ended(await world.remove('nobody-has-it', `?node=${one.id}`))
    expect(done).toMatchObject({ state: 'succeeded', nodes: [{ status: 'success', error: null }] })
  })

  it('S0.26 an upgrade is queued, tried, counted and given up like an install', async () => {
    world.publish('upgraded', '1.0.0')
    await world.ended(await world.install('upgraded'))
    const digest = world.publish('upgraded', '2.0.0')
    let tries = 0
    one.installer.script.set(backendName('upgraded'), async (context) => {
      tries += 1
      if (tries === 1) await failing(unavailable)(context)
    })
    await waitFor(async () => (await world.api().get(`/api/nodes/${two.id}/backends`)).text.includes('upgraded'), { what: 'the inventory' })
    await two.stop()
    const id = await world.upgrade('upgraded')
    const waiting = await world.until(id, 'done on one', ({ nodes }) => nodes[0]?.status === 'success')
    expect(waiting).toMatchObject({ kind: 'backend.upgrade', state: 'background' })
    expect(waiting.nodes.map(({ attempts, status, message }) => [attempts, status, message])).toEqual([
      [1, 'success', ''],
      [0, 'queued', 'node offline, will retry when healthy'],
    ])
    await two.start()
    expect(await world.ended(id)).toMatchObject({ state: 'succeeded' })
    expect([one, two].map(({ installer }) => installer.installed.get(backendName('upgraded'))?.digest)).toEqual([digest, digest])
  })
})

describe('no responders', () => {
  it(
    'S0.9 S0.10 S0.11 S0.32 a node that reports and serves nothing gets ten tries, and its status changes once',
    { timeout: 90_000 },
    async () => {
      const backend = `unheard-${newId()}`
      const deaf = await world.addWireWorker('deaf')
      const changes: string[] = []
      const watched = setInterval(
        () =>
          void world
            .api()
            .get(`/api/nodes/${deaf.id}`)
            .then(({ body }) => {
              const status = String(body['status'])
              if (changes.at(-1) !== status) changes.push(status)
            }),
        25,
      )
      world.publish(backend, '1.0.0')
      const id = await world.install(backend, { nodes: [deaf.id] })
      const first = await world.until(id, 'tried', ({ nodes }) => (nodes[0]?.attempts ?? 0) >= 1 && nodes[0]?.status === 'error')
      expect(first.nodes[0]).toMatchObject({ error_code: 'unavailable', dead: false })
      const node = await world.api().get(`/api/nodes/${deaf.id}`)
      expect(node.body).toMatchObject({ status: 'unhealthy', status_reason: expect.stringContaining('not answering commands') as string })
      const done = await world.ended(id, { timeoutMs: 60_000 })
      expect(done.nodes[0]).toMatchObject({ status: 'error', error_code: 'unavailable', attempts: 10, dead: true })
      clearInterval(watched)
      expect(changes.filter((status) => status !== 'healthy')).toEqual(['unhealthy'])
      expect(await query(`select from intent_events where backend = '${backend}' and type = 'claimed'`)).toHaveLength(10)

      // S0.9: heartbeats go on and heal nothing; an answered command does.
      using held = new DisposableStack()
      held.use(disposing(deaf.bus.serve(backendInstall, { node: deaf.id }, () => ({ success: true }))))
      // A query of its inventory without responders would make it unhealthy again.
      held.use(disposing(deaf.bus.serve(backendList, { node: deaf.id }, () => ({ backends: [] }))))
      expect((await world.api().get(`/api/nodes/${deaf.id}`)).body['status']).toBe('unhealthy')
      await world.api().post(`/api/operations/${id}/retry`, { node_id: deaf.id })
      expect(await world.ended(id)).toMatchObject({ state: 'succeeded' })
      await world.untilStatus(deaf.id, 'healthy')
      await world.api().delete(`/api/nodes/${deaf.id}`)
    },
  )

  it('S0.9 S0.11 a timeout changes nothing about the node, and a node that then falls silent waits, attempts unchanged', async () => {
    const slow = await world.addWireWorker('slow')
    using held = new DisposableStack()
    held.use(disposing(slow.bus.serve(backendInstall, { node: slow.id }, () => new Promise<never>(() => undefined))))
    held.use(disposing(slow.bus.serve(backendList, { node: slow.id }, () => ({ backends: [] }))))
    world.publish('timed-out', '1.0.0')
    const id = await world.install('timed-out', { nodes: [slow.id] })
    await waitFor(async () => (await query(`select from intent_events where backend = 'timed-out' and type = 'unheard'`)).length > 0, {
      what: 'a timeout',
    })
    expect((await world.api().get(`/api/nodes/${slow.id}`)).body['status']).toBe('healthy')
    expect(await world.row(id, 'slow')).toMatchObject({ status: 'queued', attempts: 0, error: null })
    slow.beSilent(true)
    await world.untilStatus(slow.id, 'offline')
    expect(await world.row(id, 'slow')).toMatchObject({ status: 'queued', attempts: 0, message: 'node offline, will retry when healthy' })
    await world.api().delete(`/api/nodes/${slow.id}`)
  })
})

function disposing(subscription: { stop(): Promise<void> }): Disposable {
  return { [Symbol.dispose]: () => void subscription.stop() }
}
