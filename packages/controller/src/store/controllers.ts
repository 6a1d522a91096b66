// Every query about the controllers themselves: so that workers know where to turn, and people what runs.
import { sql, type Kysely } from 'kysely'
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

  /** Everything that changed up to there is what it routes by. False when it has no row yet. */
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
