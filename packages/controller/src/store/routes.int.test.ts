// Which replicas requests go to, as far as the database knows.
import { fileURLToPath } from 'node:url'
import { silentLog } from '@muster/host'
import { NodeId, Registration } from '@muster/protocol'
import { createTestDatabase } from '@muster/testkit'
import { sql } from 'kysely'
import { afterAll, beforeAll, expect, it } from 'vitest'
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
  const registration = Registration.parse({ name: 'n', public_key: `U${'A'.repeat(55)}`, incarnation: 'i' })
  await store.nodes.insert(NodeId.parse('n'), registration, { approvedBy: 'test', signedAt: new Date() })
  await sql`insert into models (name, config, revision, backend) values ('m', '{}', 'new', 'llama')`.execute(connection.db)
})
afterAll(async () => {
  await connection.close()
  await database.drop()
})

type Row = Readonly<{ state: string; revision: string; ordinal: number | null; checked: string }>
const serving: Row = { state: 'ready', revision: 'new', ordinal: 0, checked: 'passed' }

it.each<[string, Row, number]>([
  ['that serves', serving, 1],
  ['of an older revision, as long as nothing took its place', { ...serving, revision: 'old' }, 1],
  ['that was not asked anything yet', { ...serving, checked: 'due' }, 0],
  ['that failed its check', { ...serving, checked: 'failed' }, 0],
  ['that is drained (G12)', { ...serving, state: 'draining' }, 0],
  ['that nobody holds', { ...serving, ordinal: null }, 0],
  ['that starts', { ...serving, state: 'starting' }, 0],
])('G16 requests go to a replica %s: %j → %i', async (_, { state, revision, ordinal, checked }, want) => {
  await sql`delete from replicas`.execute(connection.db)
  await sql`insert into replicas (id, model, revision, ordinal, node_id, backend, config, state, checked, ready_at, drain_since) values
    ('r', 'm', ${revision}, ${ordinal}, 'n', 'llama', '{}', ${state}, ${checked}, ${state === 'starting' ? null : new Date()},
     ${state === 'draining' ? new Date() : null})`.execute(connection.db)
  for (const scope of [null, { models: ['m'], nodes: [] }, { models: [], nodes: ['n'] }]) {
    expect(await store.routes.replicas(scope)).toHaveLength(want)
  }
})

it('the routing position of a controller is recorded once it has a row, and never decreases', async () => {
  const told = async () => (await connection.db.selectFrom('controllers').select('routes_seq').executeTakeFirst())?.routes_seq
  expect(await store.controllers.recordRoutes('c', 5)).toBe(false)
  await store.controllers.heartbeat({ id: 'c', url: 'http://c', version: '1' })
  expect(await told()).toBe(0)
  expect(await store.controllers.recordRoutes('c', 5)).toBe(true)
  expect(await store.controllers.recordRoutes('c', 4)).toBe(true)
  await store.controllers.heartbeat({ id: 'c', url: 'http://c', version: '1' })
  expect(await told()).toBe(5)
})
