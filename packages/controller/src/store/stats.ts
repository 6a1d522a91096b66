// Queries about traffic: buckets of ten seconds, to which each controller adds its share.
import type { StatsBucket } from '@muster/protocol'
import { sql, type Kysely } from 'kysely'
import type { Database } from './tables.ts'

/** As many as a chart can show; the newest ones are returned. */
const maxRows = 50_000

export class StatsStore {
  readonly #db: Kysely<Database>

  constructor(db: Kysely<Database>) {
    this.#db = db
  }

  /** Ordered by key on every controller, so that concurrent writers do not deadlock. */
  async add(buckets: readonly StatsBucket[]): Promise<void> {
    if (buckets.length === 0) return
    await sql`
      insert into stats_buckets as b (at, model, node_id, requests, errors, client_errors, overloaded, prompt_tokens, completion_tokens,
        in_flight, duration_ms)
      select * from jsonb_to_recordset(${JSON.stringify(buckets)}::jsonb) as given (at timestamptz, model text, node_id text, requests bigint,
        errors bigint, client_errors bigint, overloaded bigint, prompt_tokens bigint, completion_tokens bigint, in_flight integer, duration_ms bigint)
      order by at, model, node_id
      on conflict (at, model, node_id) do update set requests = b.requests + excluded.requests, errors = b.errors + excluded.errors,
        client_errors = b.client_errors + excluded.client_errors, overloaded = b.overloaded + excluded.overloaded,
        prompt_tokens = b.prompt_tokens + excluded.prompt_tokens, completion_tokens = b.completion_tokens + excluded.completion_tokens,
        in_flight = b.in_flight + excluded.in_flight, duration_ms = b.duration_ms + excluded.duration_ms`.execute(this.#db)
  }

  /** Oldest first. Without `until`: up to now. */
  async list({ since, until }: { since: string; until: string | null }): Promise<StatsBucket[]> {
    const newest = this.#db.selectFrom('stats_buckets').selectAll().where('at', '>=', since)
    const rows = await (until === null ? newest : newest.where('at', '<=', until))
      .orderBy('at', 'desc')
      .orderBy('model')
      .orderBy('node_id')
      .limit(maxRows)
      .execute()
    return rows.toReversed()
  }

  async forget(olderThanMs: number): Promise<void> {
    await sql`delete from stats_buckets where at < now() - make_interval(secs => ${olderThanMs / 1000})`.execute(this.#db)
  }
}
