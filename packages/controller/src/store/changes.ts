// Every query about what changed, and since when that is known.
import { sql, type Kysely } from 'kysely'
import type { Database } from './tables.ts'

export interface Change {
  readonly kind: string
  readonly id: string
  readonly seq: number
  readonly deleted: boolean
}
export interface ChangeRead {
  readonly changes: readonly Change[]
  /** Of the snapshot that was read: every transaction below `xmin` had ended, none from `xmax` on was begun. */
  readonly xmin: bigint
  readonly xmax: bigint
}

export class ChangeStore {
  readonly #db: Kysely<Database>

  constructor(db: Kysely<Database>) {
    this.#db = db
  }

  /** Everything that changed after `seq`, in one snapshot. */
  async readSince(seq: number): Promise<ChangeRead> {
    const result = await sql<{ kind: string | null; id: string; seq: number; deleted: boolean; xmin: string; xmax: string }>`
      select c.kind, c.id, c.seq, c.deleted, s.xmin, s.xmax
      from (select pg_snapshot_xmin(pg_current_snapshot())::text as xmin, pg_snapshot_xmax(pg_current_snapshot())::text as xmax) s
      left join changes c on c.seq > ${seq} order by c.seq`.execute(this.#db)
    const first = result.rows[0]
    if (first === undefined) throw new Error('a snapshot has always one row')
    return {
      changes: result.rows.flatMap((row) =>
        row.kind === null ? [] : [{ kind: row.kind, id: row.id, seq: row.seq, deleted: row.deleted }],
      ),
      xmin: BigInt(first.xmin),
      xmax: BigInt(first.xmax),
    }
  }

  /** Where a controller that starts now begins to listen, and the oldest number that can still be asked for. */
  async bounds(): Promise<{ last: number; floor: number }> {
    const result = await sql<{ last: number; floor: number }>`
      select greatest((select max(seq) from changes), f.seq) as last, f.seq as floor from change_floor f`.execute(this.#db)
    const row = result.rows[0]
    return { last: row?.last ?? 0, floor: row?.floor ?? 0 }
  }

  async forgetDeleted(olderThanMs: number): Promise<void> {
    await sql`
      with gone as (delete from changes where deleted and at < now() - make_interval(secs => ${olderThanMs / 1000}) returning seq)
      update change_floor set seq = greatest(change_floor.seq, (select max(seq) from gone)) where exists (select 1 from gone)`.execute(
      this.#db,
    )
  }
}
