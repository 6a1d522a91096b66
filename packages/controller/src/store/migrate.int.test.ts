import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { silentLog, type Log } from '@muster/host'
import { createTestDatabase, waitFor } from '@muster/testkit'
import { Pool } from 'pg'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { migrate } from './migrate.ts'

let directory: string
let pools: Pool[]
let url: string

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'muster-migrations-'))
  pools = []
  url = (await createTestDatabase({ template: 'empty' })).url
})
afterEach(async () => {
  await Promise.all(pools.map((each) => each.end()))
  await rm(directory, { recursive: true })
})

function newPool(): Pool {
  // Tight on purpose: what the pool allows a query must not stop a migration.
  const pool = new Pool({ connectionString: url, statement_timeout: 300, lock_timeout: 300, query_timeout: 400 })
  pool.on('error', () => {})
  pool.on('connect', (client) => client.on('error', () => {}))
  pools.push(pool)
  return pool
}

const write = (file: string, sql: string): Promise<void> => writeFile(join(directory, file), sql)
const run = (pool = newPool(), log: Log = silentLog): Promise<void> => migrate({ pool, directory, log, afterwards: async () => undefined })

async function rows(sql: string): Promise<unknown[]> {
  return (await newPool().query(sql)).rows
}

describe('migrate', () => {
  it('applies new migrations, in order, and only once', async () => {
    await write('0001_first.sql', 'create table a (x int); insert into a values (1);')
    await run()
    await write('0002_second.sql', 'alter table a add y int default 7; insert into a values (2);')
    await run()
    await run()
    expect(await rows('select * from a order by x')).toEqual([
      { x: 1, y: 7 },
      { x: 2, y: 7 },
    ])
    expect(await rows('select version, name from schema_migrations order by version')).toEqual([
      { version: 1, name: 'first' },
      { version: 2, name: 'second' },
    ])
  })

  it('A25 four controllers that start at once on an empty database apply each migration once, however long it takes', async () => {
    await write('0001_slow.sql', 'create table a (x int); select pg_sleep(0.7); insert into a values (1);')
    await write('0002_more.sql', 'insert into a values (2);')
    let cleanUps = 0
    let inside = 0
    const afterwards = async (): Promise<number> => {
      inside += 1
      expect(inside).toBe(1)
      await new Promise(setImmediate)
      cleanUps += 1
      inside -= 1
      return cleanUps
    }
    const outcomes = await Promise.all(Array.from({ length: 4 }, () => migrate({ pool: newPool(), directory, log: silentLog, afterwards })))
    expect(new Set(outcomes)).toEqual(new Set([1, 2, 3, 4]))
    expect(await rows('select x from a order by x')).toEqual([{ x: 1 }, { x: 2 }])
    expect(cleanUps).toBe(4)
  })

  it('S4.11 the table of load parameters comes from the same run, however many controllers start', async () => {
    const own = join(import.meta.dirname, 'migrations')
    const start = () => migrate({ pool: newPool(), directory: own, log: silentLog, afterwards: async () => undefined })
    await Promise.all([start(), start(), start()])
    expect(await rows(`select to_regclass('model_load_info') is not null as is_there`)).toEqual([{ is_there: true }])
    expect(await rows('select count(*)::int = count(distinct version)::int as once from schema_migrations')).toEqual([{ once: true }])
  })

  it('A25 a migration whose session is killed in the middle leaves nothing, and the next start completes it', async () => {
    await write('0001_ok.sql', 'create table a (x int);')
    await write(
      '0002_killed.sql',
      'create table b (x int); insert into a values (1); select pg_sleep(60) /* middle */; insert into b values (1);',
    )
    const outcome = run().catch((error: unknown) => error)
    await waitFor(() => terminate('/* middle */'), { what: 'the migration to be in the middle' })
    expect(await outcome).toMatchObject({ message: expect.stringMatching(/^migration 2 \(killed\) failed/) as unknown })
    expect(await rows("select to_regclass('b') as b, (select count(*)::int from a) as a")).toEqual([{ b: null, a: 0 }])

    await write('0002_killed.sql', 'create table b (x int); insert into a values (1); insert into b values (1);')
    await run()
    expect(await rows('select (select count(*)::int from a) as a, (select count(*)::int from b) as b')).toEqual([{ a: 1, b: 1 }])
  })

  it('A25 another controller that waits takes over when the one that migrates is killed', async () => {
    await write('0001_slow.sql', 'create table a (x int); select pg_sleep(0.5) /* first */;')
    const first = run()
    first.catch(() => {})
    await waitFor(
      async () => (await rows("select from pg_stat_activity where query like '%/* first */%' and wait_event = 'PgSleep'")).length,
      {
        what: 'the first to migrate',
      },
    )
    const second = run()
    await untilOneWaits()
    await terminate('/* first */')
    await expect(first).rejects.toThrow()
    await second
    expect(await rows("select to_regclass('a')::text as a")).toEqual([{ a: 'a' }])
  })

  it('refuses a migration that was changed after it was applied, and names it', async () => {
    await write('0001_first.sql', 'create table a (x int);')
    await run()
    await write('0001_first.sql', 'create table a (x bigint);')
    await expect(run()).rejects.toThrow(/migration 1 \(first\) was applied to this database with another content/)
  })

  it('A25 refuses a database from before the first release, with the remedy', async () => {
    await write('0001_foundation.sql', 'create table a (x int);')
    await run()
    const own = join(import.meta.dirname, 'migrations')
    const start = migrate({ pool: newPool(), directory: own, log: silentLog, afterwards: async () => undefined })
    await expect(start).rejects.toThrow(/before the first release.*move the data directory away.*or create a new database.*--database-url/)
    expect(await rows('select name from schema_migrations')).toEqual([{ name: 'foundation' }])
  })

  it('A25 keeps working on a database that is newer than it', async () => {
    await write('0001_first.sql', 'create table a (x int);')
    await write('0002_newer.sql', 'alter table a add y int;')
    await run()
    await rm(join(directory, '0002_newer.sql'))
    const said: string[] = []
    await run(newPool(), { ...silentLog, info: (message) => said.push(message) })
    // The server may release the lock of the run before a moment after its connection ended.
    expect(said.at(-1)).toBe('database is newer than this controller')
    expect(await rows('select version from schema_migrations')).toHaveLength(2)
  })

  it('refuses a file that would commit by half', async () => {
    await write('0001_half.sql', 'create table a (x int); commit; create table b (x int);')
    await expect(run()).rejects.toThrow(/ends its own transaction/)
  })

  it.each([
    ['a number that is left out', ['0001_a.sql', '0003_c.sql']],
    ['a duplicate number', ['0001_a.sql', '0001_b.sql']],
    ['a name without a number', ['a.sql']],
  ])('refuses %s', async (_, files) => {
    for (const file of files) await write(file, 'select 1;')
    await expect(run()).rejects.toThrow(/migration/)
  })

  it('stops waiting for another controller on abort', async () => {
    const holder = await newPool().connect()
    await holder.query('select pg_advisory_lock(120351215609202)')
    const giveUp = new AbortController()
    const afterwards = async (): Promise<void> => undefined
    const outcome = migrate({ pool: newPool(), directory, log: silentLog, signal: giveUp.signal, afterwards }).catch(
      (error: unknown) => error,
    )
    await untilOneWaits()
    giveUp.abort(new Error('enough'))
    expect(await outcome).toMatchObject({ message: 'enough' })
    holder.release()
  })

  it('gives up when it is aborted while it connects', async () => {
    const holder = await newPool().connect()
    using released = new DisposableStack()
    released.defer(() => holder.release())
    await holder.query('select pg_advisory_lock(120351215609202)')
    const giveUp = new AbortController()
    const pool = newPool()
    pool.on('connect', () => giveUp.abort(new Error('enough')))
    let outcome: unknown = null
    const afterwards = async (): Promise<void> => undefined
    migrate({ pool, directory, log: silentLog, signal: giveUp.signal, afterwards }).catch((error: unknown) => (outcome = error))
    await waitFor(() => outcome !== null, { what: 'the start to give up' })
    expect(outcome).toMatchObject({ message: 'enough' })
  })
})

/** In this database: others run their own tests. */
const untilOneWaits = (): Promise<unknown> =>
  waitFor(
    async () =>
      (
        await rows(`select from pg_locks join pg_database d on d.oid = database
        where datname = current_database() and locktype = 'advisory' and not granted`)
      ).length,
    { what: 'a controller to wait for the lock' },
  )

async function terminate(mark: string): Promise<boolean> {
  const result = await newPool().query(
    `select pg_terminate_backend(pid) from pg_stat_activity
     where datname = current_database() and pid <> pg_backend_pid() and position($1 in query) > 0 and wait_event = 'PgSleep'`,
    [mark],
  )
  return result.rowCount !== 0
}
