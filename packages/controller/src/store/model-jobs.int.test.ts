// Operations about models, from submission to end. Loads and replicas are moved by hand, as the loop that owns them would.
import { fileURLToPath } from 'node:url'
import { silentLog } from '@muster/host'
import { ModelConfig, ModelName, NodeId, OperationId, Registration, type OperationView } from '@muster/protocol'
import { createTestDatabase } from '@muster/testkit'
import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { decideJob } from '../models/job.pure.ts'
import { revisionOf } from '../models/config.ts'
import { viewModel } from '../models/view.ts'
import { viewOperation } from '../operations/view.ts'
import { connectDatabase } from './connect.ts'
import { migrate } from './migrate.ts'
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

async function addNode(name: string, letter: string): Promise<NodeId> {
  const id = NodeId.parse(name)
  const registration = Registration.parse({ name, public_key: `U${letter.repeat(55)}`, incarnation: 'i', features: ['async'] })
  await store.nodes.insert(id, registration, { approvedBy: 'test', signedAt: new Date() })
  await sql`update node_pulses set liveness = 'present', answering = 'yes', last_seen_at = now() where node_id = ${id}`.execute(
    connection.db,
  )
  return id
}

let made = 0
const submission = (name: string) => ({ id: OperationId.parse(`op-${++made}`), model: ModelName.parse(name), requestedBy: 'admin' })
const configOf = (name: string, more: object = {}): ModelConfig => ModelConfig.parse({ name, backend: 'llama', ...more })
const create = async (name: string, more: object = {}): Promise<void> => {
  const config = configOf(name, more)
  await store.models.put(config, { revision: revisionOf(config), expected: null })
}
const load = async (name: string, replicas = 1): Promise<OperationId> => {
  const requested = submission(name)
  expect(await store.modelSubmissions.load({ ...requested, replicas }, null)).toBe('done')
  return requested.id
}
const unload = async (name: string): Promise<OperationId> => {
  const requested = submission(name)
  expect(await store.modelSubmissions.unload(requested, null)).toBe('done')
  return requested.id
}
const install = async (name: string, files: object[]) => {
  const requested = submission(name)
  const config = configOf(name, { files })
  return { id: requested.id, outcome: await store.modelSubmissions.install({ ...requested, config, revision: revisionOf(config) }, null) }
}
/** As the loop would look at it, and then as the API would show it. */
const look = async (id: OperationId): Promise<OperationView> => {
  await store.modelJobs.advance(id, decideJob)
  const found = await store.operations.find(id)
  if (found === null) throw new Error('it is not there')
  return viewOperation(found)
}
const move = (model: string, set: ReturnType<typeof sql>) =>
  sql`update loads set ${set}, row_version = row_version + 1 where model = ${model}`.execute(connection.db)
const starting = (node: NodeId) =>
  sql`state = 'starting', node_id = ${node}, op_id = 'w-1', replica_id = case when purpose = 'serve' then 'r-1' end`
const addReplica = (id: string, model: string, node: NodeId) =>
  sql`insert into replicas (id, model, revision, ordinal, node_id, backend, config, state, ready_at)
    values (${id}, ${model}, 'r', 0, ${node}, 'llama', '{}', 'ready', now())`.execute(connection.db)
const shown = async (name: string) => {
  const model = await store.models.find(ModelName.parse(name))
  if (model === null) throw new Error('it is not there')
  return viewModel(model, 0)
}
const failure = (retry: string) => JSON.stringify({ code: 'integrity', retry, message: 'another sha256' })
const file = { uri: 'https://h/f', filename: 'f' }

describe('a load', () => {
  it('asks for replicas, shows the node it goes to, and is over when they are ready', async () => {
    await create('loaded')
    const id = await load('loaded')
    expect(await look(id)).toMatchObject({ kind: 'model.load', model: 'loaded', state: 'running', nodes: [] })
    expect(await shown('loaded')).toMatchObject({ state: 'pending', replicas_desired: 1 })
    await move('loaded', sql`${starting(one)}, phase = 'downloading', current_bytes = 5, total_bytes = 10`)
    expect((await look(id)).nodes).toMatchObject([
      { node_name: 'one', status: 'downloading', phase: 'downloading', current: 5, total: 10, percentage: 50 },
    ])
    await addReplica('r-1', 'loaded', one)
    await sql`update replicas set revision = (select revision from models where name = 'loaded') where id = 'r-1'`.execute(connection.db)
    await move('loaded', sql`state = 'ready', next_at = null`)
    expect(await look(id)).toMatchObject({ state: 'succeeded', progress: 100, nodes: [{ node_name: 'one', status: 'success' }] })
    expect(await shown('loaded')).toMatchObject({ state: 'ready', replicas_ready: 1 })
  })

  it('that moves to another node leaves the first', async () => {
    await create('moved')
    const id = await load('moved')
    await move('moved', starting(one))
    await look(id)
    await move('moved', starting(two))
    expect((await look(id)).nodes).toMatchObject([
      { node_name: 'one', status: 'queued' },
      { node_name: 'two', status: 'downloading' },
    ])
    await move('moved', sql`state = 'ready', next_at = null`)
    expect(await look(id)).toMatchObject({
      state: 'succeeded',
      nodes: [
        { node_name: 'one', status: 'skipped', message: 'loaded on another node' },
        { node_name: 'two', status: 'success' },
      ],
    })
  })

  it('that failed on a node and is loaded nowhere keeps the error of that node', async () => {
    await create('nowhere')
    const id = await load('nowhere')
    const fail = (retry: 'backoff' | 'never', node: typeof one | null) =>
      sql`state = 'failed', failure = ${failure(retry)}::jsonb, failed_at = now(), attempts = 1, node_id = ${node},
        next_at = case when ${retry}::text = 'backoff' then now() end`
    await move('nowhere', fail('backoff', one))
    await look(id)
    await move('nowhere', fail('backoff', null))
    const erred = { node_name: 'one', status: 'error', error_code: 'integrity' }
    expect((await look(id)).nodes).toMatchObject([erred])
    await move('nowhere', fail('never', two))
    expect(await look(id)).toMatchObject({ state: 'failed', nodes: [erred, { node_name: 'two', status: 'error' }] })
  })

  it('that cannot heal fails with the cause; a retry, or another load, begins anew', async () => {
    await create('broken')
    const id = await load('broken')
    const fail = sql`state = 'failed', failure = ${failure('never')}::jsonb, failed_at = now(), next_at = null, attempts = 1, node_id = ${one}`
    await move('broken', fail)
    expect(await look(id)).toMatchObject({
      state: 'failed',
      message: 'another sha256',
      nodes: [{ status: 'error', error_code: 'integrity' }],
    })
    expect(await shown('broken')).toMatchObject({ state: 'failed', failure: { code: 'integrity', next_retry_at: null } })
    expect(await store.modelJobs.retry({ id, nodeId: null }, null)).toBe('done')
    expect(await look(id)).toMatchObject({ state: 'running', finished_at: null })
    expect(await shown('broken')).toMatchObject({ state: 'pending', failure: null })
    expect(await store.modelJobs.retry({ id, nodeId: null }, null)).toBe('nothing_failed')
    await move('broken', fail)
    await look(id)
    await load('broken')
    expect(await shown('broken')).toMatchObject({ state: 'pending', failure: null })
  })

  it('without a node waits in the background, and shows the reason', async () => {
    await create('homeless')
    const id = await load('homeless')
    await move(
      'homeless',
      sql`state = 'failed', failure = ${failure('backoff')}::jsonb, failed_at = now(), next_at = now() + interval '5 s'`,
    )
    expect(await look(id)).toMatchObject({ state: 'background', message: 'another sha256', nodes: [] })
  })

  it('is over when the model is deleted, or unloaded', async () => {
    await create('doomed')
    const [first, second] = [await load('doomed'), await load('doomed')]
    const requested = submission('doomed')
    expect(await store.modelSubmissions.remove(requested, null)).toBe('done')
    for (const id of [first, second]) expect(await look(id)).toMatchObject({ state: 'cancelled', message: 'the model was deleted' })
    expect(await store.modelSubmissions.load({ ...submission('doomed'), replicas: 1 }, null)).toBe('unknown')
  })

  it('that is cancelled keeps its ready replicas and requests no more', async () => {
    await create('called-off', { scheduling: { max_replicas: 3 } })
    const id = await load('called-off', 3)
    await sql`update loads set state = 'ready', replica_id = 'r-c', node_id = ${one}, next_at = null where model = 'called-off' and ordinal = 0`.execute(
      connection.db,
    )
    expect(await store.modelJobs.cancel(id, null)).toBe('done')
    expect(await store.modelJobs.cancel(id, null)).toBe('already_finished')
    expect(await look(id)).toMatchObject({ state: 'cancelled' })
    expect(await shown('called-off')).toMatchObject({ replicas_desired: 1 })
  })
})

describe('an unload', () => {
  it('holds the model at none, drains its replicas, ends open loads, and is over when all are gone', async () => {
    await create('held', { scheduling: { min_replicas: 1 } })
    const loading = await load('held')
    await addReplica('r-held', 'held', two)
    const id = await unload('held')
    expect(await look(loading)).toMatchObject({ state: 'cancelled', message: `superseded by operation ${id}` })
    expect(await shown('held')).toMatchObject({ replicas_desired: 0, replicas_ready: 0 })
    expect((await look(id)).nodes).toMatchObject([{ node_name: 'two', status: 'downloading', message: 'draining' }])
    // Somebody wants it again meanwhile: that is none of its business.
    await load('held')
    await sql`update replicas set state = 'exited', exited_at = now() where id = 'r-held'`.execute(connection.db)
    await addReplica('r-new', 'held', two)
    await sql`update replicas set created_at = now() + interval '1 s' where id = 'r-new'`.execute(connection.db)
    await look(id)
    expect(await look(id)).toMatchObject({ state: 'succeeded', nodes: [{ node_name: 'two', status: 'success' }] })
  })
})

describe('S0.38 an install', () => {
  it('makes the model and fetches its files on one node, without nodes of its own', async () => {
    const { id, outcome } = await install('taken', [file])
    expect(outcome).toBe('done')
    expect(await shown('taken')).toMatchObject({ state: 'pending', replicas_desired: 0 })
    await move('taken', sql`${starting(one)}, phase = 'downloading', file_name = 'f', current_bytes = 30, total_bytes = 100`)
    expect(await look(id)).toMatchObject({
      ...{ kind: 'model.install', state: 'running', progress: 30, current_bytes: 30, total_bytes: 100, file_name: 'f', nodes: [] },
      message: 'fetching files on one',
    })
    expect(await shown('taken')).toMatchObject({ state: 'staging' })
    await move('taken', sql`current_bytes = 10`)
    expect(await look(id)).toMatchObject({ progress: 30 })
    await move('taken', sql`state = 'ready', next_at = null`)
    expect(await look(id)).toMatchObject({ state: 'succeeded', progress: 100, message: 'the files are on one', nodes: [] })
    expect(await shown('taken')).toMatchObject({ state: 'unloaded' })
  })

  it('of an existing model is a new operation; with another configuration of that name it is refused', async () => {
    expect((await install('taken', [file])).outcome).toBe('done')
    expect((await install('taken', [])).outcome).toBe('differs')
  })

  it('without files is over at once', async () => {
    expect(await look((await install('bare', [])).id)).toMatchObject({ state: 'succeeded' })
  })

  it('not begun is called off at once; begun, when its worker has stopped', async () => {
    const first = await install('stopped', [file])
    expect(await store.modelJobs.cancel(first.id, null)).toBe('done')
    expect(await look(first.id)).toMatchObject({ state: 'cancelled' })
    const { id } = await install('stopped', [file])
    await move('stopped', starting(one))
    expect(await store.modelJobs.cancel(id, null)).toBe('done')
    expect(await look(id)).toMatchObject({ state: 'running', message: 'cancelling' })
    expect(await store.modelJobs.advance(id, decideJob)).toEqual([{ nodeId: one, opId: 'w-1' }])
    await store.modelJobs.calledOff(id, one)
    expect(await look(id)).toMatchObject({ state: 'cancelled' })
    expect(await shown('stopped')).toMatchObject({ state: 'unloaded' })
  })

  it('that is paused is not begun; one of several that is not paused lets it begin', async () => {
    const { id } = await install('on-hold', [file])
    const claimed = async (): Promise<string[]> => {
      const { rows } = await store.loads.claim({ holder: 'c', leaseMs: 0, limit: 100 })
      return rows.flatMap(({ load: { model } }) => (model === 'on-hold' ? [model] : []))
    }
    expect(await store.pauses.control(id, 'pause', 'admin')).toBe('do')
    expect(await look(id)).toMatchObject({ state: 'background', message: 'paused', paused_at: expect.any(String) as string })
    expect(await claimed()).toEqual([])
    const other = await install('on-hold', [file])
    expect(await claimed()).toEqual(['on-hold'])
    expect(await store.modelJobs.cancel(other.id, null)).toBe('done')
    expect(await claimed()).toEqual([])
    await move('on-hold', starting(one))
    expect(await look(id)).toMatchObject({ state: 'running', message: expect.stringMatching(/^paused; fetching files/) as string })
    await move(
      'on-hold',
      sql`state = 'failed', failure = ${failure('backoff')}::jsonb, failed_at = now(), next_at = now(), op_id = null, sign_at = null`,
    )
    expect(await claimed()).toEqual([])
    expect(await store.modelJobs.retry({ id, nodeId: null }, null)).toBe('paused')
    expect(await store.pauses.control(id, 'resume', 'admin')).toBe('do')
    expect(await claimed()).toEqual(['on-hold'])
  })

  it('that waits for its next attempt is tried now, and a load on its node too', async () => {
    const { id } = await install('hurried', [file])
    const later = sql`state = 'failed', failure = ${failure('backoff')}::jsonb, failed_at = now(), next_at = now() + interval '1 hour', attempts = 2`
    await move('hurried', later)
    await look(id)
    expect(await store.modelJobs.retry({ id, nodeId: null }, null)).toBe('done')
    const due = await store.loads.claim({ holder: 'c', leaseMs: 0, limit: 100 })
    expect(due.rows.map(({ load: each }) => each)).toContainEqual(expect.objectContaining({ model: 'hurried', attempts: 2 }))
    await create('awaited')
    const loading = await load('awaited')
    await move('awaited', sql`${later}, node_id = ${one}`)
    expect((await look(loading)).nodes).toMatchObject([{ status: 'error', node_id: one }])
    expect(await store.modelJobs.retry({ id: loading, nodeId: two }, null)).toBe('nothing_failed')
    expect(await store.modelJobs.retry({ id: loading, nodeId: one }, null)).toBe('done')
    expect(await store.modelJobs.retry({ id: loading, nodeId: one }, null)).toBe('nothing_failed')
  })

  it('that failed for good can be retried', async () => {
    const { id } = await install('again', [file])
    await move('again', sql`state = 'failed', failure = ${failure('never')}::jsonb, failed_at = now(), next_at = null`)
    expect(await look(id)).toMatchObject({ state: 'failed', message: 'another sha256' })
    expect(await store.modelJobs.retry({ id, nodeId: null }, null)).toBe('done')
    expect(await look(id)).toMatchObject({ state: 'running', message: 'waiting for a node' })
  })
})

it('S0.29 a deletion removes everything of the model, and waits for the files on nodes', async () => {
  await create('whole', { scheduling: { min_replicas: 1 } })
  await load('whole')
  await addReplica('r-whole', 'whole', one)
  const requested = submission('whole')
  expect(await store.modelSubmissions.remove(requested, null)).toBe('done')
  expect((await look(requested.id)).nodes.map((node) => node.status)).toEqual(['queued', 'queued'])
  const claim = async () =>
    (await store.modelRemovals.claim({ holder: 'c', leaseMs: 60_000, limit: 10 })).filter(({ model }) => model === 'whole')
  const claimed = await claim()
  // One has a process that still uses its files; and what is taken is not taken twice.
  expect(claimed.map(({ nodeId }) => nodeId)).toEqual([two])
  expect(await claim()).toEqual([])
  for (const removal of claimed) await store.modelRemovals.settle(removal, null)
  expect((await look(requested.id)).nodes.map((node) => node.status)).toEqual(['queued', 'success'])
  // It costs nothing while it waits; once its last node is removed it is looked at, and ends.
  expect(await store.modelJobs.open()).not.toContain(requested.id)
  const third = await addNode('third', 'C')
  const another = submission('unwanted')
  await create('unwanted')
  await store.modelSubmissions.remove(another, null)
  for (const nodeId of [one, two]) await store.modelOperations.settleNode(another.id, nodeId, { status: 'success' })
  expect(await store.modelJobs.open()).not.toContain(another.id)
  await store.nodes.remove(third)
  expect(await store.modelJobs.open()).toContain(another.id)
  expect(await look(another.id)).toMatchObject({ state: 'succeeded' })
})

describe('load info', () => {
  const options = { backend: 'llama', context_size: 512 }
  const save = (model: string, revision: string, more: object = {}) =>
    store.loadInfo.save({ model, backend: 'llama', revision, options: { ...options, ...more } })

  it('S4.1 S4.2 is kept by the name of the model, apart from replicas: backend and options', async () => {
    await create('info')
    await sql`insert into replicas (id, model, revision, ordinal, node_id, backend, config, state, ready_at)
      values ('r-info', 'info', 'rev', 0, ${one}, 'llama', ${JSON.stringify(options)}::jsonb, 'ready', now())`.execute(connection.db)
    await store.loadInfo.saveNew()
    expect(await store.loadInfo.find('info')).toMatchObject({ model: 'info', backend: 'llama', revision: 'rev', options })
  })

  it('S4.2 is of the newest replica that became ready, also when it exited before it was recorded', async () => {
    await sql`insert into replicas (id, model, revision, node_id, backend, config, state, ready_at, exited_at)
      values ('r-newer', 'info', 'newer', ${one}, 'llama', '{}', 'exited', clock_timestamp(), clock_timestamp())`.execute(connection.db)
    await store.loadInfo.saveNew()
    const kept = await store.loadInfo.find('info')
    expect(kept).toMatchObject({ revision: 'newer', options: {} })
    // An equal row is not written again.
    await store.loadInfo.saveNew()
    expect(await store.loadInfo.find('info')).toEqual(kept)
    await sql`delete from replicas where id = 'r-newer'`.execute(connection.db)
    await store.loadInfo.saveNew()
    expect(await store.loadInfo.find('info')).toMatchObject({ revision: 'rev', options })
  })

  it('S4.3 of concurrent writers the last wins, and the time never goes back', async () => {
    await save('raced', 'first')
    const before = (await store.loadInfo.find('raced'))?.updatedAt ?? ''
    await Promise.all(Array.from({ length: 20 }, (_, index) => save('raced', `r${index}`)))
    await save('raced', 'last', { context_size: 1 })
    const found = await store.loadInfo.find('raced')
    expect(found).toMatchObject({ revision: 'last', options: { context_size: 1 } })
    expect(Date.parse(found?.updatedAt ?? '')).toBeGreaterThanOrEqual(Date.parse(before))
    expect(await connection.db.selectFrom('model_load_info').select('model').where('model', '=', 'raced').execute()).toHaveLength(1)
  })

  it('S4.4 an empty name is refused', async () => {
    await expect(save('', 'r')).rejects.toThrow('needs the name of a model')
  })

  it('S4.5 is not found where there is none', async () => {
    expect(await store.loadInfo.find('never')).toBeNull()
  })

  it('S4.6 stays when all replicas are gone', async () => {
    await sql`delete from replicas where model = 'info'`.execute(connection.db)
    expect(await store.loadInfo.find('info')).toMatchObject({ revision: 'rev' })
  })

  it('S4.7 each replica has the revision and options that it was started with', async () => {
    await addReplica('r-own', 'info', one)
    const row = await connection.db
      .selectFrom('replicas')
      .select(['revision', 'config'])
      .where('id', '=', 'r-own')
      .executeTakeFirstOrThrow()
    expect(row).toEqual({ revision: 'r', config: {} })
  })

  it('S4.14 goes with its model, and a replica that was ready too late does not bring it back', async () => {
    await store.modelSubmissions.remove(submission('info'), null)
    await store.loadInfo.saveNew()
    expect(await store.loadInfo.find('info')).toBeNull()
    expect(await store.models.find(ModelName.parse('info'))).toBeNull()
  })
})
