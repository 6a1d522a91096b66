// Operations about a model on chosen nodes, on a real database. Loads and replicas are moved by hand, as the loops would.
import { fileURLToPath } from 'node:url'
import { silentLog } from '@muster/host'
import { ModelConfig, ModelName, NodeId, OperationId, Registration, ReplicaId, type OperationView } from '@muster/protocol'
import { createTestDatabase } from '@muster/testkit'
import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { revisionOf } from '../models/config.ts'
import { decideJob } from '../models/job.pure.ts'
import { decideNodeLoad } from '../models/on-nodes.pure.ts'
import { viewOperation } from '../operations/view.ts'
import { connectDatabase } from './connect.ts'
import { migrate } from './migrate.ts'
import type { ReplicaChange } from './replicas.ts'
import { createStore, type Store } from './store.ts'
import type { Database } from './tables.ts'

let database: Awaited<ReturnType<typeof createTestDatabase>>
let connection: ReturnType<typeof connectDatabase<Database>>
let store: Store
let one: NodeId
let two: NodeId

beforeAll(async () => {
  database = await createTestDatabase()
  connection = connectDatabase<Database>({ to: { url: database.url }, log: silentLog, applicationName: 'test' })
  const directory = fileURLToPath(new URL('./migrations', import.meta.url))
  await migrate({ pool: connection.pool, directory, log: silentLog, afterwards: async () => undefined })
  store = createStore(connection.db)
  one = await addNode('one', 'A')
  two = await addNode('two', 'B')
})
afterAll(async () => {
  await connection.close()
  await database.drop()
})

async function addNode(name: string, letter: string, fields: object = {}): Promise<NodeId> {
  const id = NodeId.parse(name)
  const registration = Registration.parse({ name, public_key: `U${letter.repeat(55)}`, incarnation: 'i', features: ['async'], ...fields })
  await store.nodes.insert(id, registration, { approvedBy: 'test', signedAt: new Date() })
  await setLiveness(id, 'present')
  return id
}
const setLiveness = (id: NodeId, liveness: 'present' | 'silent') =>
  sql`update node_pulses set liveness = ${liveness}, answering = 'yes', last_seen_at = now() where node_id = ${id}`.execute(connection.db)

let made = 0
const submission = (name: string) => ({ id: OperationId.parse(`op-${++made}`), model: ModelName.parse(name), requestedBy: 'admin' })
const create = async (name: string, more: object = {}): Promise<void> => {
  const config = ModelConfig.parse({ name, backend: 'llama', ...more })
  await store.models.put(config, { revision: revisionOf(config), expected: null })
}
const unloadOn = async (name: string, nodeId: NodeId): Promise<OperationId> => {
  const requested = submission(name)
  expect(await store.nodeModels.unload({ ...requested, nodeId }, null)).toBe('done')
  return requested.id
}
const loadOn = async (name: string, nodeId: NodeId) => {
  const requested = submission(name)
  const outcome = await store.nodeModels.load({ ...requested, nodeId }, (facts) => decideNodeLoad(facts, nodeId), null)
  return { id: requested.id, outcome }
}
const removeOn = async (name: string, nodeId: NodeId): Promise<OperationId> => {
  const requested = submission(name)
  expect(await store.nodeModels.remove({ ...requested, nodeId }, null)).toBe('done')
  return requested.id
}
const prefetch = async (name: string, ...ids: NodeId[]): Promise<OperationId> => {
  const requested = submission(name)
  const nodes = ids.map((id) => ({ id, name: id, skip: null }))
  expect(await store.nodeModels.prefetch({ ...requested, nodes }, null)).toBe('done')
  return requested.id
}
const look = async (id: OperationId): Promise<OperationView> => {
  await store.modelJobs.advance(id, decideJob)
  const found = await store.operations.find(id)
  if (found === null) throw new Error('it is not there')
  return viewOperation(found)
}
const rows = async (query: ReturnType<typeof sql>): Promise<Record<string, unknown>[]> =>
  (await query.execute(connection.db)).rows as Record<string, unknown>[]
/** A replica that serves on the node, with its load. */
const serveOn = async (name: string, nodeId: NodeId, ordinal = 0): Promise<void> => {
  const id = `r-${name}-${ordinal}`
  await sql`
    insert into replicas (id, model, revision, ordinal, node_id, backend, config, state, ready_at)
    select ${id}, name, revision, ${ordinal}::int, ${nodeId}, 'llama', '{}', 'ready', now() from models where name = ${name}`.execute(
    connection.db,
  )
  await sql`
    insert into loads (model, purpose, ordinal, revision, state, node_id, replica_id, sign_at)
    select name, 'serve', ${ordinal}::int, revision, 'ready', ${nodeId}, ${id}, now() from models where name = ${name}`.execute(
    connection.db,
  )
  await sql`update models set requested_replicas = ${ordinal + 1}::int where name = ${name}`.execute(connection.db)
}
const claimed = async (name: string): Promise<(string | null)[]> => {
  const { rows: loads } = await store.loads.claim({ holder: 'c', leaseMs: 1, limit: 64 })
  return loads.filter(({ load }) => load.model === name).map(({ load }) => load.pin)
}
const file = { uri: 'https://h/f', filename: 'f' }

describe('an unload on one node', () => {
  it('drains its replicas alone, drops their demand, and ends when they have exited', async () => {
    await create('alone', { scheduling: { max_replicas: 2 } })
    await serveOn('alone', one, 0)
    await serveOn('alone', two, 1)
    const id = await unloadOn('alone', one)
    expect(await look(id)).toMatchObject({ kind: 'model.unload', state: 'running', nodes: [{ node_name: 'one', message: 'draining' }] })
    expect(await rows(sql`select id, state from replicas where model = 'alone' order by id`)).toEqual([
      { id: 'r-alone-0', state: 'draining' },
      { id: 'r-alone-1', state: 'ready' },
    ])
    expect(await rows(sql`select requested_replicas from models where name = 'alone'`)).toEqual([{ requested_replicas: 1 }])
    expect(await rows(sql`select node_id from loads where model = 'alone'`)).toEqual([{ node_id: 'two' }])
    await sql`update replicas set state = 'exited', exited_at = now() where id = 'r-alone-0'`.execute(connection.db)
    expect(await look(id)).toMatchObject({ state: 'succeeded' })
    expect((await store.nodes.find(one))?.unloadedModels).toContain('alone')
  })

  it('is over at once where nothing runs, and holds nevertheless', async () => {
    await create('idle')
    expect(await look(await unloadOn('idle', one))).toMatchObject({ state: 'succeeded', message: 'no replicas were running on one' })
    expect((await store.nodes.find(one))?.unloadedModels).toContain('idle')
  })

  it('stops a replica that was about to start there: its decision was made before', async () => {
    await create('raced')
    const { outcome } = await loadOn('raced', one)
    expect(outcome).toBe('done')
    const [from] = (await store.loads.listOfModel('raced')).rows
    if (from === undefined) throw new Error('the load is there')
    await unloadOn('raced', one)
    const [again] = (await store.loads.listOfModel('raced')).rows
    expect(again?.load).toMatchObject({ state: 'waiting', pin: null })
    const start: ReplicaChange & { readonly opId: OperationId } = {
      ...{ id: ReplicaId.parse('r-raced'), do: 'start', model: 'raced', revision: 'r', ordinal: 0, nodeId: one, backend: 'llama' },
      ...{ config: {}, opId: OperationId.parse('w-1'), needsCheck: false, seen: ['r-alone-0'].map((id) => ReplicaId.parse(id)) },
    }
    const record = again ?? from
    const to = { ...record.load, state: 'starting', nodeId: one, opId: start.opId, replicaId: start.id, signAt: 0, nextAt: 0 } as const
    expect(await store.loads.apply({ from: record, to, replicas: [start] })).toBe('crowded')
    expect(await rows(sql`select from replicas where id = 'r-raced'`)).toEqual([])
  })

  it('ends with a load there, with a change of the scheduling, and with the model', async () => {
    const held = async (name: string): Promise<number> => (await rows(sql`select from node_unloads where model = ${name}`)).length
    await create('held')
    for (const node of [one, two]) await unloadOn('held', node)
    expect(await held('held')).toBe(2)
    expect((await loadOn('held', one)).outcome).toBe('done')
    expect(await held('held')).toBe(1)
    // Another description is no other scheduling.
    await create('held', { description: 'new' })
    expect(await held('held')).toBe(1)
    await create('held', { description: 'new', scheduling: { priority: 1 } })
    expect(await held('held')).toBe(0)
    await unloadOn('held', one)
    await store.models.setScheduling(ModelName.parse('held'), {})
    expect(await held('held')).toBe(0)
    await unloadOn('held', one)
    await store.modelSubmissions.remove(submission('held'), null)
    expect(await held('held')).toBe(0)
  })

  it('ends an open load of that node', async () => {
    await create('turned')
    const { id } = await loadOn('turned', one)
    expect(await look(id)).toMatchObject({ state: 'running', nodes: [{ node_name: 'one', status: 'queued' }] })
    const unload = await unloadOn('turned', one)
    expect(await look(id)).toMatchObject({ state: 'cancelled', message: `superseded by operation ${unload}` })
  })

  it('of a model or a node that does not exist is refused', async () => {
    expect(await store.nodeModels.unload({ ...submission('nobody'), nodeId: one }, null)).toBe('unknown')
    expect(await store.nodeModels.unload({ ...submission('held-2'), nodeId: NodeId.parse('zz') }, null)).toBe('unknown')
    await create('known')
    expect(await store.nodeModels.unload({ ...submission('known'), nodeId: NodeId.parse('zz') }, null)).toBe('unknown_node')
  })
})

describe('a deletion on one node', () => {
  it('replaces an earlier one, is retried although the model exists, and gives way to a load there', async () => {
    await create('gone')
    const first = await removeOn('gone', one)
    const second = await removeOn('gone', one)
    expect(await look(first)).toMatchObject({ state: 'cancelled', nodes: [{ message: `superseded by operation ${second}` }] })
    const removal = (await store.modelRemovals.claim({ holder: 'c', leaseMs: 1_000, limit: 64 })).find(({ model }) => model === 'gone')
    if (removal === undefined) throw new Error('the removal is due')
    await store.modelRemovals.settle(removal, { code: 'invalid', retry: 'never', message: 'no' })
    expect(await look(second)).toMatchObject({ state: 'failed' })
    expect(await store.modelJobs.retry({ id: second, nodeId: null }, null)).toBe('done')
    expect(await look(second)).toMatchObject({ state: 'running' })
    expect((await loadOn('gone', one)).outcome).toBe('done')
    expect(await look(second)).toMatchObject({ nodes: [{ status: 'cancelled', message: 'the model was loaded on the node again' }] })
    expect(await rows(sql`select from model_removals where model = 'gone'`)).toEqual([])
    expect(await rows(sql`select from models where name = 'gone'`)).toHaveLength(1)
  })
})

describe('a prefetch', () => {
  it('has a load for each node, which ends with its node', async () => {
    await create('staged', { files: [file] })
    const id = await prefetch('staged', one, two)
    expect(await look(id)).toMatchObject({ kind: 'model.prefetch', state: 'running', nodes: [{ status: 'queued' }, { status: 'queued' }] })
    expect(new Set(await claimed('staged'))).toEqual(new Set(['one', 'two']))
    await sql`update loads set state = 'ready', next_at = null, node_id = 'one' where model = 'staged' and pinned_node_id = 'one'`.execute(
      connection.db,
    )
    expect((await look(id)).nodes).toMatchObject([{ status: 'success' }, { status: 'queued' }])
    expect(await rows(sql`select pinned_node_id from loads where model = 'staged'`)).toEqual([{ pinned_node_id: 'two' }])
    const failure = JSON.stringify({ code: 'integrity', retry: 'never', message: 'another sha256' })
    await sql`
      update loads set state = 'failed', failure = ${failure}::jsonb, failed_at = now(), next_at = null, holder = null, lease_until = null
      where model = 'staged'`.execute(connection.db)
    expect(await look(id)).toMatchObject({ state: 'failed', nodes: [{ status: 'success' }, { status: 'error', error: 'another sha256' }] })
    expect(await store.modelJobs.retry({ id, nodeId: two }, null)).toBe('done')
    expect((await look(id)).nodes).toMatchObject([{ status: 'success' }, { status: 'queued' }])
  })

  it('costs nothing while its node is away', async () => {
    await create('away', { files: [file] })
    await setLiveness(two, 'silent')
    const id = await prefetch('away', two)
    expect(await look(id)).toMatchObject({ state: 'background', nodes: [{ status: 'queued' }] })
    expect(await claimed('away')).toEqual([])
    expect(await store.modelJobs.open()).not.toContain(id)
    await setLiveness(two, 'present')
    expect(await claimed('away')).toEqual(['two'])
  })

  it('is taken over by a newer one, cancelled at once before it begins, and ends where a node is removed', async () => {
    const third = await addNode('third', 'C')
    await create('newer', { files: [file] })
    const first = await prefetch('newer', one, third)
    const second = await prefetch('newer', one)
    expect((await look(first)).nodes).toMatchObject([
      { status: 'cancelled', message: `superseded by operation ${second}` },
      { status: 'queued' },
    ])
    await store.nodes.remove(third)
    expect(await look(first)).toMatchObject({ state: 'cancelled' })
    expect(await store.modelJobs.cancel(second, null)).toBe('done')
    expect(await look(second)).toMatchObject({ state: 'cancelled' })
    expect(await rows(sql`select from loads where model = 'newer'`)).toEqual([])
  })

  it('that is cancelled waits for the workers that are at work, and an install of the model goes on', async () => {
    await create('both', { files: [file] })
    const config = ModelConfig.parse({ name: 'both', backend: 'llama', files: [file] })
    const id = await prefetch('both', one, two)
    const install = submission('both')
    expect(await store.modelSubmissions.install({ ...install, config, revision: revisionOf(config) }, null)).toBe('done')
    expect(await rows(sql`select pinned_node_id as pin from loads where model = 'both' order by ordinal`)).toEqual([
      { pin: null },
      { pin: 'one' },
      { pin: 'two' },
    ])
    await sql`update loads set state = 'starting', node_id = 'one', op_id = 'w-9', sign_at = now() where model = 'both' and pinned_node_id = 'one'`.execute(
      connection.db,
    )
    expect(await store.modelJobs.cancel(id, null)).toBe('done')
    expect(await store.modelJobs.advance(id, decideJob)).toEqual([{ nodeId: 'one', opId: 'w-9' }])
    expect(await look(id)).toMatchObject({ state: 'running', message: 'cancelling' })
    await store.modelJobs.calledOff(id, one)
    expect(await look(id)).toMatchObject({ state: 'cancelled' })
    expect(await look(install.id)).toMatchObject({ state: 'running' })
    expect(await rows(sql`select pinned_node_id as pin from loads where model = 'both'`)).toEqual([{ pin: null }])
  })

  it('for a worker happens once per revision, whichever controller is first', async () => {
    const wanting = await addNode('wanting', 'D', { prefetch_models: ['wanted', 'not-yet'] })
    await create('wanted', { files: [file] })
    const wanted = async () => (await store.nodeModels.wantedPrefetches(10)).filter(({ nodeId }) => nodeId === wanting)
    const [due] = await wanted()
    if (due === undefined) throw new Error('one is due')
    expect(due).toMatchObject({ model: 'wanted', nodeName: 'wanting' })
    const submit = () => store.nodeModels.prefetchOnce({ ...submission('wanted'), ...due })
    expect((await Promise.all([submit(), submit(), submit()])).filter(Boolean)).toHaveLength(1)
    expect(await wanted()).toEqual([])
    await create('wanted', { files: [file, { uri: 'https://h/g', filename: 'g' }] })
    expect(await submit()).toBe(false)
    expect(await wanted()).toMatchObject([{ model: 'wanted' }])
    await unloadOn('wanted', wanting)
    expect(await wanted()).toEqual([])
  })
})
