// Writes operations about models. Every write is idempotent: an equal one changes nothing, and an ended operation stays ended.
// Accepts a transaction.
import type { FailureCode, ModelName, NodeId, OperationId, OperationKind, Phase } from '@muster/protocol'
import { sql, type Kysely, type Transaction } from 'kysely'
import type { Database } from './tables.ts'

export type ModelOperationKind = Extract<OperationKind, `model.${string}`>
export type Outcome = 'succeeded' | 'failed' | 'cancelled'

export interface OpenedOperation {
  readonly id: OperationId
  readonly kind: ModelOperationKind
  readonly model: ModelName
  readonly requestedBy: string
  /** The nodes at the beginning; more may be added. */
  readonly nodes?: readonly Readonly<{ id: NodeId; name: string }>[]
  readonly message?: string
}

export interface ShownNode {
  readonly status: 'queued' | 'downloading' | 'running_on_worker' | 'error'
  readonly phase?: Phase | null
  readonly message?: string
  readonly fileName?: string
  readonly current?: number
  readonly total?: number
  readonly attempts?: number
  /** With `error`: the time of the next attempt. */
  readonly nextRetryAt?: string | null
  readonly failure?: Readonly<{ code: FailureCode; message: string }> | null
}

export interface SettledNode {
  readonly status: 'success' | 'error' | 'cancelled' | 'skipped'
  readonly message?: string
  readonly attempts?: number
  /** With `error`. */
  readonly failure?: Readonly<{ code: FailureCode; message: string }>
}

export type JobProgress = Readonly<{
  current: number
  total: number
  fileName?: string
  message?: string
}>
type Db = Kysely<Database> | Transaction<Database>

export class ModelOperationStore {
  readonly #db: Db

  constructor(db: Db) {
    this.#db = db
  }

  /** Opens an operation. It ends with `finish`, or, if it consists of its nodes only, when the last of them is settled. */
  async open({ id, kind, model, requestedBy, nodes = [], message = '' }: OpenedOperation): Promise<void> {
    await this.#db.insertInto('operations').values({ id, kind, model, requested_by: requestedBy, message }).execute()
    if (nodes.length > 0)
      await this.#db
        .insertInto('operation_nodes')
        .values(
          nodes.map((node) => ({
            operation_id: id,
            node_id: node.id,
            node_name: node.name,
            status: 'open' as const,
            shown: 'queued' as const,
          })),
        )
        .execute()
    await recordChange(this.#db, id)
  }

  /** Shows the state of a node; adds the node if it is missing and reopens it if it was settled. */
  async showNode(operationId: OperationId, nodeId: NodeId, shown: ShownNode): Promise<void> {
    const { status, phase = null, message = '', fileName = '', current = 0, total = 0, attempts = 0, nextRetryAt = null } = shown
    const failure = status === 'error' ? (shown.failure ?? { code: 'internal', message }) : null
    const { rows } = await sql`
      insert into operation_nodes as n (operation_id, node_id, node_name, status, shown, phase, message, file_name, current_bytes, total_bytes,
        percentage, attempts, next_retry_at, error, error_code)
      select o.id, d.id, d.name, 'open', ${status}, ${phase}, ${message}, ${fileName}, ${current}::bigint, ${total}::bigint,
        ${percentageOf(current, total)}::real, ${attempts}::int, ${nextRetryAt}::timestamptz, ${failure?.message ?? null}::text, ${failure?.code ?? null}::text
      from operations o, nodes d where o.id = ${operationId} and o.finished_at is null and d.id = ${nodeId}
      on conflict (operation_id, node_id) do update set status = 'open', shown = excluded.shown, phase = excluded.phase, message = excluded.message,
        file_name = case when excluded.file_name = '' then n.file_name else excluded.file_name end,
        current_bytes = greatest(excluded.current_bytes, case when n.attempts = excluded.attempts then n.current_bytes else 0 end),
        total_bytes = greatest(excluded.total_bytes, n.total_bytes),
        percentage = greatest(excluded.percentage, case when n.attempts = excluded.attempts then n.percentage else 0 end),
        attempts = excluded.attempts, next_retry_at = excluded.next_retry_at, error = excluded.error, error_code = excluded.error_code,
        dead = false, finished_at = null
      where (n.status, n.shown, n.phase, n.message, n.attempts, n.next_retry_at, n.error) is distinct from
          ('open', excluded.shown, excluded.phase, excluded.message, excluded.attempts, excluded.next_retry_at, excluded.error)
        or n.current_bytes < excluded.current_bytes or n.total_bytes < excluded.total_bytes
      returning n.operation_id`.execute(this.#db)
    if (rows.length > 0) await recordChange(this.#db, operationId)
  }

  /** Settles a node; adds the node if it is missing. The last settled node of a deletion, an unload or a prefetch ends the operation. */
  async settleNode(operationId: OperationId, nodeId: NodeId, settled: SettledNode): Promise<void> {
    await inTransaction(this.#db, async (tx) => {
      // Locks, so that of two transactions that settle the last two nodes the second one sees the first.
      const operation = await lockOpen(tx, operationId)
      if (operation === null) return
      const { status, message = '', attempts = null } = settled
      const failure = status === 'error' ? (settled.failure ?? { code: 'internal', message }) : null
      const { rows } = await sql`
        insert into operation_nodes as n (operation_id, node_id, node_name, status, message, attempts, error, error_code, percentage, finished_at)
        select ${operationId}, k.node_id, k.node_name, ${status}, ${message}, coalesce(${attempts}::int, 0), ${failure?.message ?? null}::text,
          ${failure?.code ?? null}::text, case when ${status} = 'success' then 100 else 0 end, now()
        from (
          select node_id, node_name from operation_nodes where operation_id = ${operationId} and node_id = ${nodeId}
          union select id, name from nodes d where id = ${nodeId}
            and not exists (select from operation_nodes e where e.operation_id = ${operationId} and e.node_id = d.id)
        ) k
        on conflict (operation_id, node_id) do update set status = excluded.status, shown = null, phase = null, message = excluded.message,
          next_retry_at = null, attempts = coalesce(${attempts}::int, n.attempts), error = excluded.error, error_code = excluded.error_code,
          current_bytes = case when excluded.status = 'success' then n.total_bytes else n.current_bytes end,
          percentage = greatest(excluded.percentage, n.percentage), finished_at = now()
        where n.status = 'open' or (n.status = 'skipped' and excluded.status = 'success')
        returning n.node_id`.execute(tx)
      if (rows.length === 0) return
      if (endsWithItsNodes(operation.kind)) await finishWhenSettled(tx, operationId)
      await recordChange(tx, operationId)
    })
  }

  /** Progress of an operation without nodes. The percentage never decreases, also when an attempt starts again. */
  async progress(operationId: OperationId, progress: JobProgress): Promise<void> {
    const { current, total, fileName = '', message = '' } = progress
    const { rows } = await sql`
      update operations set current_bytes = ${current}::bigint, total_bytes = ${total}::bigint, progress = greatest(progress, ${percentageOf(current, total)}::real),
        file_name = ${fileName}, message = ${message}
      where id = ${operationId} and finished_at is null
        and (current_bytes, total_bytes, file_name, message) is distinct from (${current}::bigint, ${total}::bigint, ${fileName}, ${message})
      returning id`.execute(this.#db)
    if (rows.length > 0) await recordChange(this.#db, operationId)
  }

  /** False when the operation had ended before. Its open nodes get the same outcome. */
  async finish(operationId: OperationId, outcome: Outcome, message: string): Promise<boolean> {
    return await inTransaction(this.#db, async (tx) => {
      if ((await lockOpen(tx, operationId)) === null) return false
      await endOperation(tx, operationId, { outcome, message })
      await recordChange(tx, operationId)
      return true
    })
  }
}

const endsWithItsNodes = (kind: string): boolean => kind === 'model.delete' || kind === 'model.unload' || kind === 'model.prefetch'

/** 100% is reached only at the end of the operation. */
const percentageOf = (current: number, total: number): number =>
  total === 0 ? 0 : Math.min(99.9, Math.floor((Math.min(current, total) / total) * 1000) / 10)

async function lockOpen(tx: Db, id: string): Promise<{ kind: string } | null> {
  const row = await tx
    .selectFrom('operations')
    .select('kind')
    .where('id', '=', id)
    .where('finished_at', 'is', null)
    .forUpdate()
    .executeTakeFirst()
  return row ?? null
}

/** Locks the operation. */
async function finishWhenSettled(tx: Db, id: string): Promise<void> {
  const { rows } = await sql<{ open: number; errors: number; successes: number; cancelled: number }>`
    select count(*) filter (where status = 'open')::int as open, count(*) filter (where status = 'error')::int as errors,
      count(*) filter (where status = 'success')::int as successes, count(*) filter (where status = 'cancelled')::int as cancelled
    from operation_nodes where operation_id = ${id}`.execute(tx)
  const [counts] = rows
  if (counts === undefined || counts.open > 0) return
  const outcome = counts.errors > 0 ? 'failed' : counts.successes > 0 || counts.cancelled === 0 ? 'succeeded' : 'cancelled'
  await endOperation(tx, id, { outcome, message: '' })
}

async function endOperation(tx: Db, id: string, { outcome, message }: { outcome: Outcome; message: string }): Promise<void> {
  const status = outcome === 'succeeded' ? 'success' : outcome === 'failed' ? 'error' : 'cancelled'
  await sql`
    update operation_nodes set status = ${status}, shown = null, phase = null, message = ${outcome === 'succeeded' ? '' : message}, next_retry_at = null,
      error = case when ${status} = 'error' then coalesce(error, ${message}) end, error_code = case when ${status} = 'error' then coalesce(error_code, 'internal') end,
      percentage = case when ${status} = 'success' then 100 else percentage end, finished_at = now()
    where operation_id = ${id} and status = 'open'`.execute(tx)
  await sql`
    update operations set outcome = ${outcome}, message = ${message}, finished_at = now(), paused_at = null,
      progress = case when ${outcome} = 'succeeded' then 100 else progress end
    where id = ${id}`.execute(tx)
}

async function recordChange(db: Db, id: string): Promise<void> {
  await sql`select record_change('operation', ${id}, false)`.execute(db)
}

async function inTransaction<T>(db: Db, work: (tx: Db) => Promise<T>): Promise<T> {
  return db.isTransaction ? await work(db) : await db.transaction().execute(work)
}
