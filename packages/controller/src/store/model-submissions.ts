// Submits operations about models: the change of the model, its loads and replicas, and the operation itself, in one transaction.
// The loops do the rest.
import { NodeId, OperationId, type ModelConfig, type ModelName } from '@muster/protocol'
import { sql, type Kysely, type Transaction } from 'kysely'
import { ModelOperationStore, type ModelOperationKind } from './model-operations.ts'
import { insertRemovals } from './model-removals.ts'
import { createModel, lockModel } from './models.ts'
import { updatePausedStage } from './paused-work.ts'
import { retryConflicts } from './errors.ts'
import type { Database } from './tables.ts'
import { remember, type IdempotencyKey } from './submissions.ts'

type Tx = Transaction<Database>
export type Once = (IdempotencyKey & { status: number; response: object }) | null

export interface ModelSubmission {
  readonly id: OperationId
  readonly model: ModelName
  readonly requestedBy: string
}
/** `repeated`: the idempotency key was used meanwhile. */
export type SubmitOutcome = 'done' | 'unknown' | 'repeated'

export class ModelSubmissionStore {
  readonly #db: Kysely<Database>

  constructor(db: Kysely<Database>) {
    this.#db = db
  }

  /** Asks for at least this many replicas; failed loads are retried at once. */
  async load(submission: ModelSubmission & { readonly replicas: number }, once: Once): Promise<SubmitOutcome> {
    return await this.#inTurn(submission, once, async (tx) => {
      if (!(await askFor(tx, submission.model, submission.replicas))) return 'unknown'
      await openOperation(tx, submission, 'model.load', { options: { replicas: submission.replicas } })
      await ensureLoads(tx, { model: submission.model, purpose: 'serve', count: submission.replicas, operationId: submission.id })
      return 'done'
    })
  }

  /**
   * Drains all replicas and starts no new ones until a request or a load. The operation ends when every current process has
   * exited.
   */
  async unload(submission: ModelSubmission, once: Once): Promise<SubmitOutcome> {
    return await this.#inTurn(submission, once, async (tx) => {
      const held = await tx
        .updateTable('models')
        .set({ is_unloaded: true, requested_replicas: 0, updated_at: sql<string>`now()` })
        .where('name', '=', submission.model)
        .executeTakeFirst()
      if (held.numUpdatedRows === 0n) return 'unknown'
      await endOthers(tx, submission, { kind: 'model.load', message: `superseded by operation ${submission.id}` })
      const nodes = await nodesWithReplicas(tx, submission.model)
      await drainReplicas(tx, submission.model)
      await openOperation(tx, submission, 'model.unload', { nodes })
      if (nodes.length === 0) await new ModelOperationStore(tx).finish(submission.id, 'succeeded', 'no replicas were running')
      return 'done'
    })
  }

  /** Deletes the model at once. Its files on nodes are removed when the nodes are reachable. */
  async remove(submission: ModelSubmission, once: Once): Promise<SubmitOutcome> {
    return await this.#inTurn(submission, once, async (tx) => {
      const { numDeletedRows } = await tx.deleteFrom('models').where('name', '=', submission.model).executeTakeFirst()
      if (numDeletedRows === 0n) return 'unknown'
      await tx.deleteFrom('model_load_info').where('model', '=', submission.model).execute()
      await tx.deleteFrom('model_uploads').where('model', '=', submission.model).execute()
      await drainReplicas(tx, submission.model)
      await endOthers(tx, submission, { kind: null, message: 'the model was deleted' })
      const nodes = await nodesThatMayHaveFiles(tx)
      await openOperation(tx, submission, 'model.delete', { nodes })
      await insertRemovals(tx, submission, nodes)
      if (nodes.length === 0) await new ModelOperationStore(tx).finish(submission.id, 'succeeded', 'no node had its files')
      return 'done'
    })
  }

  /**
   * Stores the configuration at once and fetches the files on one node as an operation. `differs`: another model has this name.
   */
  async install(
    submission: ModelSubmission & { readonly config: ModelConfig; readonly revision: string; readonly note?: string },
    once: Once,
  ): Promise<SubmitOutcome | 'differs'> {
    return await this.#inTurn(submission, once, async (tx) => {
      if ((await createModel(tx, submission.config, submission.revision)) === 'differs') return 'differs'
      const { note = '' } = submission
      await openOperation(tx, submission, 'model.install', { message: 'waiting for a node', ...(note === '' ? {} : { options: { note } }) })
      if (submission.config.files.length === 0)
        await new ModelOperationStore(tx).finish(submission.id, 'succeeded', 'the model has no files')
      else await ensureLoads(tx, { model: submission.model, purpose: 'stage', count: 1, operationId: submission.id })
      return 'done'
    })
  }

  async #inTurn<T extends string>(submission: ModelSubmission, once: Once, work: (tx: Tx) => Promise<T>): Promise<T | 'repeated'> {
    return await inModelTurn(this.#db, submission, once, work)
  }
}

/** One transaction under the lock of the model. */
export async function inModelTurn<T extends string>(
  db: Kysely<Database>,
  submission: Pick<ModelSubmission, 'model'>,
  once: Once,
  work: (tx: Tx) => Promise<T>,
): Promise<T | 'repeated'> {
  return await retryConflicts(() =>
    db.transaction().execute(async (tx) => {
      await lockModel(tx, submission.model)
      if (once !== null && !(await remember(tx, once))) return 'repeated'
      const outcome = await work(tx)
      // Nothing was done, so the idempotency key stays unused: the same request may succeed later.
      if (outcome !== 'done' && once !== null)
        await tx.deleteFrom('idempotency_keys').where('caller', '=', once.caller).where('key', '=', once.key).execute()
      return outcome
    }),
  )
}

/** False when the model does not exist. */
export async function askFor(tx: Tx, model: string, replicas: number): Promise<boolean> {
  const { numAffectedRows = 0n } = await sql`
    update models set requested_replicas = greatest(requested_replicas, ${replicas}::int), is_unloaded = false, used_at = now(), updated_at = now()
    where name = ${model}`.execute(tx)
  return numAffectedRows > 0n
}

/** Stage loads of a prefetch belong to their node. */
const isUnbound = sql`(l.purpose = 'serve' or l.pinned_node_id is null)`

/**
 * Makes sure that this many loads exist, under the lowest free ordinals. Loads that failed or wait are tried at once, from the
 * beginning. Loads in progress continue.
 */
export async function ensureLoads(
  tx: Tx,
  { model, purpose, count, operationId }: { model: string; purpose: 'serve' | 'stage'; count: number; operationId: string },
): Promise<void> {
  await sql`
    insert into loads as l (model, purpose, ordinal, revision, operation_id, state, next_at)
    select m.name, ${purpose}, s.ordinal, m.revision, ${operationId}, 'waiting', now()
    from models m, lateral (
      select l.ordinal from loads l where l.model = m.name and l.purpose = ${purpose} and ${isUnbound}
      union all
      (select free.ordinal from generate_series(0, ${count}::int * 2 + (select count(*)::int from loads l where l.model = m.name)) free (ordinal)
      where not exists (select from loads l where l.model = m.name and l.purpose = ${purpose} and l.ordinal = free.ordinal) order by free.ordinal
      limit greatest(0, ${count}::int - (select count(*)::int from loads l where l.model = m.name and l.purpose = ${purpose} and ${isUnbound})))
    ) s where m.name = ${model} order by s.ordinal
    on conflict (model, purpose, ordinal) do update set operation_id = excluded.operation_id, revision = excluded.revision, state = 'waiting',
      next_at = now(), attempts = 0, failure = null, failed_at = null, node_id = null, op_id = null, replica_id = null, sign_at = null,
      holder = null, lease_until = null, phase = null, file_name = '', current_bytes = 0, total_bytes = 0, progress_seq = null,
      row_version = l.row_version + 1
    where l.state in ('waiting', 'failed') or l.purpose = 'stage' and l.state = 'ready'`.execute(tx)
  if (purpose === 'stage') await updatePausedStage(tx, model)
}

export type ConcernedNode = Readonly<{ id: NodeId; name: string }>
type ConcernedNodes = readonly ConcernedNode[]
type JobDetails = Readonly<{ nodes?: ConcernedNodes; message?: string; options?: object }>

export async function openOperation(
  tx: Tx,
  { id, model, requestedBy }: ModelSubmission,
  kind: ModelOperationKind,
  { options, ...more }: JobDetails,
): Promise<void> {
  await new ModelOperationStore(tx).open({ id, kind, model, requestedBy, ...more })
  if (options !== undefined)
    await tx
      .updateTable('operations')
      .set({ options: JSON.stringify(options) })
      .where('id', '=', id)
      .execute()
}

/** Ends other open operations of the model; of all kinds when `kind` is null. */
async function endOthers(
  tx: Tx,
  submission: ModelSubmission,
  { kind, message }: { kind: ModelOperationKind | null; message: string },
): Promise<void> {
  const others = await tx
    .selectFrom('operations')
    .select('id')
    .where('model', '=', submission.model)
    .where('finished_at', 'is', null)
    .where('id', '<>', submission.id)
    .$if(kind !== null, (query) => query.where('kind', '=', kind ?? 'model.load'))
    .orderBy('id')
    .execute()
  const operations = new ModelOperationStore(tx)
  for (const { id } of others) await operations.finish(OperationId.parse(id), 'cancelled', message)
}

/** Draining replicas finish their requests, get no new ones, and exit. */
async function drainReplicas(tx: Tx, model: string): Promise<void> {
  await sql`update replicas set state = 'draining', drain_since = now(), ordinal = null
    where model = ${model} and state in ('starting', 'ready')`.execute(tx)
}

async function nodesWithReplicas(tx: Tx, model: string): Promise<ConcernedNodes> {
  const { rows } = await sql<{ id: string; name: string }>`
    select distinct n.id, n.name from replicas r join nodes n on n.id = r.node_id
    where r.model = ${model} and r.state <> 'exited' order by n.id`.execute(tx)
  return rows.map(concerned)
}

/** Regardless of inventories: an absent node may have more than it listed. */
async function nodesThatMayHaveFiles(tx: Tx): Promise<ConcernedNodes> {
  const rows = await tx
    .selectFrom('nodes')
    .select(['id', 'name'])
    .where('approved_at', 'is not', null)
    .where('node_type', '=', 'backend')
    // LocalAI workers never received a model.
    .where(sql<boolean>`'async' = any(features)`)
    .orderBy('id')
    .execute()
  return rows.map(concerned)
}

export const concerned = ({ id, name }: { id: string; name: string }): ConcernedNode => ({ id: NodeId.parse(id), name })
