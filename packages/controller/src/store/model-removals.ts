// Queries about files of deleted models that nodes have or may have. A row is deleted when its node has confirmed the removal, or
// is removed from the cluster; until then any controller may claim it.
import { ModelName, NodeId, OperationId, type Failure } from '@muster/protocol'
import { sql, type Kysely, type Transaction } from 'kysely'
import { ModelOperationStore } from './model-operations.ts'
import { retryConflicts } from './errors.ts'
import { nodeTakesCommands } from './nodes.ts'
import type { Database } from './tables.ts'

type Tx = Transaction<Database>

export interface Removal {
  readonly nodeId: NodeId
  readonly model: ModelName
  readonly operationId: OperationId
  readonly attempts: number
}

export class ModelRemovalStore {
  readonly #db: Kysely<Database>

  constructor(db: Kysely<Database>) {
    this.#db = db
  }

  /**
   * Claims due removals on reachable nodes; those of absent nodes are due when the node returns. Not while a replica of the model
   * still runs there, because it would lose its files.
   */
  async claim({ holder, leaseMs, limit }: { holder: string; leaseMs: number; limit: number }): Promise<Removal[]> {
    const { rows } = await sql<{ node_id: string; model: string; operation_id: string; attempts: number }>`
      with due as (
        select r.node_id, r.model from model_removals r join nodes n on n.id = r.node_id join node_pulses p on p.node_id = n.id
        where r.next_at <= now() and (r.lease_until is null or r.lease_until < now()) and ${nodeTakesCommands}
          and not exists (select from replicas l where l.node_id = r.node_id and l.model = r.model and l.state <> 'exited')
        order by r.next_at limit ${limit} for update of r skip locked
      )
      update model_removals r set holder = ${holder}, lease_until = now() + make_interval(secs => ${leaseMs / 1000})
      from due where r.node_id = due.node_id and r.model = due.model returning r.node_id, r.model, r.operation_id, r.attempts`.execute(
      this.#db,
    )
    return rows.map((row) => ({
      nodeId: NodeId.parse(row.node_id),
      model: ModelName.parse(row.model),
      operationId: OperationId.parse(row.operation_id),
      attempts: row.attempts,
    }))
  }

  /** The files are removed, or cannot be: deletes the row and settles the node of the operation. */
  async settle(removal: Removal, failure: Failure | null): Promise<void> {
    await this.#inTransaction(async (tx) => {
      if (!(await deleteRow(tx, removal))) return
      const operations = new ModelOperationStore(tx)
      await (failure === null
        ? operations.settleNode(removal.operationId, removal.nodeId, { status: 'success' })
        : operations.settleNode(removal.operationId, removal.nodeId, { status: 'error', attempts: removal.attempts + 1, failure }))
    })
  }

  /** `isCounted`: the removal failed; otherwise the worker did not answer. */
  async putOff(removal: Removal, { failure, inMs, isCounted }: { failure: Failure; inMs: number; isCounted: boolean }): Promise<void> {
    await this.#inTransaction(async (tx) => {
      const { rows } = await sql<{ next_at: string; attempts: number }>`
        update model_removals set attempts = attempts + ${isCounted ? 1 : 0}, last_failure = ${JSON.stringify(failure)}::jsonb,
          next_at = now() + make_interval(secs => ${inMs / 1000}), holder = null, lease_until = null
        where node_id = ${removal.nodeId} and model = ${removal.model} and operation_id = ${removal.operationId} returning next_at, attempts`.execute(
        tx,
      )
      const [row] = rows
      if (row === undefined) return
      await new ModelOperationStore(tx).showNode(
        removal.operationId,
        removal.nodeId,
        isCounted
          ? { status: 'error', message: failure.message, attempts: row.attempts, nextRetryAt: row.next_at, failure }
          : { status: 'queued', message: failure.message, attempts: row.attempts },
      )
    })
  }

  /** Milliseconds until the next removal is due; null if there is none. */
  async nextDue(): Promise<number | null> {
    const { rows } = await sql<{ ms: number | null }>`
      select extract(epoch from min(greatest(r.next_at, coalesce(r.lease_until, r.next_at))) - now())::float8 * 1000 as ms
      from model_removals r join node_pulses p on p.node_id = r.node_id where p.liveness = 'present'`.execute(this.#db)
    return rows[0]?.ms ?? null
  }

  async #inTransaction(work: (tx: Tx) => Promise<void>): Promise<void> {
    await retryConflicts(() => this.#db.transaction().execute(work))
  }
}

async function deleteRow(tx: Tx, { nodeId, model, operationId }: Removal): Promise<boolean> {
  const { numDeletedRows } = await tx
    .deleteFrom('model_removals')
    .where('node_id', '=', nodeId)
    .where('model', '=', model)
    .where('operation_id', '=', operationId)
    .executeTakeFirst()
  return numDeletedRows > 0n
}

export async function insertRemovals(
  tx: Tx,
  { id, model }: { id: OperationId; model: string },
  nodes: readonly Readonly<{ id: NodeId }>[],
): Promise<void> {
  if (nodes.length === 0) return
  await sql`
    insert into model_removals (node_id, model, operation_id)
    select n.id, ${model}, ${id} from unnest(${nodes.map((node) => node.id)}::text[]) n (id) order by 1
    on conflict (node_id, model) do update set operation_id = excluded.operation_id, attempts = 0, last_failure = null, next_at = now(),
      holder = null, lease_until = null`.execute(tx)
}

/** Keeps the files; the operations that wait for their removal get this message. */
export async function cancelRemovals(
  tx: Tx,
  about: { model: string; nodeId?: string } | { operationId: string },
  message: string,
): Promise<void> {
  const which =
    'operationId' in about
      ? sql`operation_id = ${about.operationId}`
      : sql`model = ${about.model} and node_id = coalesce(${about.nodeId ?? null}, node_id)`
  const { rows } = await sql<{ node_id: string; operation_id: string }>`
    delete from model_removals where ${which} returning node_id, operation_id`.execute(tx)
  const operations = new ModelOperationStore(tx)
  for (const row of rows.toSorted((a, b) => (a.operation_id < b.operation_id ? -1 : 1)))
    await operations.settleNode(OperationId.parse(row.operation_id), NodeId.parse(row.node_id), { status: 'cancelled', message })
}
