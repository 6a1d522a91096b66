// What each model was last loaded with: backend and options, by the model's name. Apart from replicas, so that it outlives
// all of them; it goes with the model alone (DESIGN: the reconciler can always start what it started before).
import { FleetError, type ReplicaId } from '@muster/protocol'
import { sql, type Kysely } from 'kysely'
import type { Database } from './tables.ts'

export interface LoadInfo {
  readonly model: string
  readonly backend: string
  readonly revision: string
  /** The configuration that the process was started with. */
  readonly options: unknown
  readonly updatedAt: string
}

export class LoadInfoStore {
  readonly #db: Kysely<Database>

  constructor(db: Kysely<Database>) {
    this.#db = db
  }

  /** Of concurrent writers the last one wins. */
  async save({ model, backend, revision, options }: Omit<LoadInfo, 'updatedAt'>): Promise<void> {
    if (model === '')
      throw new FleetError({ code: 'invalid', retry: 'never', message: 'load info is kept by the name of a model, which is empty' })
    await sql`
      insert into model_load_info as i (model, backend, revision, options) values (${model}, ${backend}, ${revision}, ${JSON.stringify(options)}::jsonb)
      on conflict (model) do update set backend = excluded.backend, revision = excluded.revision, options = excluded.options,
        updated_at = greatest(clock_timestamp(), i.updated_at)`.execute(this.#db)
  }

  /** What this replica was started with. Of a model that was deleted meanwhile nothing is kept. */
  async saveOf(replicaId: ReplicaId): Promise<void> {
    await sql`
      insert into model_load_info as i (model, backend, revision, options)
      select m.name, r.backend, r.revision, r.config from replicas r join models m on m.name = r.model where r.id = ${replicaId}
      on conflict (model) do update set backend = excluded.backend, revision = excluded.revision, options = excluded.options,
        updated_at = greatest(clock_timestamp(), i.updated_at)`.execute(this.#db)
  }

  /** Null when it was never loaded, or is deleted. */
  async find(model: string): Promise<LoadInfo | null> {
    const row = await this.#db.selectFrom('model_load_info').selectAll().where('model', '=', model).executeTakeFirst()
    if (row === undefined) return null
    const { backend, revision, options, updated_at: updatedAt } = row
    return { model, backend, revision, options, updatedAt }
  }
}
