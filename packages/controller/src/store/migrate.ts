// Migrates the schema forward, never back. Any number of controllers may start at once on one database: a session lock admits one
// at a time, and each migration is committed together with its row in the list of migrations, so a killed migration leaves
// nothing.
// Not kysely's Migrator: it refuses a database with unknown migrations, which every older controller meets during the upgrade of
// a cluster; it does not detect that a released file was changed; and `afterwards`, which must run once after migrating, would
// not be under its lock.
import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Pool, PoolClient } from 'pg'
import type { Log } from '@muster/host'

export interface MigrateOptions<T> {
  readonly pool: Pool
  /** Contains NNNN_name.sql files. */
  readonly directory: string
  readonly log: Log
  /** Runs after the last migration under the same lock: one controller at a time. */
  readonly afterwards: () => Promise<T>
  /** Aborts, also while waiting for the migrations of another controller. */
  readonly signal?: AbortSignal
}

type AppliedMigration = Readonly<{ version: number; name: string; checksum: string }>

/** PostgreSQL 17 and newer have the last setting. */
const limits = ['statement_timeout', 'lock_timeout', 'idle_in_transaction_session_timeout', 'transaction_timeout']
/** 'muster' as a number: advisory locks are numbers that all programs of a database share. */
const lockNumber = 0x6d_75_73_74_65_72
/** pg cannot lift the limit of the pool for a single query; this is the longest possible timer. */
const noTimeoutMs = 2_147_483_647

/** Returns the result of `afterwards`. */
export async function migrate<T>({ pool, directory, log, afterwards, signal }: MigrateOptions<T>): Promise<T> {
  signal?.throwIfAborted()
  const migrations = await readMigrations(directory)
  const client = await pool.connect()
  // Ending the connection ends the wait for the lock, rolls back and unlocks.
  let isReleased = false
  const close = (): void => {
    if (!isReleased) client.release(true)
    isReleased = true
  }
  signal?.addEventListener('abort', close)
  try {
    // An abort during the connect has no listener yet.
    signal?.throwIfAborted()
    await client.query(`select set_config(name, '0', false) from pg_settings where name = any ($1)`, [limits])
    await lock(client, log)
    await bringForward(client, { migrations, log })
    return await afterwards()
  } catch (error) {
    signal?.throwIfAborted()
    throw error
  } finally {
    signal?.removeEventListener('abort', close)
    // Not returned to the pool: this session has its own limits, and the lock.
    close()
  }
}

async function lock(client: PoolClient, log: Log): Promise<void> {
  const attempt = await client.query<{ locked: boolean }>('select pg_try_advisory_lock($1) as locked', [lockNumber])
  if (attempt.rows[0]?.locked === true) return
  log.info('another controller migrates the database; waiting')
  await withoutLimits(client, `select pg_advisory_lock(${lockNumber})`)
}

async function bringForward(client: PoolClient, { migrations, log }: { migrations: readonly Migration[]; log: Log }): Promise<void> {
  await client.query(`
    create table if not exists schema_migrations (
      version integer primary key,
      name text not null,
      checksum text not null,
      applied_at timestamptz not null default now()
    )`)
  const { rows: applied } = await client.query<AppliedMigration>('select version, name, checksum from schema_migrations order by version')
  verify(applied, migrations)
  if (applied.length > migrations.length) {
    log.info('database is newer than this controller', { known: migrations.length, applied: applied.length })
  }
  for (const migration of migrations.slice(applied.length)) {
    await apply(client, migration)
    log.info('database migrated', { version: migration.version, name: migration.name })
  }
}

function verify(applied: readonly AppliedMigration[], migrations: readonly Migration[]): void {
  if (isBeforeFirstRelease(applied, migrations))
    throw new Error(
      'this database was made by a development version of Muster, before the first release, and cannot be upgraded. ' +
        'Start with an empty one: stop the controllers, then move the data directory away (embedded PostgreSQL), or create a new database ' +
        'and pass its URL with --database-url. Workers join the new cluster with its join token',
    )
  for (const [index, row] of applied.entries()) {
    if (row.version !== index + 1)
      throw new Error(`the database lacks migration ${index + 1} but has ${row.version}: schema_migrations was changed by hand`)
    const known = migrations[index]
    if (known !== undefined && known.checksum !== row.checksum) {
      throw new Error(
        `migration ${row.version} (${row.name}) was applied to this database with another content than ${known.name} has now. ` +
          'Released migrations are never changed: restore the file, or use the Muster version that this database was made with',
      )
    }
  }
}

/** The first migration was named `foundation`; the early migrations became `init`. */
const isBeforeFirstRelease = (applied: readonly AppliedMigration[], migrations: readonly Migration[]): boolean =>
  applied[0]?.name === 'foundation' && migrations[0]?.name === 'init'

async function apply(client: PoolClient, { version, name, checksum, sql }: Migration): Promise<void> {
  await client.query('begin')
  try {
    const before = await transactionId(client)
    await withoutLimits(client, sql)
    if ((await transactionId(client)) !== before) throw new Error('it ends its own transaction, so it could be applied in part')
    await client.query('insert into schema_migrations (version, name, checksum) values ($1, $2, $3)', [version, name, checksum])
    await client.query('commit')
  } catch (error) {
    await client.query('rollback').catch(() => {}) // The connection may have failed.
    const reason = error instanceof Error ? error.message : String(error)
    throw new Error(`migration ${version} (${name}) failed: ${reason}`, { cause: error })
  }
}

async function transactionId(client: PoolClient): Promise<string | undefined> {
  return (await client.query<{ id: string }>('select pg_current_xact_id()::text as id')).rows[0]?.id
}

async function withoutLimits(client: PoolClient, sql: string): Promise<void> {
  const query = { text: sql, query_timeout: noTimeoutMs } // Missing in the types of pg.
  await client.query(query)
}

// The migrations of this version: SQL files with a number and a name, never edited after a release.

type Migration = Readonly<{ version: number; name: string; checksum: string; sql: string }>

/** Ordered by number, from 1 without gaps. */
async function readMigrations(directory: string): Promise<readonly Migration[]> {
  const files = (await readdir(directory)).filter((file) => file.endsWith('.sql')).toSorted()
  return Promise.all(
    files.map(async (file, index) => {
      const [, digits, name] = /^(\d{4})_([a-z0-9_]+)\.sql$/.exec(file) ?? []
      if (digits === undefined || name === undefined)
        throw new Error(`${join(directory, file)}: a migration is named like 0007_what_it_does.sql`)
      const version = Number(digits)
      if (version !== index + 1)
        throw new Error(`${join(directory, file)}: the next migration has the number ${String(index + 1).padStart(4, '0')}`)
      const sql = await readFile(join(directory, file), 'utf8')
      return { version, name, checksum: createHash('sha256').update(sql).digest('hex'), sql }
    }),
  )
}
