// Queries about the controllers: workers need their addresses, and the UI lists them.
import { type Kysely, sql } from 'kysely'
import type { Database } from './tables.ts'

export interface ControllerRecord {
  readonly id: string
  readonly url: string
  readonly version: string
  readonly started_at: string
  readonly last_seen_at: string
}

export class ControllerStore {
  readonly #db: Kysely<Database>

  constructor(db: Kysely<Database>) {
    this.#db = db
  }

  async heartbeat(own: { id: string; url: string; version: string }): Promise<void> {
    await this.#db
      .insertInto('controllers')
      .values(own)
      .onConflict((conflict) => conflict.column('id').doUpdateSet({ last_seen_at: sql<string>`now()`, url: own.url }))
      .execute()
    await sql`delete from controllers where last_seen_at < now() - interval '1 hour'`.execute(this.#db)
  }

  async listLive(withinMs: number): Promise<ControllerRecord[]> {
    return await this.#db
      .selectFrom('controllers')
      .select(['id', 'url', 'version', 'started_at', 'last_seen_at'])
      .where('last_seen_at', '>', sql<string>`now() - make_interval(secs => ${withinMs / 1000})`)
      .orderBy('started_at')
      .orderBy('id')
      .execute()
  }

  /** Records up to which change this controller routes. False when the controller has no row yet. */
  async recordRoutes(id: string, seq: number): Promise<boolean> {
    const { numUpdatedRows } = await this.#db
      .updateTable('controllers')
      .set({ routes_seq: sql<number>`greatest(routes_seq, ${seq})` })
      .where('id', '=', id)
      .executeTakeFirst()
    return numUpdatedRows > 0n
  }

  async remove(id: string): Promise<void> {
    await this.#db.deleteFrom('controllers').where('id', '=', id).execute()
  }

  async databaseInfo(): Promise<{ version: string; now: string }> {
    const result = await sql<{ version: string; now: string }>`select current_setting('server_version') as version, now() as now`.execute(
      this.#db,
    )
    const row = result.rows[0]
    if (row === undefined) throw new Error('select without from has always one row')
    return row
  }
}

// Duties: periodic work that one controller at a time does for all. A duty has a lease, not a lock: nothing is locked while the
// work runs, and a controller that lost the lease writes nothing.

type Duty = Readonly<{ doneAt: string | null; report: unknown }>

export class DutyStore {
  readonly #db: Kysely<Database>

  constructor(db: Kysely<Database>) {
    this.#db = db
  }

  /** True: this holder has the duty until the lease ends. False when another holder has it, or when it was done recently. */
  async take(name: string, { holder, leaseMs, unlessDoneWithinMs }: { holder: string; leaseMs: number; unlessDoneWithinMs: number }) {
    const { rows } = await sql`
      insert into duties (name, holder, lease_until) values (${name}, ${holder}, now() + make_interval(secs => ${leaseMs / 1000}))
      on conflict (name) do update set holder = excluded.holder, lease_until = excluded.lease_until
      where (duties.lease_until is null or duties.lease_until < now() or duties.holder = excluded.holder)
        and (duties.done_at is null or duties.done_at <= now() - make_interval(secs => ${unlessDoneWithinMs / 1000}))
      returning name`.execute(this.#db)
    return rows.length > 0
  }

  async release(name: string, holder: string): Promise<void> {
    await this.#db
      .updateTable('duties')
      .set({ holder: null, lease_until: null })
      .where('name', '=', name)
      .where('holder', '=', holder)
      .execute()
  }

  async read(name: string): Promise<Duty> {
    const row = await this.#db.selectFrom('duties').select(['done_at', 'report']).where('name', '=', name).executeTakeFirst()
    return { doneAt: row?.done_at ?? null, report: row?.report ?? {} }
  }
}

/** A controller that was not seen for this long is gone or disconnected: three rounds of housekeeping. */
const liveMs = 15_000

/**
 * True when every live controller routes by the change `c` (a row of `changes`). A controller that has not reported yet does not.
 * Evaluated once per statement.
 */
export const isCaughtUp = sql`coalesce(c.seq, 0) <= (
  select coalesce(min(k.routes_seq), 9223372036854775807) from controllers k
  where k.last_seen_at > now() - make_interval(secs => ${sql.lit(liveMs / 1000)}))`
