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
  /** Every transaction with a smaller id had ended when this was read. */
  readonly xmin: bigint
  /**
   * Drawn after the changes were looked at, so larger than that of any transaction that drew one of
   * their numbers, or a smaller one. Null when there was nothing to look at. (Not the snapshot's own
   * upper bound: PostgreSQL counts that from the last transaction that *ended*, not from the last begun.)
   */
  readonly xid: bigint | null
  /** Of what was deleted up to here nothing is known any more. */
  readonly floor: number
  readonly last: number
}

interface Row {
  readonly kind: string | null
  readonly id: string
  readonly seq: number
  readonly deleted: boolean
  readonly xmin: string
  readonly xid: string | null
  readonly floor: number
  readonly last: number
}

export class ChangeStore {
  readonly #db: Kysely<Database>

  constructor(db: Kysely<Database>) {
    this.#db = db
  }

  /** Everything that changed after `seq`, and how far it can be trusted, in one snapshot. */
  async readSince(seq: number): Promise<ChangeRead> {
    const { rows } = await sql<Row>`
      select c.kind, c.id, c.seq, c.deleted, s.xmin, s.floor, s.last, case when c.kind is not null then pg_current_xact_id()::text end as xid
      from (
        select pg_snapshot_xmin(pg_current_snapshot())::text as xmin, f.seq as floor, greatest((select max(seq) from changes), f.seq) as last
        from change_floor f
      ) s left join changes c on c.seq > ${seq} order by c.seq`.execute(this.#db)
    const [first] = rows
    if (first === undefined) throw new Error('change_floor has always one row')
    return {
      changes: rows.flatMap((row) => (row.kind === null ? [] : [{ kind: row.kind, id: row.id, seq: row.seq, deleted: row.deleted }])),
      xmin: BigInt(first.xmin),
      xid: first.xid === null ? null : BigInt(first.xid),
      floor: first.floor,
      last: first.last,
    }
  }

  async floor(): Promise<number> {
    const row = await this.#db.selectFrom('change_floor').select('seq').executeTakeFirstOrThrow()
    return row.seq
  }

  async forgetDeleted(olderThanMs: number): Promise<void> {
    await sql`
      with gone as (delete from changes where deleted and at < now() - make_interval(secs => ${olderThanMs / 1000}) returning seq)
      update change_floor set seq = greatest(change_floor.seq, (select max(seq) from gone)) where exists (select 1 from gone)`.execute(
      this.#db,
    )
  }
}
