import { fileURLToPath } from 'node:url'
import { silentLog, systemClock } from '@muster/host'
import { BackendName, NodeId, OperationId, stepIntent } from '@muster/protocol'
import { createTestDatabase, waitFor } from '@muster/testkit'
import { sql } from 'kysely'
import { afterAll, beforeAll, expect, inject, it } from 'vitest'
import { connectDatabase } from './connect.ts'
import { applyIntents, IntentStore } from './intents.ts'
import { migrate } from './migrate.ts'
import { nothingToFetch } from './intent-rows.ts'
import { SubmissionStore } from './submissions.ts'
import type { Database } from './tables.ts'

let database: Awaited<ReturnType<typeof createTestDatabase>>
let connection: ReturnType<typeof connectDatabase<Database>>

beforeAll(async () => {
  database = await createTestDatabase({ serverUrl: inject('postgresUrl') })
  connection = connectDatabase<Database>({ to: { url: database.url }, clock: systemClock, log: silentLog, applicationName: 'test' })
  const directory = fileURLToPath(new URL('./migrations', import.meta.url))
  await migrate({ pool: connection.pool, directory, log: silentLog, afterwards: async () => undefined })
  await sql`
    insert into nodes (id, public_key, name, node_type, version, features, os, arch, capability, gateway_url, reported_labels, incarnation, approved_at, approved_by)
    select 'n-' || lower(c), 'U' || repeat(c, 55), c, 'backend', '', '{async}', '', '', '', '', '{}', 'i', now(), 'test' from unnest('{A,B}'::text[]) c`.execute(
    connection.db,
  )
  await sql`insert into node_pulses (node_id, liveness, last_seen_at, resources) select id, 'present', now(), '{}' from nodes`.execute(
    connection.db,
  )
})
afterAll(async () => {
  await connection.close()
  await database.drop()
})

it('an operation is finished when two transactions settle its last two nodes at once', async () => {
  const { db } = connection
  const intents = new IntentStore(db)
  const id = OperationId.parse('op-1')
  const nodes = ['n-a', 'n-b'].map((node) => ({ nodeId: NodeId.parse(node), nodeName: node, plan: nothingToFetch, isCurrent: false }))
  const about = { id, kind: 'backend.install', backend: BackendName.parse('llama'), requestedBy: 'test', options: {} } as const
  await new SubmissionStore(db).submit([{ ...about, nodes }], null)
  const { rows, now } = await intents.claim({ holder: 'c-1', leaseMs: 60_000, limit: 2 })
  const steps = rows.map((from) => {
    const retry = { baseMs: 1, maxMs: 1, maxAttempts: 1 }
    const to = stepIntent(from.intent, { type: 'succeeded', note: '' }, { now, retry, chance: 0 })
    if (to === null) throw new Error('a claimed intent can succeed')
    return { from, to, event: 'succeeded' }
  })
  const [first, second] = steps
  if (first === undefined || second === undefined) throw new Error('two intents are due')
  const isFinished = async (): Promise<boolean> =>
    (await db.selectFrom('operations').select('finished_at').where('id', '=', id).executeTakeFirstOrThrow()).finished_at !== null
  const isBlocked = async (): Promise<boolean> =>
    (await sql`select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`.execute(db)).rows.length > 0

  const other = await db.transaction().execute(async (tx) => {
    await applyIntents(tx, [first])
    const late = intents.apply([second])
    await waitFor(isBlocked, { what: 'the second transaction to wait for the first' })
    expect(await isFinished()).toBe(false)
    return { late }
  })
  expect(await other.late).toHaveLength(1)
  expect(await isFinished()).toBe(true)
})
