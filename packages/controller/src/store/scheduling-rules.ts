// The scheduling rules of a file. They are stored first and applied to models second, each in its own transaction: a controller
// that is killed in between leaves rules that the next start applies. A model that is created later gets its rule at once.
import { type ModelName, Scheduling } from '@muster/protocol'
import { type Kysely, sql, type Transaction } from 'kysely'
import type { Database } from './tables.ts'

export type StoredRule = Readonly<{ model: ModelName; scheduling: Scheduling }>

/**
 * Writes the scheduling and marks the rule, under the lock of the model: a model that is being created has its rule either from
 * its creation or from here. False when the model does not exist.
 */
type ApplyRule = (model: ModelName, scheduling: Scheduling) => Promise<boolean>

export class SchedulingRuleStore {
  readonly #db: Kysely<Database>
  readonly #applyRule: ApplyRule

  constructor(db: Kysely<Database>, applyRule: ApplyRule) {
    this.#db = db
    this.#applyRule = applyRule
  }

  /** Replaces the rules when the content of the file is new. Returns the models whose scheduling was written. */
  async sync({ sha256, rules }: { sha256: string; rules: readonly StoredRule[] }): Promise<{ isNew: boolean; applied: string[] }> {
    const isNew = await this.#replace(sha256, rules)
    const due = await this.#db.selectFrom('scheduling_rules').select('model').where('is_applied', '=', false).orderBy('model').execute()
    const names = new Set(due.map(({ model }) => model))
    const applied: string[] = []
    for (const { model, scheduling } of rules.filter((rule) => names.has(rule.model))) {
      if (await this.#applyRule(model, scheduling)) applied.push(model)
    }
    return { isNew, applied }
  }

  async #replace(sha256: string, rules: readonly StoredRule[]): Promise<boolean> {
    return await this.#db.transaction().execute(async (tx) => {
      const { rows } = await sql`
        insert into scheduling_file as f (sha256) values (${sha256})
        on conflict (one) do update set sha256 = excluded.sha256, applied_at = clock_timestamp() where f.sha256 <> excluded.sha256
        returning one`.execute(tx)
      if (rows.length === 0) return false
      await tx.deleteFrom('scheduling_rules').execute()
      for (const { model, scheduling } of rules)
        await tx
          .insertInto('scheduling_rules')
          .values({ model, scheduling: JSON.stringify(scheduling) })
          .execute()
      return true
    })
  }
}

/** False when the rule was applied meanwhile. The caller holds the lock of the model. */
export async function isRuleDue(tx: Transaction<Database>, model: string): Promise<boolean> {
  const row = await tx.selectFrom('scheduling_rules').select('is_applied').where('model', '=', model).executeTakeFirst()
  return row?.is_applied === false
}

/** The rule for a model that is created now; null: none. The caller holds the lock of the model. From now on the model is its administrator's. */
export async function takeRule(tx: Transaction<Database>, model: string): Promise<Scheduling | null> {
  const row = await tx
    .updateTable('scheduling_rules')
    .set({ is_applied: true })
    .where('model', '=', model)
    .returning('scheduling')
    .executeTakeFirst()
  // A rule that a newer version wrote may be unreadable; the model is created without it.
  return row === undefined ? null : (Scheduling.safeParse(row.scheduling).data ?? null)
}
