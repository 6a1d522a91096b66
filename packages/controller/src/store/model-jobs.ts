// Open operations about models, with the facts that decide their next step. Each one is read and written under its lock, so a
// controller never writes an outdated decision.
import { ModelName, NodeId, OperationId, Scheduling } from '@muster/protocol'
import { sql, type Kysely, type Transaction } from 'kysely'
import { LoadBriefs, loadsOf, type LoadBrief } from './load-rows.ts'
import {
  ModelOperationStore,
  type JobProgress,
  type ModelOperationKind,
  type Outcome,
  type SettledNode,
  type ShownNode,
} from './model-operations.ts'
import { cancelRemovals, insertRemovals } from './model-removals.ts'
import { askFor, ensureLoads } from './model-submissions.ts'
import { lockModel } from './models.ts'
import { hurryNodeLoad, stageOn } from './node-models.ts'
import { endPause, isPaused, updatePausedStage } from './paused-work.ts'
import type { CancelResult, RetryResult } from './reopen.ts'
import { retryConflicts } from './errors.ts'
import type { Database } from './tables.ts'
import { remember, type IdempotencyKey } from './submissions.ts'

type Tx = Transaction<Database>

export interface Job {
  readonly id: OperationId
  readonly kind: ModelOperationKind
  /** The name of the model, which may be deleted. */
  readonly name: ModelName
  readonly cancelRequested: boolean
  /** The number of replicas of a `model.load`. */
  readonly replicas: number
  /** The only node of a load, an unload or a deletion; null: it concerns the whole model. */
  readonly nodeId: NodeId | null
  /** Null: the model was deleted. */
  readonly model: Readonly<{ isUnloaded: boolean; requestedReplicas: number; scheduling: Scheduling }> | null
  readonly loads: readonly LoadBrief[]
  /** The nodes of the operation. `shown`: the status of an open one. */
  readonly nodes: readonly Readonly<{ id: NodeId; status: string; shown: string | null }>[]
  /** Nodes on which replicas from before the operation still run. */
  readonly leftOn: readonly NodeId[]
}

export interface Verdict {
  readonly show: readonly Readonly<{ nodeId: NodeId; shown: ShownNode }>[]
  readonly settle: readonly Readonly<{ nodeId: NodeId; settled: SettledNode }>[]
  readonly progress?: JobProgress
  readonly end?: Readonly<{ outcome: Outcome; message: string }>
  /** Workers that have to stop fetching the files. */
  readonly callOff?: readonly CallOff[]
}

export type CallOff = Readonly<{ nodeId: NodeId; opId: OperationId }>

interface JobRow {
  readonly id: string
  readonly kind: ModelOperationKind
  readonly name: string
  readonly cancel_requested: boolean
  readonly replicas: number
  readonly node_id: string | null
  readonly exists: boolean
  readonly is_unloaded: boolean | null
  readonly requested_replicas: number | null
  readonly scheduling: unknown
  readonly loads: unknown
  readonly nodes: readonly { id: string; status: string; shown: string | null }[]
  readonly left_on: readonly string[]
}

export class ModelJobStore {
  readonly #db: Kysely<Database>

  constructor(db: Kysely<Database>) {
    this.#db = db
  }

  /**
   * Operations that may have a next step. Leaves out deletions that wait for absent nodes, perhaps for weeks: their last node
   * ends them; and prefetches all of whose loads wait.
   */
  async open(): Promise<OperationId[]> {
    const { rows } = await sql<{ id: string }>`
      select o.id from operations o where o.finished_at is null and o.model is not null
        and (o.kind <> 'model.delete' or not exists (select from operation_nodes n where n.operation_id = o.id and n.status = 'open'))
        and (o.kind <> 'model.prefetch' or o.cancel_requested or exists (
          select from operation_nodes n left join loads l on l.model = o.model and l.purpose = 'stage' and l.pinned_node_id = n.node_id
          where n.operation_id = o.id and n.status = 'open' and (l.state is null or l.state <> 'waiting' or n.shown <> 'queued'))
          or not exists (select from operation_nodes n where n.operation_id = o.id and n.status = 'open'))
      order by o.created_at`.execute(this.#db)
    return rows.map((row) => OperationId.parse(row.id))
  }

  /** Stores the verdict. The caller sends the command to the worker. */
  async advance(id: OperationId, decide: (job: Job) => Verdict): Promise<readonly CallOff[]> {
    return await retryConflicts(() =>
      this.#db.transaction().execute(async (tx) => {
        const job = await lockJob(tx, id)
        if (job === null) return []
        const verdict = decide(job)
        await write(tx, job, verdict)
        return verdict.callOff ?? []
      }),
    )
  }

  /** The worker has stopped fetching, or is absent; the files on its disk stay. */
  async calledOff(id: OperationId, nodeId: NodeId): Promise<void> {
    await retryConflicts(() =>
      this.#db.transaction().execute(async (tx) => {
        const job = await lockJob(tx, id)
        if (job?.cancelRequested !== true) return
        if (job.kind === 'model.prefetch') await settle(tx, job, nodeId, { status: 'cancelled', message: 'cancelled' })
        else await endWith(tx, job, { outcome: 'cancelled', message: 'cancelled' })
      }),
    )
  }

  async cancel(id: OperationId, once: IdempotencyKey | null): Promise<CancelResult> {
    return await this.#inTurn({ id, once }, async (tx, { kind, model }) => {
      const job = await lockJob(tx, id)
      if (job === null) return 'already_finished'
      await endPause(tx, id, { backend: null, model })
      if (kind === 'model.load') await askForReady(tx, model)
      // The configuration is already deleted; files that were not deleted yet stay.
      if (kind === 'model.delete') await cancelRemovals(tx, { operationId: id }, 'cancelled: the files stay on the node')
      // A worker that fetches the files has to stop first.
      if (isStaging(job)) {
        await tx.updateTable('operations').set({ cancel_requested: true }).where('id', '=', id).execute()
        await sql`select record_change('operation', ${id}, false)`.execute(tx)
      } else await endWith(tx, job, { outcome: 'cancelled', message: 'cancelled' })
      return 'done'
    })
  }

  /** Starts the failed part again, on all nodes or on one. While the operation is open, the next attempts are due at once. */
  async retry({ id, nodeId }: { id: OperationId; nodeId: NodeId | null }, once: IdempotencyKey | null): Promise<RetryResult> {
    return await this.#inTurn({ id, once }, async (tx, { kind, model, outcome }) => {
      if (outcome === null) return await hurry(tx, { id, kind, model, nodeId })
      if (outcome !== 'failed') return 'nothing_failed'
      const failed = await failedNodes(tx, id, nodeId)
      if (kind === 'model.delete') return await retryDelete(tx, { id, model, failed })
      if (nodeId !== null && failed.length === 0) return 'nothing_failed'
      const { replicas, exists, node_id: only } = await readJob(tx, id)
      if (!exists) return 'superseded'
      if (kind === 'model.prefetch') return await retryPrefetch(tx, { id, model, failed })
      if (only !== null && (await hurryNodeLoad(tx, { model, nodeId: only })) === 0) return 'superseded'
      await reopen(tx, id)
      await tx.deleteFrom('operation_nodes').where('operation_id', '=', id).where('status', '=', 'error').execute()
      if (only !== null) return 'done'
      if (kind === 'model.load') await askFor(tx, model, replicas)
      await ensureLoads(tx, { model, purpose: kind === 'model.load' ? 'serve' : 'stage', count: replicas, operationId: id })
      return 'done'
    })
  }

  async #inTurn<T>(
    { id, once }: { id: OperationId; once: IdempotencyKey | null },
    work: (tx: Tx, about: { kind: ModelOperationKind; model: ModelName; outcome: string | null }) => Promise<T>,
  ): Promise<T | 'unknown'> {
    return await retryConflicts(() =>
      this.#db.transaction().execute(async (tx) => {
        const { rows } = await sql<{ kind: ModelOperationKind; model: string; outcome: string | null }>`
          select kind, model, outcome from operations where id = ${id} and model is not null`.execute(tx)
        const [row] = rows
        if (row === undefined) return 'unknown'
        const model = ModelName.parse(row.model)
        await lockModel(tx, model)
        const outcome = await work(tx, { ...row, model })
        if (outcome === 'done' && once !== null) await remember(tx, { ...once, status: 202, response: {} })
        return outcome
      }),
    )
  }
}

/** Null when the operation has ended. */
async function lockJob(tx: Tx, id: OperationId): Promise<Job | null> {
  const { rows } = await sql`select from operations where id = ${id} and finished_at is null and model is not null for update`.execute(tx)
  if (rows.length === 0) return null
  const row = await readJob(tx, id)
  return {
    id,
    kind: row.kind,
    name: ModelName.parse(row.name),
    cancelRequested: row.cancel_requested,
    replicas: row.replicas,
    nodeId: row.node_id === null ? null : NodeId.parse(row.node_id),
    model: row.exists
      ? {
          isUnloaded: row.is_unloaded ?? false,
          requestedReplicas: row.requested_replicas ?? 0,
          scheduling: Scheduling.parse(row.scheduling ?? {}),
        }
      : null,
    loads: LoadBriefs.parse(row.loads),
    nodes: row.nodes.map(({ id: nodeId, ...node }) => ({ ...node, id: NodeId.parse(nodeId) })),
    leftOn: row.left_on.map((node) => NodeId.parse(node)),
  }
}

async function readJob(tx: Tx, id: OperationId): Promise<JobRow> {
  const { rows } = await sql<JobRow>`
    select o.id, o.kind, o.model as name, o.cancel_requested, coalesce((o.options ->> 'replicas')::int, 1) as replicas, o.options ->> 'node_id' as node_id, m.name is not null as exists, m.is_unloaded, m.requested_replicas,
      m.config -> 'scheduling' as scheduling,
      (${loadsOf(sql`m.name`)}) as loads,
      coalesce((select jsonb_agg(jsonb_build_object('id', n.node_id, 'status', n.status, 'shown', n.shown) order by n.node_id)
        from operation_nodes n where n.operation_id = o.id), '[]') as nodes,
      coalesce((select array_agg(distinct r.node_id order by r.node_id) from replicas r
        where r.model = o.model and r.state <> 'exited' and r.created_at <= o.created_at), '{}') as left_on
    from operations o left join models m on m.name = o.model where o.id = ${id}`.execute(tx)
  const [row] = rows
  if (row === undefined) throw new Error(`operation ${id} was locked and is gone`)
  return row
}

async function write(tx: Tx, job: Job, { show, settle: settled, progress, end }: Verdict): Promise<void> {
  const operations = new ModelOperationStore(tx)
  for (const { nodeId, shown } of show) await operations.showNode(job.id, nodeId, shown)
  for (const each of settled) await settle(tx, job, each.nodeId, each.settled)
  if (progress !== undefined) await operations.progress(job.id, progress)
  if (end !== undefined) await endWith(tx, job, end)
}

/** The load of a prefetch ends with its node. */
async function settle(tx: Tx, { id, kind }: Job, nodeId: NodeId, settled: SettledNode): Promise<void> {
  if (kind === 'model.prefetch')
    await tx
      .deleteFrom('loads')
      .where('operation_id', '=', id)
      .where('purpose', '=', 'stage')
      .where('pinned_node_id', '=', nodeId)
      .execute()
  await new ModelOperationStore(tx).settleNode(id, nodeId, settled)
}

/** A worker fetches files for it. */
const isStaging = ({ id, kind, loads }: Job): boolean =>
  loads.some(
    (load) =>
      load.purpose === 'stage' &&
      load.state === 'starting' &&
      (kind === 'model.install' ? load.pin === null : kind === 'model.prefetch' && load.operationId === id),
  )

async function endWith(tx: Tx, { id, kind, name: model }: Job, { outcome, message }: NonNullable<Verdict['end']>): Promise<void> {
  await new ModelOperationStore(tx).finish(id, outcome, message)
  if (kind === 'model.prefetch') await tx.deleteFrom('loads').where('operation_id', '=', id).where('purpose', '=', 'stage').execute()
  // A stage load is done when the files are present. Other operations that wait for it have the same end; they are decided first.
  if (kind === 'model.install')
    await sql`delete from loads l using operations o where o.id = ${id} and l.model = o.model and l.purpose = 'stage' and l.pinned_node_id is null
      and not exists (select from operations p where p.model = o.model and p.kind = 'model.install' and p.finished_at is null)`.execute(tx)
  if (kind === 'model.install') await updatePausedStage(tx, model)
}

/** Keeps the ready replicas and gives up those that are still loading. */
async function askForReady(tx: Tx, model: ModelName): Promise<void> {
  await sql`
    update models m set requested_replicas = least(m.requested_replicas, (select count(*) from loads l where l.model = m.name and l.purpose = 'serve' and l.state = 'ready')::int),
      updated_at = now()
    where m.name = ${model}`.execute(tx)
}

interface HurriedJob {
  readonly id: OperationId
  readonly kind: ModelOperationKind
  readonly model: ModelName
  readonly nodeId: NodeId | null
}

/** Makes the next attempts due at once; attempts and failures stay. */
async function hurry(tx: Tx, { id, kind, model, nodeId }: HurriedJob): Promise<'done' | 'nothing_failed' | 'paused'> {
  if (await isPaused(tx, id)) return 'paused'
  if (kind === 'model.unload') return 'nothing_failed'
  const isThere = sql`(${nodeId}::text is null or node_id = ${nodeId})`
  const waiting =
    kind === 'model.delete'
      ? sql`update model_removals set next_at = now()
          where operation_id = ${id} and last_failure is not null and next_at > now() and lease_until is null and ${isThere}`
      : sql`update loads set next_at = now(), row_version = row_version + 1
          where model = ${model} and ${isLoadOf({ id, kind })} and state = 'failed' and next_at > now()
            and (${isThere} or pinned_node_id = ${nodeId})`
  const { numAffectedRows = 0n } = await waiting.execute(tx)
  if (numAffectedRows === 0n) return 'nothing_failed'
  await sql`update operation_nodes set next_retry_at = now()
    where operation_id = ${id} and status = 'open' and next_retry_at > now() and ${isThere}`.execute(tx)
  await sql`select record_change('operation', ${id}, false)`.execute(tx)
  return 'done'
}

/** A prefetch has a load for each of its nodes; an install shares one, which any node may have. */
function isLoadOf({ id, kind }: Pick<HurriedJob, 'id' | 'kind'>) {
  if (kind === 'model.load') return sql`purpose = 'serve'`
  return kind === 'model.prefetch' ? sql`purpose = 'stage' and operation_id = ${id}` : sql`purpose = 'stage' and pinned_node_id is null`
}

async function failedNodes(tx: Tx, id: OperationId, nodeId: NodeId | null): Promise<NodeId[]> {
  const { rows } = await sql<{ node_id: string }>`
    select n.node_id from operation_nodes n where n.operation_id = ${id} and n.status = 'error' and (${nodeId}::text is null or n.node_id = ${nodeId})
    order by n.node_id`.execute(tx)
  return rows.map((row) => NodeId.parse(row.node_id))
}

async function retryDelete(
  tx: Tx,
  { id, model, failed }: { id: OperationId; model: ModelName; failed: readonly NodeId[] },
): Promise<'done' | 'nothing_failed' | 'superseded'> {
  if (failed.length === 0) return 'nothing_failed'
  const { exists, node_id: only } = await readJob(tx, id)
  // The files belong to the model that was created again.
  if (exists && only === null) return 'superseded'
  const { rows } = await sql<{ id: string }>`select id from nodes where id = any(${failed}::text[]) order by id`.execute(tx)
  if (rows.length === 0) return 'superseded'
  await reopen(tx, id)
  const operations = new ModelOperationStore(tx)
  for (const row of rows) await operations.showNode(id, NodeId.parse(row.id), { status: 'queued' })
  await insertRemovals(
    tx,
    { id, model },
    rows.map((row) => ({ id: NodeId.parse(row.id) })),
  )
  return 'done'
}

async function retryPrefetch(
  tx: Tx,
  { id, model, failed }: { id: OperationId; model: ModelName; failed: readonly NodeId[] },
): Promise<'done' | 'nothing_failed' | 'superseded'> {
  if (failed.length === 0) return 'nothing_failed'
  const { rows } = await sql<{ id: string }>`
    select n.id from nodes n where n.id = any(${failed}::text[])
      and not exists (select from loads l where l.model = ${model} and l.purpose = 'stage' and l.pinned_node_id = n.id)
    order by n.id for key share`.execute(tx)
  const nodeIds = rows.map((row) => NodeId.parse(row.id))
  if (nodeIds.length === 0) return 'superseded'
  await reopen(tx, id)
  const operations = new ModelOperationStore(tx)
  for (const nodeId of nodeIds) await operations.showNode(id, nodeId, { status: 'queued' })
  await stageOn(tx, { id, model }, nodeIds)
  return 'done'
}

async function reopen(tx: Tx, id: OperationId): Promise<void> {
  await sql`update operations set outcome = null, message = '', finished_at = null, dismissed_at = null, cancel_requested = false where id = ${id}`.execute(
    tx,
  )
  await sql`select record_change('operation', ${id}, false)`.execute(tx)
}
