// Queries about models: their configuration, and the loads and replicas shown with them. A writer holds the lock of the model
// until the end of its transaction, so that two never decide on the same state.
import { type Kysely, sql, type Transaction } from 'kysely'
import { FleetError, ModelConfig, ModelName, type NodeId, type Scheduling } from '@muster/protocol'
import { type LoadBrief, LoadBriefs, loadsOf } from './load-rows.ts'
import { cancelRemovals } from './model-removals.ts'
import { nodeIsReachable } from './nodes.ts'
import { isRuleDue, takeRule } from './scheduling-rules.ts'
import type { Database } from './tables.ts'
import { retryConflicts } from './errors.ts'
import { tryRead } from './readable-rows.ts'

type Tx = Transaction<Database>

export interface ModelRecord {
  readonly name: ModelName
  readonly config: ModelConfig
  readonly revision: string
  readonly backend: string
  readonly requestedReplicas: number
  readonly isUnloaded: boolean
  readonly usedAt: string | null
  /** Ready replicas on reachable nodes, including those of an older revision. */
  readonly ready: number
  readonly loads: readonly LoadBrief[]
}

export type Put =
  | Readonly<{ outcome: 'created' | 'changed' | 'same' }>
  /** `current`: null when the model does not exist. */
  | Readonly<{ outcome: 'revision_conflict'; current: string | null }>

export interface UploadedFile {
  readonly model: ModelName
  readonly filename: string
  readonly digest: string
  readonly size: number
  /** Nodes that stored it. */
  readonly nodes: readonly NodeId[]
}

export class ModelStore {
  readonly #db: Kysely<Database>

  constructor(db: Kysely<Database>) {
    this.#db = db
  }

  async list(): Promise<ModelRecord[]> {
    return await readModels(this.#db, null)
  }

  async listByNames(names: readonly string[]): Promise<ModelRecord[]> {
    return names.length === 0 ? [] : await readModels(this.#db, names)
  }

  async find(name: ModelName): Promise<ModelRecord | null> {
    return (await this.listByNames([name]))[0] ?? null
  }

  /** `expected`: the revision that the caller read; `*` for any existing revision, null for no check. */
  async put(config: ModelConfig, { revision, expected }: { revision: string; expected: string | null }): Promise<Put> {
    return await this.#inTurn(config.name, async (tx) => {
      const current = await revisionIn(tx, config.name)
      const isExpected = expected === null || (expected === '*' ? current !== null : expected === current)
      if (!isExpected) return { outcome: 'revision_conflict', current }
      if (current === null) {
        await insertModel(tx, config, revision)
        return { outcome: 'created' }
      }
      return { outcome: (await changeModel(tx, config, revision)) ? 'changed' : 'same' }
    })
  }

  /**
   * Records an uploaded file; `change` returns the new configuration. The nodes that stored the file count before their next
   * inventory. False when the model does not exist any more.
   */
  async addUpload(file: UploadedFile, change: (config: ModelConfig) => { config: ModelConfig; revision: string }): Promise<boolean> {
    const { model, filename, digest, size, nodes } = file
    return await this.#inTurn(model, async (tx) => {
      const row = await tx.selectFrom('models').select('config').where('name', '=', model).executeTakeFirst()
      if (row === undefined) return false
      const { config, revision } = change(ModelConfig.parse(row.config))
      await changeModel(tx, config, revision)
      await sql`
        insert into model_uploads (model, filename, digest, size_bytes) values (${model}, ${filename}, ${digest}, ${size})
        on conflict (model, filename) do update set digest = excluded.digest, size_bytes = excluded.size_bytes, uploaded_at = now()`.execute(
        tx,
      )
      const kept = JSON.stringify([{ digest, size }])
      await sql`update nodes set files = files || ${kept}::jsonb where id = any(${nodes}::text[]) and not files @> ${kept}::jsonb`.execute(
        tx,
      )
      return true
    })
  }

  /** Inserts the models of a new installation; none when it was initialized before, or has models. */
  async begin(first: readonly Readonly<{ config: ModelConfig; revision: string }>[]): Promise<void> {
    await this.#db.transaction().execute(async (tx) => {
      const { rows } = await sql`
        insert into duties (name, done_at) values ('first models', now()) on conflict do nothing returning name`.execute(tx)
      const used = await sql`select from models union all select from nodes limit 1`.execute(tx)
      if (rows.length === 0 || used.rows.length > 0) return
      for (const { config, revision } of first) await createModel(tx, config, revision)
    })
  }

  /** Does not affect running replicas. False when the model does not exist. */
  async setScheduling(name: ModelName, scheduling: Scheduling): Promise<boolean> {
    return await this.#inTurn(name, (tx) => writeScheduling(tx, name, scheduling))
  }

  /** Writes the scheduling of a rule that is due, and marks the rule as applied with it. False when there is no rule or no model. */
  async applyRule(name: ModelName, scheduling: Scheduling): Promise<boolean> {
    return await this.#inTurn(name, async (tx) => {
      if (!(await isRuleDue(tx, name))) return false
      const isWritten = await writeScheduling(tx, name, scheduling)
      if (isWritten) await takeRule(tx, name)
      return isWritten
    })
  }

  async #inTurn<T>(name: string, work: (tx: Tx) => Promise<T>): Promise<T> {
    return await retryConflicts(() =>
      this.#db.transaction().execute(async (tx) => {
        await lockModel(tx, name)
        return await work(tx)
      }),
    )
  }
}

async function writeScheduling(tx: Tx, name: ModelName, scheduling: Scheduling): Promise<boolean> {
  const { numUpdatedRows } = await tx
    .updateTable('models')
    .set({
      config: sql<string>`jsonb_set(config, '{scheduling}', ${JSON.stringify(scheduling)}::jsonb)`,
      is_unloaded: false,
      requested_replicas: sql<number>`least(requested_replicas, ${mostAsked(scheduling)}::int)`,
      updated_at: sql<string>`now()`,
    })
    .where('name', '=', name)
    .executeTakeFirst()
  await loadEverywhere(tx, name)
  return numUpdatedRows > 0n
}

/** Released at the end of the transaction. */
export async function lockModel(tx: Tx, name: string): Promise<void> {
  await sql`select pg_advisory_xact_lock(hashtextextended(${`model ${name}`}, 0))`.execute(tx)
}

/** Creates the model unless the name is in use. `same`: the existing model has the same revision. The caller holds the lock. */
export async function createModel(tx: Tx, config: ModelConfig, revision: string): Promise<'created' | 'same' | 'differs'> {
  const current = await revisionIn(tx, config.name)
  if (current !== null) return current === revision ? 'same' : 'differs'
  await insertModel(tx, config, revision)
  return 'created'
}

async function revisionIn(tx: Tx, name: string): Promise<string | null> {
  const row = await tx.selectFrom('models').select('revision').where('name', '=', name).executeTakeFirst()
  return row?.revision ?? null
}

async function insertModel(tx: Tx, given: ModelConfig, revision: string): Promise<void> {
  const { name, backend } = given
  const rule = await takeRule(tx, name)
  const config = rule === null || Object.keys(given.scheduling).length > 0 ? given : { ...given, scheduling: rule }
  await tx
    .insertInto('models')
    .values({ name, backend, revision, config: JSON.stringify(config) })
    .execute()
  // Files of a deleted model of this name may belong to the new one.
  await cancelRemovals(tx, { model: name }, 'the model was created again')
}

/** Demand above the maximum is dropped, so that it does not come back when the maximum is raised again. */
function mostAsked({ replicas, min_replicas: min = 0, max_replicas: max = Math.max(1, min) }: Scheduling): number | null {
  return replicas === 'all' || max === 0 ? null : max
}

/** A change of the scheduling ends all unloads on single nodes. */
async function loadEverywhere(tx: Tx, name: string): Promise<void> {
  await tx.deleteFrom('node_unloads').where('model', '=', name).execute()
}

/** False when nothing is different: then nothing is written, and no change is published. */
async function changeModel(tx: Tx, config: ModelConfig, revision: string): Promise<boolean> {
  const { rows } = await sql`
    select from models where name = ${config.name} and config -> 'scheduling' <> ${JSON.stringify(config.scheduling)}::jsonb`.execute(tx)
  if (rows.length > 0) await loadEverywhere(tx, config.name)
  const { numAffectedRows = 0n } = await sql`
    update models m set config = g.config, revision = ${revision}, backend = ${config.backend}, updated_at = now(),
      requested_replicas = least(m.requested_replicas, ${mostAsked(config.scheduling)}::int),
      is_unloaded = m.is_unloaded and m.config -> 'scheduling' = g.config -> 'scheduling'
    from (select ${JSON.stringify(config)}::jsonb as config) g
    where m.name = ${config.name} and m.config <> g.config`.execute(tx)
  return numAffectedRows > 0n
}

// One statement, so that the count of ready replicas agrees with the loads.
async function readModels(db: Kysely<Database>, names: readonly string[] | null): Promise<ModelRecord[]> {
  const { rows } = await sql<Row>`
    select m.name, m.config, m.revision, m.backend, m.requested_replicas, m.is_unloaded, m.used_at, (
      select count(*) from replicas r join nodes n on n.id = r.node_id join node_pulses p on p.node_id = n.id
      where r.model = m.name and r.state = 'ready' and r.checked = 'passed' and ${nodeIsReachable()}
        and (r.incarnation is null or r.incarnation = n.incarnation)
    )::int as ready, (${loadsOf(sql`m.name`)}) as loads
    from models m where ${names}::text[] is null or m.name = any(${names}::text[]) order by m.name collate "C"`.execute(db)
  const read = (row: Row): ModelRecord => ({
    name: ModelName.parse(row.name),
    config: ModelConfig.parse(row.config),
    revision: row.revision,
    backend: row.backend,
    requestedReplicas: row.requested_replicas,
    isUnloaded: row.is_unloaded,
    usedAt: row.used_at,
    ready: row.ready,
    loads: LoadBriefs.parse(row.loads),
  })
  return rows.flatMap((row) => tryRead(() => read(row)) ?? [])
}

interface Row {
  readonly name: string
  readonly config: unknown
  readonly revision: string
  readonly backend: string
  readonly requested_replicas: number
  readonly is_unloaded: boolean
  readonly used_at: string | null
  readonly ready: number
  readonly loads: unknown
}

// The parameters of each model's last load, shown with the model. They outlive its replicas; loads use the model's configuration.

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

  /** The last of concurrent writers wins. */
  async save({ model, backend, revision, options }: Omit<LoadInfo, 'updatedAt'>): Promise<void> {
    if (model === '') throw new FleetError({ code: 'invalid', retry: 'never', message: 'load info needs the name of a model' })
    await sql`
      insert into model_load_info as i (model, backend, revision, options) values (${model}, ${backend}, ${revision}, ${JSON.stringify(options)}::jsonb)
      on conflict (model) do update set backend = excluded.backend, revision = excluded.revision, options = excluded.options,
        updated_at = greatest(clock_timestamp(), i.updated_at)`.execute(this.#db)
  }

  /**
   * Stores the parameters of each model's newest replica that became ready, where they differ. It reads the rows, not events:
   * nothing is lost when a controller is killed. It waits for a concurrent deletion of the model, so that nothing is left behind.
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

  /** Null when the model was never loaded, or is deleted. */
  async find(model: string): Promise<LoadInfo | null> {
    const row = await this.#db.selectFrom('model_load_info').selectAll().where('model', '=', model).executeTakeFirst()
    if (row === undefined) return null
    const { backend, revision, options, updated_at: updatedAt } = row
    return { model, backend, revision, options, updatedAt }
  }
}
