// Submits operations about a model on chosen nodes: unload, load and delete on one node, and prefetches. One transaction each,
// under the locks of the model and of the node: a replica that is being placed there is either seen here, or sees the unload.
import { ModelName, NodeId, OperationId, Scheduling } from '@muster/protocol'
import { sql, type Kysely, type Transaction } from 'kysely'
import { type LoadBrief, LoadBriefs, loadsOf } from './load-rows.ts'
import { maximum } from './loads.ts'
import { ModelOperationStore } from './model-operations.ts'
import { cancelRemovals, insertRemovals } from './model-removals.ts'
import {
  concerned,
  type ConcernedNode,
  inModelTurn,
  type ModelSubmission,
  type Once,
  openOperation,
  type SubmitOutcome,
} from './model-submissions.ts'
import type { Database } from './tables.ts'

type Tx = Transaction<Database>

export interface NodeSubmission extends ModelSubmission {
  readonly nodeId: NodeId
}

/** The state of a model that decides about a load on one node. */
export interface NodeLoadFacts {
  readonly scheduling: Scheduling
  readonly requestedReplicas: number
  readonly isUnloaded: boolean
  readonly loads: readonly Pick<LoadBrief, 'purpose' | 'ordinal' | 'state' | 'nodeId' | 'pin'>[]
}

export type NodeLoadDecision =
  /** A replica runs there, or is on its way. */
  | Readonly<{ do: 'hurry' }>
  | Readonly<{ do: 'add'; requestedReplicas: number }>
  /** This load has no node yet, and gets this one. */
  | Readonly<{ do: 'repin'; ordinal: number }>
  /** The model may not have more replicas. */
  | Readonly<{ do: 'refuse'; max: number }>

export type PrefetchNode = ConcernedNode & Readonly<{ skip: string | null }>
export type NodeOutcome = SubmitOutcome | 'unknown_node'

export class NodeModelStore {
  readonly #db: Kysely<Database>

  constructor(db: Kysely<Database>) {
    this.#db = db
  }

  /** Drains the replicas of one node. Their demand is dropped as far as the minimum of the model allows. */
  async unload(submission: NodeSubmission, once: Once): Promise<NodeOutcome> {
    return await inModelTurn(this.#db, submission, once, async (tx) => {
      const found = await lockTarget(tx, submission)
      if (typeof found === 'string') return found
      const isRunning = await unloadOn(tx, submission)
      await openOperation(tx, submission, 'model.unload', { nodes: [found], options: { node_id: submission.nodeId } })
      if (!isRunning) await new ModelOperationStore(tx).finish(submission.id, 'succeeded', `no replicas were running on ${found.name}`)
      return 'done'
    })
  }

  /** Ends an unload of this node, and makes sure that a load is there. Null: the model may not have more replicas. */
  async load(
    submission: NodeSubmission,
    decide: (facts: NodeLoadFacts) => NodeLoadDecision,
    once: Once,
  ): Promise<NodeOutcome | Extract<NodeLoadDecision, { do: 'refuse' }>> {
    let refusal: Extract<NodeLoadDecision, { do: 'refuse' }> | null = null
    const outcome = await inModelTurn(this.#db, submission, once, async (tx): Promise<NodeOutcome | 'refused'> => {
      const found = await lockTarget(tx, submission)
      if (typeof found === 'string') return found
      const facts = await readFacts(tx, submission.model)
      const decision = decide(facts)
      refusal = decision.do === 'refuse' ? decision : null
      if (decision.do === 'refuse') return 'refused'
      await keepFiles(tx, submission, 'the model was loaded on the node again')
      await tx.deleteFrom('node_unloads').where('model', '=', submission.model).where('node_id', '=', submission.nodeId).execute()
      await openOperation(tx, submission, 'model.load', { nodes: [found], options: { node_id: submission.nodeId } })
      await demandOn(tx, submission, decision)
      return 'done'
    })
    if (outcome !== 'refused') return outcome
    if (refusal === null) throw new Error('a refused load has its reason')
    return refusal
  }

  /** Unloads the model on one node and deletes its files there, when the node is reachable. The model stays. */
  async remove(submission: NodeSubmission, once: Once): Promise<NodeOutcome> {
    return await inModelTurn(this.#db, submission, once, async (tx) => {
      const found = await lockTarget(tx, submission)
      if (typeof found === 'string') return found
      await unloadOn(tx, submission)
      await endPrefetch(tx, submission, [submission.nodeId])
      await keepFiles(tx, submission, `superseded by operation ${submission.id}`)
      await openOperation(tx, submission, 'model.delete', { nodes: [found], options: { node_id: submission.nodeId } })
      await insertRemovals(tx, submission, [found])
      return 'done'
    })
  }

  /** Stages the files on these nodes. A newer prefetch takes over the nodes of an older one. */
  async prefetch(submission: ModelSubmission & { readonly nodes: readonly PrefetchNode[] }, once: Once): Promise<SubmitOutcome> {
    return await inModelTurn(this.#db, submission, once, (tx) => prefetchOn(tx, submission))
  }

  /**
   * Prefetches for a worker's setting what was not prefetched for it before. False: another controller was first, or the model
   * has changed.
   */
  async prefetchOnce(submission: NodeSubmission & { readonly nodeName: string; readonly revision: string }): Promise<boolean> {
    const { model, nodeId, nodeName, revision } = submission
    const outcome = await inModelTurn(this.#db, submission, null, async (tx) => {
      const { rows } = await sql`
        insert into node_prefetches as p (node_id, model, revision)
        select n.id, m.name, m.revision from nodes n, models m where n.id = ${nodeId} and m.name = ${model} and m.revision = ${revision}
        on conflict (node_id, model) do update set revision = excluded.revision where p.revision <> excluded.revision returning p.model`.execute(
        tx,
      )
      return rows.length === 0 ? 'repeated' : await prefetchOn(tx, { ...submission, nodes: [{ id: nodeId, name: nodeName, skip: null }] })
    })
    return outcome === 'done'
  }

  /** Models of workers' settings that were not prefetched yet in their current revision. */
  async wantedPrefetches(limit: number): Promise<Readonly<{ model: ModelName; nodeId: NodeId; nodeName: string; revision: string }>[]> {
    const { rows } = await sql<{ model: string; node_id: string; node_name: string; revision: string }>`
      select m.name as model, n.id as node_id, n.name as node_name, m.revision
      from nodes n, unnest(n.prefetch_models) w (model) join models m on m.name = w.model
      where n.approved_at is not null and n.node_type = 'backend' and 'async' = any(n.features)
        and not exists (select from node_prefetches p where p.node_id = n.id and p.model = m.name and p.revision = m.revision)
        and not exists (select from node_unloads u where u.node_id = n.id and u.model = m.name)
      order by n.id, m.name limit ${limit}`.execute(this.#db)
    return rows.map((row) => ({
      ...{ model: ModelName.parse(row.model), nodeId: NodeId.parse(row.node_id), nodeName: row.node_name, revision: row.revision },
    }))
  }
}

/** Locks the node like a load that places a replica there. */
async function lockTarget(tx: Tx, { model, nodeId }: NodeSubmission): Promise<ConcernedNode | 'unknown' | 'unknown_node'> {
  const { rows } = await sql<{ id: string; name: string }>`select id, name from nodes where id = ${nodeId} for no key update`.execute(tx)
  const known = await sql`select from models where name = ${model}`.execute(tx)
  if (known.rows.length === 0) return 'unknown'
  return rows[0] === undefined ? 'unknown_node' : concerned(rows[0])
}

/** True when processes are left that have to end. */
async function unloadOn(tx: Tx, { id, model, nodeId, requestedBy }: NodeSubmission): Promise<boolean> {
  await sql`
    insert into node_unloads (model, node_id, requested_by) values (${model}, ${nodeId}, ${requestedBy})
    on conflict (model, node_id) do nothing`.execute(tx)
  const { numAffectedRows: dropped = 0n } = await sql`
    delete from loads where model = ${model} and purpose = 'serve' and node_id = ${nodeId} and state in ('installing', 'starting', 'ready')`.execute(
    tx,
  )
  // A load that was to replace a replica there may run on any other node.
  await sql`
    update loads set pinned_node_id = null, next_at = now(), row_version = row_version + 1
    where model = ${model} and purpose = 'serve' and pinned_node_id = ${nodeId} and next_at is not null`.execute(tx)
  await sql`
    update models set requested_replicas = greatest(0, least(requested_replicas, ${maximum}) - ${Number(dropped)}::int), updated_at = now()
    where name = ${model}`.execute(tx)
  await sql`
    update replicas set state = 'draining', drain_since = now(), ordinal = null
    where model = ${model} and node_id = ${nodeId} and state in ('starting', 'ready')`.execute(tx)
  await endLoads(tx, { id, model, nodeId })
  const { rows } = await sql`select from replicas where model = ${model} and node_id = ${nodeId} and state <> 'exited' limit 1`.execute(tx)
  return rows.length > 0
}

/** Ends open loads of the model on this node. */
async function endLoads(tx: Tx, { id, model, nodeId }: Pick<NodeSubmission, 'id' | 'model' | 'nodeId'>): Promise<void> {
  const { rows } = await sql<{ id: string }>`
    select id from operations where model = ${model} and kind = 'model.load' and finished_at is null and options ->> 'node_id' = ${nodeId}
    order by id`.execute(tx)
  const operations = new ModelOperationStore(tx)
  for (const row of rows) await operations.finish(OperationId.parse(row.id), 'cancelled', `superseded by operation ${id}`)
}

const keepFiles = (tx: Tx, { model, nodeId }: NodeSubmission, message: string): Promise<void> =>
  cancelRemovals(tx, { model, nodeId }, message)

async function readFacts(tx: Tx, model: ModelName): Promise<NodeLoadFacts> {
  const { rows } = await sql<{ scheduling: unknown; requested_replicas: number; is_unloaded: boolean; loads: unknown }>`
    select m.config -> 'scheduling' as scheduling, m.requested_replicas, m.is_unloaded, (${loadsOf(sql`m.name`)}) as loads
    from models m where m.name = ${model}`.execute(tx)
  const [row] = rows
  if (row === undefined) throw new Error(`model ${model} was locked and is gone`)
  return {
    scheduling: Scheduling.parse(row.scheduling ?? {}),
    requestedReplicas: row.requested_replicas,
    isUnloaded: row.is_unloaded,
    loads: LoadBriefs.parse(row.loads),
  }
}

async function demandOn(
  tx: Tx,
  { id, model, nodeId }: NodeSubmission,
  decision: Exclude<NodeLoadDecision, { do: 'refuse' }>,
): Promise<void> {
  const requested = decision.do === 'add' ? decision.requestedReplicas : 1
  await sql`
    update models set requested_replicas = greatest(case when is_unloaded then 0 else requested_replicas end, ${requested}::int),
      is_unloaded = false, used_at = now(), updated_at = now() where name = ${model}`.execute(tx)
  if (decision.do === 'add')
    await sql`
      insert into loads (model, purpose, ordinal, revision, operation_id, state, next_at, pinned_node_id)
      select m.name, 'serve', min(free.ordinal), m.revision, ${id}, 'waiting', now(), ${nodeId}
      from models m, generate_series(0, (select count(*)::int from loads l where l.model = ${model})) free (ordinal)
      where m.name = ${model}
        and not exists (select from loads l where l.model = m.name and l.purpose = 'serve' and l.ordinal = free.ordinal)
      group by m.name`.execute(tx)
  else await hurryNodeLoad(tx, { model, nodeId }, decision.do === 'repin' ? decision.ordinal : null)
}

/** Loads that wait for this node, and the repinned one, are tried at once, from the beginning. The number of loads. */
export async function hurryNodeLoad(
  tx: Tx,
  { model, nodeId }: { readonly model: string; readonly nodeId: string },
  repinned: number | null = null,
): Promise<number> {
  const { numAffectedRows = 0n } = await sql`
    update loads set state = 'waiting', pinned_node_id = ${nodeId}, next_at = now(), attempts = 0, failure = null, failed_at = null,
      node_id = null, op_id = null, replica_id = null, sign_at = null, holder = null, lease_until = null, row_version = row_version + 1
    where model = ${model} and purpose = 'serve' and state in ('waiting', 'failed')
      and (pinned_node_id = ${nodeId} or ordinal = ${repinned}::int)`.execute(tx)
  return Number(numAffectedRows)
}

async function prefetchOn(tx: Tx, submission: ModelSubmission & { readonly nodes: readonly PrefetchNode[] }): Promise<SubmitOutcome> {
  const { id, model } = submission
  const row = await tx
    .selectFrom('models')
    .select(sql<number>`jsonb_array_length(config -> 'files')`.as('files'))
    .where('name', '=', model)
    .executeTakeFirst()
  if (row === undefined) return 'unknown'
  const { rows: existing } = await sql<{ id: string }>`
    select id from nodes where id = any(${submission.nodes.map((node) => node.id)}::text[]) for key share`.execute(tx)
  const isThere = new Set(existing.map((node) => node.id))
  const staged = submission.nodes.filter((node) => node.skip === null && isThere.has(node.id))
  const ids = staged.map((node) => node.id)
  await endPrefetch(tx, submission, ids)
  for (const nodeId of ids) await keepFiles(tx, { ...submission, nodeId }, 'the files are fetched again')
  await openOperation(tx, submission, 'model.prefetch', { nodes: staged })
  const operations = new ModelOperationStore(tx)
  for (const node of submission.nodes)
    if (!ids.includes(node.id)) await operations.settleNode(id, node.id, { status: 'skipped', message: node.skip ?? 'node removed' })
  if (row.files === 0) await operations.finish(id, 'succeeded', 'the model has no files')
  else await stageOn(tx, submission, ids)
  return 'done'
}

/** Ordinal 0 is left to an install, whose load may choose its node. */
export async function stageOn(tx: Tx, { id, model }: Pick<ModelSubmission, 'id' | 'model'>, nodeIds: readonly NodeId[]): Promise<void> {
  await sql`
    insert into loads (model, purpose, ordinal, revision, operation_id, state, next_at, pinned_node_id)
    select m.name, 'stage', w.nth + greatest(0, (select max(l.ordinal) from loads l where l.model = m.name and l.purpose = 'stage')),
      m.revision, ${id}, 'waiting', now(), w.id
    from models m, unnest(${nodeIds}::text[]) with ordinality w (id, nth) where m.name = ${model} order by w.nth
    on conflict do nothing`.execute(tx)
}

/** Ends the prefetches of the model on these nodes; a worker that is at work is not stopped, because the files are wanted again. */
async function endPrefetch(tx: Tx, { id, model }: ModelSubmission, nodeIds: readonly NodeId[]): Promise<void> {
  const { rows } = await sql<{ operation_id: string; node_id: string }>`
    delete from loads where model = ${model} and purpose = 'stage' and pinned_node_id = any(${nodeIds}::text[])
    returning operation_id, pinned_node_id as node_id`.execute(tx)
  const operations = new ModelOperationStore(tx)
  for (const row of rows.toSorted((a, b) => (a.operation_id < b.operation_id ? -1 : 1)))
    await operations.settleNode(OperationId.parse(row.operation_id), NodeId.parse(row.node_id), {
      ...{ status: 'cancelled', message: `superseded by operation ${id}` },
    })
}
