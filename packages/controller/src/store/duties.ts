// Every query about work that one controller at a time does for all. A lease, not a lock: nothing is held while the work
// goes on, and who lost it writes nothing.
import { sql, type Kysely } from 'kysely'
import type { Database } from './tables.ts'

export type Duty = Readonly<{ doneAt: string | null; report: unknown }>

export class DutyStore {
  readonly #db: Kysely<Database>

  constructor(db: Kysely<Database>) {
    this.#db = db
  }

  /** True: it is this holder's until the lease ends. Not when somebody has it, or has done it that recently. */
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
