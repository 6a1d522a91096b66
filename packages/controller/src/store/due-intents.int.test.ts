import { fileURLToPath } from 'node:url'
import { silentLog } from '@muster/host'
import { BackendName, NodeId, OperationId } from '@muster/protocol'
import { createTestDatabase } from '@muster/testkit'
import { sql } from 'kysely'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { connectDatabase } from './connect.ts'
import { nothingToFetch } from './intent-rows.ts'
import { IntentStore } from './intents.ts'
import { migrate } from './migrate.ts'
import { SubmissionStore } from './submissions.ts'
import type { Database } from './tables.ts'

let database: Awaited<ReturnType<typeof createTestDatabase>>
let connection: ReturnType<typeof connectDatabase<Database>>
let intents: IntentStore

const claim = () => intents.claim({ holder: 'c-1', leaseMs: 60_000, limit: 10 })
const timeouts = { installMs: 60_000, upgradeMs: 60_000 }
const dueIn = async (interval: string): Promise<void> =>
  void (await sql`update intents set next_at = now() + ${interval}::interval`.execute(connection.db))

beforeAll(async () => {
  database = await createTestDatabase()
  connection = connectDatabase<Database>({ to: { url: database.url }, log: silentLog, applicationName: 'test' })
  const directory = fileURLToPath(new URL('./migrations', import.meta.url))
  await migrate({ pool: connection.pool, directory, log: silentLog, afterwards: async () => undefined })
  intents = new IntentStore(connection.db)
  await sql`
    insert into nodes (id, public_key, name, node_type, version, features, os, arch, capability, gateway_url, reported_labels, incarnation, approved_at, approved_by)
    values ('n-a', 'U' || repeat('A', 55), 'a', 'backend', '', '{async}', '', '', '', '', '{}', 'i', now(), 'test')`.execute(connection.db)
  await sql`insert into node_pulses (node_id, liveness, last_seen_at, resources) values ('n-a', 'present', now(), '{}')`.execute(
    connection.db,
  )
  const node = { nodeId: NodeId.parse('n-a'), nodeName: 'a', plan: nothingToFetch, isCurrent: false }
  const about = { kind: 'backend.install', backend: BackendName.parse('llama'), requestedBy: 'test', options: {} } as const
  await new SubmissionStore(connection.db).submit([{ id: OperationId.parse('op-1'), ...about, nodes: [node] }], null)
})
afterAll(async () => {
  await connection.close()
  await database.drop()
})

it('an intent that becomes due after a claim is due in the outlook, however late that is read', async () => {
  await dueIn('1 hour')
  const { rows, now } = await claim()
  expect(rows).toEqual([])
  expect((await intents.outlook(timeouts, now)).dueMs).toBeGreaterThan(3_000_000)
  // A timer that fires a moment early, or a slow database between the two statements.
  await dueIn('0 s')
  expect((await intents.outlook(timeouts, now)).dueMs).toBeLessThanOrEqual(0)
})

it('an intent that a claim left although it was due is not in the outlook: a change makes it due', async () => {
  await dueIn('-1 s')
  await sql`update nodes set draining = true`.execute(connection.db)
  const { rows, now } = await claim()
  expect(rows).toEqual([])
  expect(await intents.outlook(timeouts, now)).toEqual({ dueMs: null, watchMs: null, isBusy: false })
})
