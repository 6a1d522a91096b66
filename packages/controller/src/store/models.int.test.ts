import { ModelConfig, ModelName, NodeId, OperationId, Registration, type Scheduling } from '@muster/protocol'
import { createTestDatabase, waitFor } from '@muster/testkit'
import { silentLog } from '@muster/host'
import { fileURLToPath } from 'node:url'
import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { revisionOf } from '../models/config.ts'
import { viewOperation } from '../operations/view.ts'
import { connectDatabase } from './connect.ts'
import { migrate } from './migrate.ts'
import { createStore, type Store } from './store.ts'
import type { Database } from './tables.ts'

let database: Awaited<ReturnType<typeof createTestDatabase>>
let connection: ReturnType<typeof connectDatabase<Database>>
let store: Store

beforeAll(async () => {
  database = await createTestDatabase()
  connection = connectDatabase<Database>({ to: { url: database.url }, log: silentLog, applicationName: 'test' })
  const directory = fileURLToPath(new URL('./migrations', import.meta.url))
  await migrate({ pool: connection.pool, directory, log: silentLog, afterwards: async () => undefined })
  store = createStore(connection.db)
})
afterAll(async () => {
  await connection.close()
  await database.drop()
})

const configOf = (name: string, more: object = {}): ModelConfig => ModelConfig.parse({ name, backend: 'llama', ...more })
const put = (config: ModelConfig, expected: string | null = null) => store.models.put(config, { revision: revisionOf(config), expected })
const changeOf = async (kind: string, id: string): Promise<number> =>
  (await connection.db.selectFrom('changes').select('seq').where('kind', '=', kind).where('id', '=', id).executeTakeFirst())?.seq ?? 0

let made = 0
async function addNode(name: string): Promise<NodeId> {
  made += 1
  const id = NodeId.parse(name)
  const key = `U${String.fromCodePoint(64 + made).repeat(55)}`
  await store.nodes.insert(id, Registration.parse({ name, public_key: key, incarnation: 'i' }), {
    approvedBy: 'test',
    signedAt: new Date(),
  })
  await sql`update node_pulses set liveness = 'present', answering = 'yes', last_seen_at = now() where node_id = ${id}`.execute(
    connection.db,
  )
  return id
}

it('no change is published for a load without a node that is reconsidered, nor for the pruning of an exited replica', async () => {
  const node = await addNode('told')
  await put(configOf('told'))
  const failureOf = (code: string) => JSON.stringify({ code, retry: 'backoff', message: 'no' })
  await sql`insert into loads (model, purpose, ordinal, revision, state, failure, failed_at, next_at) values
    ('told', 'serve', 0, 'r', 'failed', ${failureOf('no_capacity')}::jsonb, now(), now() + interval '5 s')`.execute(connection.db)
  await sql`insert into replicas (id, model, revision, node_id, backend, config, state, exited_at) values
    ('r-told', 'told', 'r', ${node}, 'llama', '{}', 'exited', now())`.execute(connection.db)
  const told = async () => [await changeOf('model', 'told'), await changeOf('node', node)]
  const before = await told()
  const replica = await changeOf('replica', 'r-told')
  expect(await store.loads.reconsider(9)).toBe(true)
  await store.replicas.prune({ keepMs: 0, keepOfModel: 0 })
  expect(await told()).toEqual(before)
  expect(await changeOf('replica', 'r-told')).toBeGreaterThan(replica)
  // Every other failure shows its next try.
  await sql`update loads set failure = ${failureOf('internal')}::jsonb where model = 'told'`.execute(connection.db)
  const other = await changeOf('model', 'told')
  await sql`update loads set next_at = now() where model = 'told'`.execute(connection.db)
  expect(await changeOf('model', 'told')).toBeGreaterThan(other)
})

describe('a statement about many models that meets another one in a circle', () => {
  const names = ['circle-a', 'circle-b']
  it.each([
    ['that they were used', 'models', 'name', () => store.routes.markUsed(names)],
    ['that they are idle', 'models', 'name', () => store.loads.forgetIdle(1)],
    ['that they are looked at again', 'loads', 'model', () => store.loads.reconsider(9)],
  ])('is run again: %s', async (_, table, column, run) => {
    const failure = JSON.stringify({ code: 'no_capacity', retry: 'backoff', message: 'no' })
    await sql`delete from models where name = any(${names})`.execute(connection.db)
    for (const name of names) {
      await put(configOf(name))
      await sql`update models set requested_replicas = 1, used_at = now() - interval '1 day' where name = ${name}`.execute(connection.db)
      await sql`insert into loads (model, purpose, ordinal, revision, state, failure, failed_at, next_at)
        values (${name}, 'serve', 0, 'r', 'failed', ${failure}::jsonb, now(), now() + interval '1 hour')`.execute(connection.db)
    }
    const lock = (name: string) => sql`select from ${sql.table(table)} where ${sql.ref(column)} = ${name} for update`
    const meetInCircle = () =>
      connection.db.transaction().execute(async (tx) => {
        // PostgreSQL ends the transaction that looks for a circle first: never this one.
        await sql`set local deadlock_timeout = '10min'`.execute(tx)
        await lock('circle-b').execute(tx)
        const started = run()
        started.catch(() => undefined)
        await waitFor(
          async () =>
            (await sql`select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`.execute(connection.db))
              .rows.length > 0,
          { what: 'it to wait' },
        )
        await lock('circle-a').execute(tx)
        return { started }
      })
    const { started } = await meetInCircle()
    await started
  })
})

describe('a model', () => {
  it('is new, changed, or the same; the same publishes nothing', async () => {
    const first = configOf('put')
    expect(await put(first)).toEqual({ outcome: 'created' })
    const told = await changeOf('model', 'put')
    expect(await put(configOf('put', { options: {} }))).toEqual({ outcome: 'same' })
    expect(await changeOf('model', 'put')).toBe(told)
    expect(await put(configOf('put', { description: 'other' }))).toEqual({ outcome: 'changed' })
    expect((await store.models.find(first.name))?.revision).toBe(revisionOf(first))
    expect(await put(configOf('put', { context_size: 9 }))).toEqual({ outcome: 'changed' })
    expect((await store.models.find(first.name))?.revision).toBe(revisionOf(configOf('put', { context_size: 9 })))
    expect(await changeOf('model', 'put')).toBeGreaterThan(told)
  })

  it('is changed only from the revision that the caller has seen', async () => {
    const first = configOf('match')
    expect(await put(first, revisionOf(first))).toEqual({ outcome: 'revision_conflict', current: null })
    expect(await put(first, '*')).toEqual({ outcome: 'revision_conflict', current: null })
    await put(first)
    expect(await put(configOf('match', { context_size: 2 }), 'sha256-other')).toEqual({
      outcome: 'revision_conflict',
      current: revisionOf(first),
    })
    expect(await put(configOf('match', { context_size: 2 }), revisionOf(first))).toEqual({ outcome: 'changed' })
    expect(await put(configOf('match', { context_size: 3 }), '*')).toEqual({ outcome: 'changed' })
  })

  it('of many that change it at once from one revision, one does', async () => {
    const first = configOf('many')
    await put(first)
    const puts = await Promise.all(
      Array.from({ length: 8 }, (_, index) => put(configOf('many', { context_size: index + 1 }), revisionOf(first))),
    )
    expect(puts.filter(({ outcome }) => outcome === 'changed')).toHaveLength(1)
    expect(puts.filter(({ outcome }) => outcome === 'revision_conflict')).toHaveLength(7)
    const news = await Promise.all(Array.from({ length: 8 }, () => put(configOf('news'))))
    expect(news.map(({ outcome }) => outcome).toSorted()).toEqual(['created', ...Array.from({ length: 7 }, () => 'same')])
  })

  it('is no longer held at none once its scheduling changes, and only then', async () => {
    const held = async (): Promise<boolean | undefined> => (await store.models.find(ModelName.parse('held')))?.isUnloaded
    const hold = () => sql`update models set is_unloaded = true where name = 'held'`.execute(connection.db)
    await put(configOf('held', { scheduling: { min_replicas: 1 } }))
    await hold()
    await put(configOf('held', { scheduling: { min_replicas: 1 }, context_size: 4 }))
    expect(await held()).toBe(true)
    await put(configOf('held', { scheduling: { min_replicas: 2 } }))
    expect(await held()).toBe(false)
    await hold()
    const scheduling: Scheduling = { max_replicas: 3 }
    expect(await store.models.setScheduling(ModelName.parse('held'), scheduling)).toBe(true)
    expect(await store.models.find(ModelName.parse('held'))).toMatchObject({
      isUnloaded: false,
      config: { scheduling },
      revision: revisionOf(configOf('held')),
    })
    expect(await store.models.setScheduling(ModelName.parse('nobody'), scheduling)).toBe(false)
  })

  it('comes with its loads and with how many of its replicas answer', async () => {
    const [up, down] = [await addNode('up'), await addNode('down')]
    await sql`update node_pulses set liveness = 'silent' where node_id = ${down}`.execute(connection.db)
    await put(configOf('shown'))
    const failure = JSON.stringify({ code: 'disk_full', retry: 'backoff', message: 'no room' })
    await sql`
      insert into loads (model, purpose, ordinal, revision, state, node_id, replica_id, failure, failed_at, next_at, attempts) values
        ('shown', 'serve', 0, 'r', 'ready', ${up}, 'r1', null, null, null, 0),
        ('shown', 'serve', 1, 'r', 'failed', ${down}, null, ${failure}::jsonb, '2026-01-01T00:00:00Z', '2026-01-01T00:00:05Z', 2)`.execute(
      connection.db,
    )
    await sql`
      insert into replicas (id, model, revision, ordinal, slot, node_id, backend, config, state, checked, ready_at) values
        ('r1', 'shown', ${revisionOf(configOf('shown'))}, 0, 0, ${up}, 'llama', '{}', 'ready', 'passed', now()),
        ('r2', 'shown', 'r', 1, 0, ${down}, 'llama', '{}', 'ready', 'passed', now()), ('r3', 'shown', 'r', 2, 1, ${up}, 'llama', '{}', 'starting', 'passed', null),
        ('r4', 'shown', 'r', 3, 2, ${up}, 'llama', '{}', 'ready', 'due', now()), ('r5', 'shown', 'r', 4, 3, ${up}, 'llama', '{}', 'ready', 'passed', now())`.execute(
      connection.db,
    )
    const shown = await store.models.find(ModelName.parse('shown'))
    // A replica of an older revision serves too, as long as it exists.
    expect(shown).toMatchObject({ ready: 2 })
    expect(shown?.loads).toMatchObject([
      { ordinal: 0, state: 'ready', nodeName: 'up' },
      {
        ordinal: 1,
        state: 'failed',
        nodeName: 'down',
        failure: { code: 'disk_full' },
        failedAt: '2026-01-01T00:00:00.000Z',
        nextAt: '2026-01-01T00:00:05.000Z',
        attempts: 2,
      },
    ])
  })
})

describe('an operation about a model', () => {
  const view = async (id: OperationId) => {
    const found = await store.operations.find(id)
    if (found === null) throw new Error('it is not there')
    return viewOperation(found)
  }
  const begin = async (id: string, kind: 'model.install' | 'model.load' | 'model.delete', nodes: { id: NodeId; name: string }[] = []) => {
    const opened = OperationId.parse(id)
    await store.modelOperations.open({ id: opened, kind, model: ModelName.parse('m'), requestedBy: 'admin', nodes })
    return opened
  }

  it('S0.38 without nodes shows the progress of its job, which never goes back', async () => {
    const id = await begin('op-install', 'model.install')
    expect(await view(id)).toMatchObject({
      kind: 'model.install',
      model: 'm',
      backend: null,
      state: 'running',
      nodes: [],
      finished_at: null,
    })
    await store.modelOperations.progress(id, { current: 60, total: 100, fileName: 'a' })
    await store.modelOperations.progress(id, { current: 10, total: 100, fileName: 'b' })
    expect(await view(id)).toMatchObject({ progress: 60, current_bytes: 10, total_bytes: 100, file_name: 'b' })
    expect(await store.modelOperations.finish(id, 'succeeded', 'the files are on up')).toBe(true)
    expect(await store.modelOperations.finish(id, 'failed', 'too late')).toBe(false)
    await store.modelOperations.progress(id, { current: 1, total: 100 })
    const end = await view(id)
    expect(end).toMatchObject({ state: 'succeeded', progress: 100, message: 'the files are on up' })
    expect(end.finished_at).not.toBeNull()
  })

  it('shows the reported state of nodes, publishes changes only, and ends the nodes with itself', async () => {
    const node = await addNode('worker-a')
    const id = await begin('op-load', 'model.load')
    const said = { status: 'downloading', phase: 'downloading', current: 5, total: 10, fileName: 'f' } as const
    await store.modelOperations.showNode(id, node, said)
    const told = await changeOf('operation', id)
    await store.modelOperations.showNode(id, node, said)
    expect(await changeOf('operation', id)).toBe(told)
    await store.modelOperations.showNode(id, node, { status: 'downloading', phase: 'starting' })
    expect((await view(id)).nodes).toMatchObject([
      { node_name: 'worker-a', status: 'downloading', phase: 'starting', current: 5, percentage: 50 },
    ])
    const failure = { code: 'disk_full', message: 'no room' } as const
    await store.modelOperations.showNode(id, node, { status: 'error', attempts: 1, nextRetryAt: '2030-01-01T00:00:00.000Z', failure })
    expect(await view(id)).toMatchObject({
      state: 'background',
      nodes: [{ status: 'error', error: 'no room', error_code: 'disk_full', attempts: 1, next_retry_at: '2030-01-01T00:00:00.000Z' }],
    })
    await store.modelOperations.settleNode(id, node, { status: 'error', failure })
    expect((await view(id)).state).toBe('running')
    await store.modelOperations.showNode(id, node, { status: 'queued', attempts: 1 })
    await store.modelOperations.finish(id, 'failed', 'given up')
    expect(await view(id)).toMatchObject({ state: 'failed', message: 'given up', nodes: [{ status: 'error', error: 'given up' }] })
    await store.modelOperations.showNode(id, node, { status: 'queued' })
    expect(await view(id)).toMatchObject({ state: 'failed', nodes: [{ status: 'error' }] })
  })

  it('that is its nodes ends with the last of them, also when the last two end at once', async () => {
    const nodes = await Promise.all(['d1', 'd2', 'd3'].map(async (name) => ({ id: await addNode(name), name })))
    const id = await begin('op-delete', 'model.delete', nodes)
    expect(await view(id)).toMatchObject({ state: 'running', nodes: nodes.map(({ name }) => ({ node_name: name, status: 'queued' })) })
    await Promise.all(
      nodes.map((node, index) => store.modelOperations.settleNode(id, node.id, { status: index === 0 ? 'cancelled' : 'success' })),
    )
    expect(await view(id)).toMatchObject({ state: 'succeeded', message: '2 of 3 nodes done' })
  })
})
