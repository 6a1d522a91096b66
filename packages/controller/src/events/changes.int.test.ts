// The feed against the real database, where numbers become visible out of order.
import { fileURLToPath } from 'node:url'
import { silentLog, systemClock } from '@muster/host'
import { createTestDatabase, waitFor } from '@muster/testkit'
import { Client } from 'pg'
import { afterAll, beforeAll, beforeEach, describe, expect, inject, it } from 'vitest'
import { ChangeStore } from '../store/changes.ts'
import { connectDatabase } from '../store/connect.ts'
import { migrate } from '../store/migrate.ts'
import type { Database } from '../store/tables.ts'
import { ChangeFeed } from './feed.ts'

let database: Awaited<ReturnType<typeof createTestDatabase>>
let connection: ReturnType<typeof connectDatabase<Database>>
let store: ChangeStore
const stopping = new AbortController()
let feed: ChangeFeed
let told: string[] = []
let running: Promise<void>

beforeAll(async () => {
  database = await createTestDatabase({ serverUrl: inject('postgresUrl') })
  connection = connectDatabase<Database>({ to: { url: database.url }, clock: systemClock, log: silentLog, applicationName: 'test' })
  const directory = fileURLToPath(new URL('../store/migrations', import.meta.url))
  await migrate({ pool: connection.pool, directory, log: silentLog, afterwards: async () => undefined })
  store = new ChangeStore(connection.db)
  feed = new ChangeFeed({ changes: store, clock: systemClock, log: silentLog })
  feed.listen(({ changes }) => told.push(...changes.map((change) => change.id)))
  running = feed.run(stopping.signal)
  await waitFor(() => feed.cursor !== null, { what: 'the feed to begin' })
})
afterAll(async () => {
  stopping.abort()
  await running
  await connection.close()
  await database.drop()
})
beforeEach(() => {
  told = []
})

async function transaction(): Promise<Client> {
  const client = new Client({ connectionString: database.url })
  await client.connect()
  await client.query('begin')
  await client.query('select pg_current_xact_id()')
  return client
}
const record = (client: Client, id: string) => client.query("select record_change('node', $1, false)", [id])
const commit = async (client: Client): Promise<void> => {
  await client.query('commit')
  await client.end()
}

describe('a change', () => {
  it('is delivered although a later number was committed first', async () => {
    const early = await transaction()
    const late = await transaction()
    await record(late, 'drawn-first')
    await record(early, 'drawn-second')
    await commit(early)
    await waitFor(() => told.includes('drawn-second'), { what: 'the one that was committed first' })
    await commit(late)
    await waitFor(() => told.includes('drawn-first'), { what: 'the one that was committed last' })
  })

  it('is not acknowledged before every smaller number is committed', async () => {
    const late = await transaction()
    await record(late, 'slow')
    const quick = await transaction()
    await record(quick, 'quick')
    await commit(quick)
    await waitFor(() => told.includes('quick'), { what: 'the quick one' })
    const cursor = feed.cursor ?? 0
    await commit(late)
    const missed = (await store.readSince(cursor)).changes.map((change) => change.id)
    expect(missed).toEqual(expect.arrayContaining(['slow', 'quick']))
    await waitFor(() => (feed.cursor ?? 0) > cursor, { what: 'the cursor to move on' })
  })

  it('of a deleted object is pruned after a while, and the floor moves', async () => {
    const client = await transaction()
    await client.query("select record_change('node', 'gone', true)")
    await commit(client)
    const { last } = await store.readSince(0)
    await store.forgetDeleted(3_600_000)
    expect((await store.readSince(0)).floor).toBeLessThan(last)
    const old = new Client({ connectionString: database.url })
    await old.connect()
    await old.query("update changes set at = now() - interval '2 hours' where id = 'gone'")
    await old.end()
    await store.forgetDeleted(3_600_000)
    const after = await store.readSince(0)
    expect(after.changes.map((change) => change.id)).not.toContain('gone')
    expect(after.floor).toBe(last)
    expect(after.last).toBeGreaterThanOrEqual(last)
  })
})
