// Every query about what galleries and registries offered, for the backends that are installed somewhere.
import { sql, type Kysely } from 'kysely'
import type { AvailableBackendsTable, Database } from './tables.ts'

/**
 * `concrete`: the gallery's entry that suits, or the uri for what is in no gallery. `platform`: the kind of node, as
 * `linux/amd64 nvidia-cuda-12`.
 */
export type AvailableBackend = Readonly<Record<Exclude<keyof AvailableBackendsTable, 'checked_at'>, string>>

export type Checked = Readonly<{
  duty: string
  holder: string
  found: readonly AvailableBackend[]
  /** Could not be found out: what was known of them stays. */
  unknown: readonly Pick<AvailableBackend, 'backend' | 'platform'>[]
  report: object
}>

const columns = ['backend', 'concrete', 'platform', 'uri', 'digest', 'version'] as const

export class AvailableStore {
  readonly #db: Kysely<Database>

  constructor(db: Kysely<Database>) {
    this.#db = db
  }

  async list(): Promise<AvailableBackend[]> {
    return await this.#db.selectFrom('available_backends').select(columns).execute()
  }

  /** Makes it what is known, and ends the duty; false, and nothing is changed, when somebody else has that meanwhile. */
  async record({ duty, holder, found, unknown, report }: Checked): Promise<boolean> {
    return await this.#db.transaction().execute(async (tx) => {
      const { rows } = await sql`
        update duties set done_at = now(), report = ${JSON.stringify(report)}::jsonb, holder = null, lease_until = null
        where name = ${duty} and holder = ${holder} and lease_until > now() returning name`.execute(tx)
      if (rows.length === 0) return false
      const before = await tx.selectFrom('available_backends').select(columns).execute()
      const isUnknown = (row: AvailableBackend): boolean =>
        unknown.some(({ backend, platform }) => backend === row.backend && platform === row.platform)
      const gone = before.filter((row) => !isUnknown(row) && !found.some((each) => keyOf(each) === keyOf(row)))
      const changed = found.filter((each) => !before.some((row) => columns.every((column) => row[column] === each[column])))
      for (const { backend, concrete, platform } of gone) {
        await tx
          .deleteFrom('available_backends')
          .where('backend', '=', backend)
          .where('concrete', '=', concrete)
          .where('platform', '=', platform)
          .execute()
      }
      for (const row of changed) {
        await tx
          .insertInto('available_backends')
          .values(row)
          .onConflict((conflict) => conflict.columns(['backend', 'concrete', 'platform']).doUpdateSet({ ...row, checked_at: sql`now()` }))
          .execute()
      }
      // In one order everywhere, so that who changes several does not wait in a circle.
      const names = [...new Set([...gone, ...changed].map(({ backend }) => backend))].toSorted()
      for (const name of names) await sql`select record_change('backend', ${name}, false)`.execute(tx)
      return true
    })
  }
}

const keyOf = ({ backend, concrete, platform }: AvailableBackend): string => JSON.stringify([backend, concrete, platform])
