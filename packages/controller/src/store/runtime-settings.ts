// Settings that administrators changed at run time, with their history, and the settings that live controllers pin.
import { type Kysely, sql } from 'kysely'
import { z } from 'zod'
import type { ChangeDecision, SettingPin, StoredSettings } from '../runtime-settings.pure.ts'
import type { Database } from './tables.ts'

const Pins = z.record(z.string(), z.string()).catch({})

/** A controller without a heartbeat for this long pins nothing. */
const liveWithin = sql`interval '15 seconds'`
/** Changes are made by people; more of them come from a script that runs wild. */
const keptChanges = 10_000

export interface RecordedChange {
  readonly at: string
  readonly flag: string
  readonly changedBy: string
  readonly before: string | null
  readonly after: string | null
}

type Facts = Readonly<{ texts: StoredSettings; pins: readonly SettingPin[] }>

export class RuntimeSettingStore {
  readonly #db: Kysely<Database>

  constructor(db: Kysely<Database>) {
    this.#db = db
  }

  async read(): Promise<StoredSettings> {
    return await readTexts(this.#db)
  }

  async pins(): Promise<SettingPin[]> {
    return await readPins(this.#db)
  }

  /** Decides and writes in one transaction, one request at a time, so that the history has every value that was in effect. */
  async change(changedBy: string, decide: (facts: Facts) => ChangeDecision): Promise<ChangeDecision> {
    return await this.#db.transaction().execute(async (tx) => {
      await sql`lock table runtime_settings in share row exclusive mode`.execute(tx)
      const decision = decide({ texts: await readTexts(tx), pins: await readPins(tx) })
      if (decision.outcome !== 'ok') return decision
      for (const { flag, before, after } of decision.changes) {
        if (after === null) await tx.deleteFrom('runtime_settings').where('flag', '=', flag).execute()
        else
          await tx
            .insertInto('runtime_settings')
            .values({ flag, value: after })
            .onConflict((conflict) => conflict.column('flag').doUpdateSet({ value: after }))
            .execute()
        await tx.insertInto('setting_changes').values({ flag, changed_by: changedBy, value_before: before, value_after: after }).execute()
      }
      await sql`delete from setting_changes where id <= (select max(id) from setting_changes) - ${keptChanges}`.execute(tx)
      return decision
    })
  }

  /** The newest first. */
  async changes(limit: number): Promise<RecordedChange[]> {
    const rows = await this.#db.selectFrom('setting_changes').selectAll().orderBy('id', 'desc').limit(limit).execute()
    return rows.map((row) => ({ at: row.at, flag: row.flag, changedBy: row.changed_by, before: row.value_before, after: row.value_after }))
  }
}

async function readTexts(db: Kysely<Database>): Promise<StoredSettings> {
  const rows = await db.selectFrom('runtime_settings').select(['flag', 'value']).execute()
  return new Map(rows.map(({ flag, value }) => [flag, value]))
}

async function readPins(db: Kysely<Database>): Promise<SettingPin[]> {
  const rows = await db
    .selectFrom('controllers')
    .select(['url', 'pinned_settings'])
    .where('last_seen_at', '>', sql<string>`now() - ${liveWithin}`)
    .orderBy('started_at')
    .execute()
  return rows.flatMap(({ url, pinned_settings: pinned }) =>
    Object.entries(Pins.parse(pinned)).map(([flag, from]) => ({ flag, from, controller: url })),
  )
}
