// Requests that are refused before anything is queued, that cannot be stored, or that are dry runs.
import { administer, waitFor } from '@muster/testkit'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
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
const installWithKey = (key: string, body: object, index = 0) =>
  world.api(index).post('/api/backends/install', body, { headers: { 'idempotency-key': key } })

describe('refused before anything is queued', () => {
  it.each<[string, string, string, object | undefined, number, string]>([
    ['an unknown backend', 'POST', '/api/backends/install', { backend: 'no-such-backend' }, 404, 'not_found'],
    ['an empty name', 'POST', '/api/backends/install', { backend: '' }, 400, 'invalid'],
    ['no name', 'POST', '/api/backends/install', {}, 400, 'invalid'],
    ['a name that is a path', 'POST', '/api/backends/install', { backend: '../etc' }, 400, 'invalid'],
    ['a name and a uri', 'POST', '/api/backends/install', { backend: 'here', uri: 'oci://x/y' }, 400, 'invalid'],
    ['a uri without a name', 'POST', '/api/backends/install', { uri: 'oci://x/y:1' }, 400, 'invalid'],
    ['a uri that is no source', 'POST', '/api/backends/install', { uri: 'gopher://x/y', name: 'here' }, 400, 'invalid'],
    ['a node that does not exist', 'POST', '/api/backends/install', { backend: 'here', nodes: ['no-such-node'] }, 404, 'not_found'],
    ['an empty list of nodes', 'POST', '/api/backends/install', { backend: 'here', nodes: [] }, 400, 'invalid'],
    ['a selector that is no selector', 'POST', '/api/backends/install', { backend: 'here', selector: { 'bad key!': 'x' } }, 400, 'invalid'],
    ['a selector with a number', 'POST', '/api/backends/install', { backend: 'here', selector: { zone: 7 } }, 400, 'invalid'],
    ['nodes and a selector', 'POST', '/api/backends/install', { backend: 'here', nodes: ['a'], selector: { a: 'b' } }, 400, 'invalid'],
    [
      'S0.36 a selector that matches nobody',
      'POST',
      '/api/backends/install',
      { backend: 'here', selector: { zone: 'x' } },
      409,
      'no_eligible_nodes',
    ],
    ['a version that is not there', 'POST', '/api/backends/install', { backend: 'here', version: '9.9.9' }, 404, 'not_found'],
    ['an upgrade of what no node has', 'POST', '/api/backends/here/upgrade', {}, 404, 'not_installed'],
    ['an upgrade with an unknown strategy', 'POST', '/api/backends/here/upgrade', { strategy: 'hope' }, 400, 'invalid'],
    ['an upgrade on an unknown node', 'POST', '/api/backends/here/upgrade', { nodes: ['no-such-node'] }, 404, 'not_found'],
    ['a deletion of what no node has', 'DELETE', '/api/backends/here', undefined, 404, 'not_installed'],
    ['a deletion on an unknown node', 'DELETE', '/api/backends/here?node=no-such-node', undefined, 404, 'not_found'],
    ['a deletion that asks for one thing twice', 'DELETE', '/api/backends/here?force=true&force=false', undefined, 400, 'invalid'],
    ['an unknown gallery', 'DELETE', '/api/galleries/no-such-gallery', undefined, 404, 'not_found'],
    ['an unknown operation', 'GET', '/api/operations/op-none', undefined, 404, 'not_found'],
    ['cancelling an unknown operation', 'POST', '/api/operations/op-none/cancel', undefined, 404, 'not_found'],
    ['retrying an unknown operation', 'POST', '/api/operations/op-none/retry', {}, 404, 'not_found'],
    ['an unknown filter', 'GET', '/api/operations?state=mine', undefined, 400, 'invalid'],
  ])('%s', async (...[, method, path, body, status, code]) => {
    world.publish('here', '1.0.0')
    const before = await count()
    const answer = await world.api().call(method, path, body === undefined ? {} : { body })
    expect([answer.status, answer.body]).toMatchObject([status, { error: { code, message: expect.stringMatching(/.{10}/) as string } }])
    expect(await count()).toBe(before)
  })

  it('a source that does not answer is 503 source_unavailable, and nothing is queued', async () => {
    const before = await count()
    const answer = await world.api().post('/api/backends/install', { uri: 'oci://127.0.0.1:1/library/x:1', name: 'gone' })
    expect(answer).toMatchObject({ status: 503, body: { error: { code: 'source_unavailable' } } })
    expect(answer.headers.get('retry-after')).toMatch(/^\d+$/)
    expect(await count()).toBe(before)
  })

  it('S0.14 the database itself refuses a row for no node, and one for no backend', async () => {
    const insert = (node: string, backend: string) =>
      query(
        `insert into intents (node_id, backend, kind, generation, op_id, plan, state, next_at)
         values ($1, $2, 'install', nextval('intent_generation'), 'op-x', '{}', 'waiting', now())`,
        [node, backend],
      )
    await expect(insert('no-such-node', 'llama')).rejects.toMatchObject({ code: '23503' })
    await expect(insert(one.id, '')).rejects.toMatchObject({ code: '23514' })
  })

  it('S0.5 an operation that cannot be stored is 503 enqueue_failed, nothing of it stays, and it may be repeated', async () => {
    world.publish('unwritable', '1.0.0')
    await query(`create function no_wishes() returns trigger language plpgsql as $$ begin raise exception 'out of order'; end $$`)
    await query(
      `create trigger no_wishes before insert on intents for each row when (new.backend = 'unwritable') execute function no_wishes()`,
    )
    const before = await count()
    const refused = await installWithKey('write-me', { backend: 'unwritable' })
    expect(refused).toMatchObject({
      status: 503,
      body: { error: { code: 'enqueue_failed', message: expect.stringMatching(/^enqueue failed: /) as string } },
    })
    expect(refused.headers.get('retry-after')).toMatch(/^\d+$/)
    expect(await count()).toBe(before)
    await query('drop trigger no_wishes on intents')
    const accepted = await installWithKey('write-me', { backend: 'unwritable' })
    expect(accepted.status).toBe(202)
    expect(await installWithKey('write-me', { backend: 'unwritable' }, 1)).toMatchObject({ status: 202, body: accepted.body })
    expect(await world.ended(String(accepted.body['operation_id']))).toMatchObject({ state: 'succeeded' })
  })

  it('S0.5 a read-only database is reported', async () => {
    world.publish('read-only', '1.0.0')
    const held = await holdTable('intents')
    const before = await count()
    const answer = await world.api().post('/api/backends/install', { backend: 'read-only' })
    await held.release()
    expect(answer).toMatchObject({ status: 503, body: { error: { code: 'enqueue_failed' } } })
    expect(await count()).toBe(before)
  })

  it('a dry run answers with the operation as it would be, and leaves nothing', async () => {
    world.publish('rehearsed', '1.0.0')
    await world.ended(await world.install('rehearsed', { nodes: [one.id] }))
    await untilListed('rehearsed', one)
    const before = await count()
    const calls = one.installer.calls.length
    const install = await installWithKey('rehearse', { backend: 'rehearsed', dry_run: true })
    expect(install).toMatchObject({
      status: 200,
      body: {
        kind: 'backend.install',
        backend: 'rehearsed',
        state: 'running',
        finished_at: null,
        nodes: [{ node_name: 'one', status: 'queued' }, { node_name: 'two' }],
      },
    })
    const upgrade = await world.api().post('/api/backends/rehearsed/upgrade', { dry_run: true })
    expect(upgrade).toMatchObject({ status: 200, body: { kind: 'backend.upgrade', nodes: [{ node_name: 'one' }] } })
    const named = await world.api().delete(`/api/backends/rehearsed?dry_run=true&node=${two.id}&node=${one.id}`)
    expect(named).toMatchObject({ status: 200, body: { nodes: [{ node_name: 'one' }, { node_name: 'two' }] } })
    const removal = await world.api().delete('/api/backends/rehearsed?dry_run=true')
    expect(removal).toMatchObject({ status: 200, body: { kind: 'backend.delete', nodes: [{ node_name: 'one' }] } })
    const ofGallery = await world.api().post('/api/backends/install', { backend: 'mine@rehearsed', dry_run: true })
    expect(ofGallery).toMatchObject({ status: 200, body: { backend: 'rehearsed', nodes: [{ node_name: 'one' }, { node_name: 'two' }] } })
    for (const backend of ['no-such', 'builtin@rehearsed', 'no-such@rehearsed'])
      expect(await world.api().post('/api/backends/install', { backend, dry_run: true })).toMatchObject({ status: 404 })
    expect(await count()).toBe(before)
    expect(one.installer.calls.length).toBe(calls)
    expect(await world.api().get(`/api/operations/${String(install.body['id'])}`)).toMatchObject({ status: 404 })
  })
})

const untilListed = (backend: string, { id }: ScriptedWorker) =>
  waitFor(async () => (await world.api().get(`/api/nodes/${id}/backends`)).text.includes(`"${backend}"`), {
    what: `${backend} in the inventory`,
  })

async function holdTable(name: string): Promise<{ release(): Promise<void> }> {
  const held = Promise.withResolvers<void>()
  const done = Promise.withResolvers<void>()
  const running = administer(world.database.url, async (client) => {
    await client.query('begin')
    await client.query(`lock table ${name} in exclusive mode`)
    held.resolve()
    await done.promise
    await client.query('rollback')
  })
  await held.promise
  return {
    release: async () => {
      done.resolve()
      await running
    },
  }
}
