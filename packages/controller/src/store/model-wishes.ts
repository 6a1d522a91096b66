// How wishes about models get into the database: what is to be different about the model, its loads and replicas, and the
// operation that shows what comes of it, in one transaction or not at all. The loops do the rest.
import { NodeId, OperationId, type ModelConfig, type ModelName } from '@muster/protocol'
import { sql, type Kysely, type Transaction } from 'kysely'
import { ModelOperationStore, type ModelOperationKind } from './model-operations.ts'
import { insertRemovals } from './model-removals.ts'
import { createModel, lockModel } from './models.ts'
import { retryConflicts } from './retry-conflicts.ts'
import type { Database } from './tables.ts'
import { remember, type IdempotencyKey } from './wishes.ts'

type Tx = Transaction<Database>
export type Once = (IdempotencyKey & { status: number; response: object }) | null

export interface ModelWish {
  readonly id: OperationId
  readonly model: ModelName
  readonly requestedBy: string
}
/** `repeated`: its key was used meanwhile. */
export type Wished = 'done' | 'unknown' | 'repeated'

export class ModelWishStore {
  readonly #db: Kysely<Database>

  constructor(db: Kysely<Database>) {
    this.#db = db
  }

  /** At least `replicas` of it are to be there; whatever failed is tried again at once. */
  async load(wish: ModelWish & { readonly replicas: number }, once: Once): Promise<Wished> {
    return await this.#inTurn(wish, once, async (tx) => {
      if (!(await askFor(tx, wish.model, wish.replicas))) return 'unknown'
      await open(tx, wish, 'model.load', { options: { replicas: wish.replicas } })
      await ensureLoads(tx, { model: wish.model, purpose: 'serve', slots: wish.replicas, operationId: wish.id })
      return 'done'
    })
  }

  /** None of it, until somebody wants it again. The operation is over when every process of now is gone. */
  async unload(wish: ModelWish, once: Once): Promise<Wished> {
    return await this.#inTurn(wish, once, async (tx) => {
      const held = await tx
        .updateTable('models')
        .set({ is_held: true, asked_replicas: 0, updated_at: sql<string>`now()` })
        .where('name', '=', wish.model)
        .executeTakeFirst()
      if (held.numUpdatedRows === 0n) return 'unknown'
      await endOthers(tx, wish, { kind: 'model.load', message: `superseded by operation ${wish.id}` })
      const nodes = await nodesWithReplicas(tx, wish.model)
      await drainReplicas(tx, wish.model)
      await open(tx, wish, 'model.unload', { nodes })
      if (nodes.length === 0) await new ModelOperationStore(tx).finish(wish.id, 'succeeded', 'nothing of it was loaded')
      return 'done'
    })
  }

  /** From now on there is no such model. What nodes have of it goes when they can be asked. */
  async remove(wish: ModelWish, once: Once): Promise<Wished> {
    return await this.#inTurn(wish, once, async (tx) => {
      const { numDeletedRows } = await tx.deleteFrom('models').where('name', '=', wish.model).executeTakeFirst()
      if (numDeletedRows === 0n) return 'unknown'
      await tx.deleteFrom('model_load_info').where('model', '=', wish.model).execute()
      await tx.deleteFrom('model_uploads').where('model', '=', wish.model).execute()
      await drainReplicas(tx, wish.model)
      await endOthers(tx, wish, { kind: null, message: 'the model was deleted' })
      const nodes = await nodesThatMayHaveFiles(tx)
      await open(tx, wish, 'model.delete', { nodes })
      await insertRemovals(tx, wish, nodes)
      if (nodes.length === 0) await new ModelOperationStore(tx).finish(wish.id, 'succeeded', 'no node had anything of it')
      return 'done'
    })
  }

  /** The configuration now, the files on one node as an operation. `differs`: there is another one of that name. */
  async install(wish: ModelWish & { readonly config: ModelConfig; readonly revision: string }, once: Once): Promise<Wished | 'differs'> {
    return await this.#inTurn(wish, once, async (tx) => {
      if ((await createModel(tx, wish.config, wish.revision)) === 'differs') return 'differs'
      await open(tx, wish, 'model.install', { message: 'waiting for a node' })
      if (wish.config.files.length === 0) await new ModelOperationStore(tx).finish(wish.id, 'succeeded', 'it has no files to fetch')
      else await ensureLoads(tx, { model: wish.model, purpose: 'stage', slots: 1, operationId: wish.id })
      return 'done'
    })
  }

  async #inTurn<T extends string>(wish: ModelWish, once: Once, work: (tx: Tx) => Promise<T>): Promise<T | 'repeated'> {
    return await retryConflicts(() =>
      this.#db.transaction().execute(async (tx) => {
        await lockModel(tx, wish.model)
        if (once !== null && !(await remember(tx, once))) return 'repeated'
        const outcome = await work(tx)
        // Nothing was done, so the key was not used either: it may be right later.
        if (outcome !== 'done' && once !== null)
          await tx.deleteFrom('idempotency_keys').where('caller', '=', once.caller).where('key', '=', once.key).execute()
        return outcome
      }),
    )
  }
}

/** False when there is no such model. */
export async function askFor(tx: Tx, model: string, replicas: number): Promise<boolean> {
  const { numAffectedRows = 0n } = await sql`
    update models set asked_replicas = greatest(asked_replicas, ${replicas}::int), is_held = false, used_at = now(), updated_at = now()
    where name = ${model}`.execute(tx)
  return numAffectedRows > 0n
}

/**
 * As many loads as are asked for, under the lowest numbers that are free; those that failed or wait are tried at once, from the
 * beginning. What is under way goes on.
 */
export async function ensureLoads(
  tx: Tx,
  { model, purpose, slots, operationId }: { model: string; purpose: 'serve' | 'stage'; slots: number; operationId: string },
): Promise<void> {
  await sql`
    insert into loads as l (model, purpose, slot, revision, operation_id, state, next_at)
    select m.name, ${purpose}, s.slot, m.revision, ${operationId}, 'waiting', now()
    from models m, lateral (
      select l.slot from loads l where l.model = m.name and l.purpose = ${purpose}
      union all
      (select free.slot from generate_series(0, ${slots}::int * 2 + (select count(*)::int from loads l where l.model = m.name)) free (slot)
      where not exists (select from loads l where l.model = m.name and l.purpose = ${purpose} and l.slot = free.slot) order by free.slot
      limit greatest(0, ${slots}::int - (select count(*)::int from loads l where l.model = m.name and l.purpose = ${purpose})))
    ) s where m.name = ${model} order by s.slot
    on conflict (model, purpose, slot) do update set operation_id = excluded.operation_id, revision = excluded.revision, state = 'waiting',
      next_at = now(), attempts = 0, failure = null, failed_at = null, node_id = null, op_id = null, replica_id = null, sign_at = null,
      holder = null, lease_until = null, phase = null, file_name = '', current_bytes = 0, total_bytes = 0, progress_seq = null,
      row_version = l.row_version + 1
    where l.state in ('waiting', 'failed') or l.purpose = 'stage' and l.state = 'ready'`.execute(tx)
}

type Concerned = readonly Readonly<{ id: NodeId; name: string }>[]
type Opened = Readonly<{ nodes?: Concerned; message?: string; options?: object }>

async function open(tx: Tx, { id, model, requestedBy }: ModelWish, kind: ModelOperationKind, { options, ...more }: Opened): Promise<void> {
  await new ModelOperationStore(tx).open({ id, kind, model, requestedBy, ...more })
  if (options !== undefined)
    await tx
      .updateTable('operations')
      .set({ options: JSON.stringify(options) })
      .where('id', '=', id)
      .execute()
}

/** What was wished of it before and is not over is over now. `kind`: null for all of them. */
async function endOthers(tx: Tx, wish: ModelWish, { kind, message }: { kind: ModelOperationKind | null; message: string }): Promise<void> {
  const others = await tx
    .selectFrom('operations')
    .select('id')
    .where('model', '=', wish.model)
    .where('finished_at', 'is', null)
    .where('id', '<>', wish.id)
    .$if(kind !== null, (query) => query.where('kind', '=', kind ?? 'model.load'))
    .orderBy('id')
    .execute()
  const operations = new ModelOperationStore(tx)
  for (const { id } of others) await operations.finish(OperationId.parse(id), 'cancelled', message)
}

/** They take nothing new, and end when they have answered what they have. */
async function drainReplicas(tx: Tx, model: string): Promise<void> {
  await sql`update replicas set state = 'draining', drain_since = now(), slot = null
    where model = ${model} and state in ('starting', 'ready')`.execute(tx)
}

async function nodesWithReplicas(tx: Tx, model: string): Promise<Concerned> {
  const { rows } = await sql<{ id: string; name: string }>`
    select distinct n.id, n.name from replicas r join nodes n on n.id = r.node_id
    where r.model = ${model} and r.state <> 'exited' order by n.id`.execute(tx)
  return rows.map(concerned)
}

/** Whatever they say they have: one that is away may have more than it said. */
async function nodesThatMayHaveFiles(tx: Tx): Promise<Concerned> {
  const rows = await tx
    .selectFrom('nodes')
    .select(['id', 'name'])
    .where('approved_at', 'is not', null)
    .where('node_type', '=', 'backend')
    // Workers of the original were never sent a model.
    .where(sql<boolean>`'async' = any(features)`)
    .orderBy('id')
    .execute()
  return rows.map(concerned)
}

const concerned = ({ id, name }: { id: string; name: string }): Concerned[number] => ({ id: NodeId.parse(id), name })
