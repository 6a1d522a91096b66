// What each model was last loaded with: backend and options, by the model's name. Apart from replicas, so that it outlives
// all of them; it goes with the model alone. It is for those who look for a reason: what is started is started from the
// model's own configuration.
import { FleetError } from '@muster/protocol'
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

  /**
   * What each model's newest replica that came up was started with, where that is not what is kept. It asks what is so, and
   * not who heard of it: whoever was killed before it could write lost nothing. A model that is being deleted is waited for,
   * so that nothing of it is left behind.
   */
  async saveNew(): Promise<void> {
    await sql`
      insert into model_load_info as i (model, backend, revision, options)
      select n.model, n.backend, n.revision, n.config from (
        select distinct on (r.model) r.model, r.backend, r.revision, r.config, r.ready_at from replicas r join models o on o.name = r.model
        where r.ready_at is not null and r.created_at >= o.created_at and (r.state <> 'exited' or r.exited_at > now() - interval '5 minutes')
        order by r.model, r.ready_at desc, r.id
      ) n join models m on m.name = n.model left join model_load_info k on k.model = n.model
      where k.model is null or k.updated_at < n.ready_at
        or (k.backend, k.revision, k.options) is distinct from (n.backend, n.revision, n.config)
      order by n.model for key share of m
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
