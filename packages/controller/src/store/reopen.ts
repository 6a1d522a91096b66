// Cancels operations, and retries their failed nodes.
import { isOpen, stepIntent, type NodeId, type OperationId } from '@muster/protocol'
import { sql, type Kysely, type Transaction } from 'kysely'
import { fromIntentRow, type IntentRow, lockNodes, Plan, storeIntents } from './intent-rows.ts'
import { applyIntents } from './intents.ts'
import { retryConflicts } from './errors.ts'
import { deriveIntentPauses, endPause, isPaused } from './paused-work.ts'
import { tryRead } from './readable-rows.ts'
import type { Database } from './tables.ts'
import { lockBackend, remember, type IdempotencyKey } from './submissions.ts'

type Tx = Transaction<Database>
export type CancelResult = 'done' | 'unknown' | 'already_finished'
export type RetryResult = 'done' | 'unknown' | 'nothing_failed' | 'superseded' | 'rolling_out' | 'returning' | 'paused'

/** Cancelling involves neither chance nor backoff. */
const noRetry = { retry: { baseMs: 0, maxMs: 0, maxAttempts: 1 }, chance: 0 }

export class ReopenStore {
  readonly #db: Kysely<Database>

  constructor(db: Kysely<Database>) {
    this.#db = db
  }

  async cancel(id: OperationId, once: IdempotencyKey | null): Promise<CancelResult> {
    return await this.#inTurn({ id, once }, async (tx, backend) => {
      const { rows } = await sql<{ node_id: string; is_shared: boolean; intent: IntentRow; now_ms: number }>`
        select n.node_id, to_jsonb(i) as intent, extract(epoch from now())::float8 * 1000 as now_ms, exists (
          select from operation_nodes o where o.generation = n.generation and o.status = 'open' and o.operation_id <> n.operation_id
        ) as is_shared
        from operation_nodes n join intents i on i.generation = n.generation
        where n.operation_id = ${id} and n.status = 'open' order by n.node_id for update of i`.execute(tx)
      // Leaves out intents that ended while this transaction waited for their lock, and those that this version cannot read.
      const open = rows.flatMap((row) => {
        const from = tryRead(() => fromIntentRow(row.intent))
        return from !== null && isOpen(from.intent) ? [{ ...row, from }] : []
      })
      const watched = await readWatched(tx, id)
      if (open.length === 0 && watched.length === 0) return 'already_finished'
      const shared = [...open, ...watched].filter((row) => row.is_shared)
      await detach(
        tx,
        id,
        shared.map((row) => row.node_id),
      )
      await unwatch(
        tx,
        id,
        watched.filter((row) => !row.is_shared).map((row) => row.node_id),
      )
      // A rollback is not cancelled: the node would keep the version that failed.
      const steps = open
        .filter((row) => !row.is_shared && row.from.plan.rollback === undefined)
        .flatMap(({ from, now_ms: now }) => {
          const to = stepIntent(from.intent, { type: 'cancel_requested' }, { now, ...noRetry })
          return to === null ? [] : [{ from, to, event: 'cancel_requested', detail: { operation: id } }]
        })
      await applyIntents(tx, steps)
      await endPause(tx, id, { backend, model: null })
      return 'done'
    })
  }

  /**
   * Reopens failed and dead nodes, and those that a failed rollout called off: all of them, or one. Nodes that wait for their next
   * attempt are tried now.
   */
  async retry({ id, nodeId }: { id: OperationId; nodeId: NodeId | null }, once: IdempotencyKey | null): Promise<RetryResult> {
    return await this.#inTurn({ id, once }, async (tx, backend) => {
      if (await isPaused(tx, id)) return 'paused'
      await lockNodes(tx, sql`select node_id from operation_nodes where operation_id = ${id}`)
      // A rollback ends as applied. An open rollout decides about its nodes. A failed one has called off those that came later.
      const { rows: failed } = await sql<{ node_id: string; is_current: boolean; rollout: 'running' | 'returning' | null }>`
        select n.node_id, coalesce(i.state in ('failed', 'dead', 'applied', 'cancelled'), false) as is_current, (
          select r.state from rollouts r
          where r.operation_id = n.operation_id and r.finished_at is null and (n.ring is not null or r.state = 'returning')
        ) as rollout
        from operation_nodes n left join intents i on i.generation = n.generation
        where n.operation_id = ${id} and (${nodeId}::text is null or n.node_id = ${nodeId}) and (n.status = 'error'
          or n.status = 'cancelled' and i.state = 'cancelled' and n.ring is not null
            and exists (select from rollouts r where r.operation_id = n.operation_id and r.state = 'failed'))`.execute(tx)
      const isHurried = await hurry(tx, id, nodeId)
      if (failed.length === 0) return isHurried ? 'done' : 'nothing_failed'
      const current = failed.filter((row) => row.is_current)
      if (current.length === 0) return isHurried ? 'done' : 'superseded'
      const open = current.filter((row) => row.rollout === null).map((row) => row.node_id)
      if (open.length === 0 && isHurried) return 'done'
      if (open.length === 0) return current.some((row) => row.rollout === 'returning') ? 'returning' : 'rolling_out'
      await reopen(tx, id, open)
      await deriveIntentPauses(tx, backend)
      return 'done'
    })
  }

  /** Withdraws the intents of nodes that returned as agents, which have no backends. Returns the number of intents. */
  async withdrawFromAgents(): Promise<number> {
    return await retryConflicts(() =>
      this.#db.transaction().execute(async (tx) => {
        const { rows } = await sql<{ intent: IntentRow; now_ms: number }>`
          select to_jsonb(i) as intent, extract(epoch from now())::float8 * 1000 as now_ms
          from intents i join nodes n on n.id = i.node_id
          where n.node_type = 'agent' and i.state in ('waiting', 'sending', 'working') order by i.node_id, i.backend for update of i`.execute(
          tx,
        )
        const steps = rows.flatMap(({ intent, now_ms: now }) => {
          const from = tryRead(() => fromIntentRow(intent))
          if (from === null) return []
          const note = 'the node is an agent now, which has no backends'
          const to = stepIntent(from.intent, { type: 'withdrawn', note }, { now, ...noRetry })
          return to === null ? [] : [{ from, to, event: 'cancelled', detail: { reason: 'agent node' } }]
        })
        return (await applyIntents(tx, steps)).length
      }),
    )
  }

  async #inTurn<T>(
    { id, once }: { id: OperationId; once: IdempotencyKey | null },
    work: (tx: Tx, backend: string) => Promise<T>,
  ): Promise<T | 'unknown'> {
    return await retryConflicts(() =>
      this.#db.transaction().execute(async (tx) => {
        const operation = await tx.selectFrom('operations').select('backend').where('id', '=', id).executeTakeFirst()
        if (operation === undefined) return 'unknown'
        const backend = operation.backend ?? ''
        await lockBackend(tx, backend)
        const outcome = await work(tx, backend)
        // A request that changed nothing is not stored, because it may succeed later.
        if (outcome === 'done' && once !== null) await remember(tx, { ...once, status: 202, response: {} })
        return outcome
      }),
    )
  }
}

/** False: no node waits for its next attempt. */
async function hurry(tx: Tx, id: OperationId, nodeId: NodeId | null): Promise<boolean> {
  const { rows } = await sql<{ intent: IntentRow; now_ms: number }>`
    select to_jsonb(i) as intent, extract(epoch from now())::float8 * 1000 as now_ms
    from operation_nodes n join intents i on i.generation = n.generation
    where n.operation_id = ${id} and n.status = 'open' and (${nodeId}::text is null or n.node_id = ${nodeId})
      and i.state = 'waiting' and i.last_failure is not null and not i.is_parked order by i.node_id for update of i`.execute(tx)
  const steps = rows.flatMap(({ intent, now_ms: now }) => {
    const from = tryRead(() => fromIntentRow(intent))
    const to = from === null ? null : stepIntent(from.intent, { type: 'hurried' }, { now, ...noRetry })
    return from === null || to === null ? [] : [{ from, to, event: 'hurried', detail: { operation: id } }]
  })
  return (await applyIntents(tx, steps)).length > 0
}

/** Nodes whose intent is applied and whose replicas are still watched. */
async function readWatched(tx: Tx, id: OperationId): Promise<readonly { node_id: string; is_shared: boolean }[]> {
  const { rows } = await sql<{ node_id: string; is_shared: boolean }>`
    select n.node_id, exists (
      select from operation_nodes o where o.proving = n.proving and o.status = 'open' and o.operation_id <> n.operation_id
    ) as is_shared
    from operation_nodes n where n.operation_id = ${id} and n.status = 'open' and n.proving is not null order by n.node_id`.execute(tx)
  return rows
}

/** An applied intent cannot be cancelled; the operation only stops waiting for its replicas. */
async function unwatch(tx: Tx, id: OperationId, nodeIds: readonly string[]): Promise<void> {
  if (nodeIds.length === 0) return
  const { rows } = await sql`
    with cancelled as (
      update intents i set cancel_requested = true, row_version = i.row_version + 1 from operation_nodes n
      where n.operation_id = ${id} and n.node_id = any(${nodeIds}::text[]) and n.status = 'open' and n.proving = i.generation
        and i.node_id = n.node_id and i.state = 'applied' and not i.plan ? 'rollback'
      returning i.node_id, i.generation
    )
    update operation_nodes n set message = 'cancelling' from cancelled a where n.proving = a.generation and n.operation_id = ${id} returning n.node_id`.execute(
    tx,
  )
  if (rows.length > 0) await sql`select record_change('operation', ${id}, false)`.execute(tx)
}

/** Other operations wait for the same intents: these continue, and only this operation ends. */
async function detach(tx: Tx, id: OperationId, nodeIds: readonly string[]): Promise<void> {
  if (nodeIds.length === 0) return
  await sql`
    update operation_nodes n set status = 'cancelled', message = 'cancelled', finished_at = now(), attempts = i.attempts,
      current_bytes = i.current_bytes, total_bytes = i.total_bytes, percentage = i.percentage, generation = i.generation,
      proving = null, shown = null, phase = null
    from intents i where (i.generation = n.generation or i.generation = n.proving) and n.operation_id = ${id} and n.status = 'open'
      and n.node_id = any(${nodeIds}::text[])`.execute(tx)
  await sql`select update_finished_at(${id}), record_change('operation', ${id}, false)`.execute(tx)
}

/** Nodes that a rollout rolled back are upgraded again, ring by ring. */
async function reopen(tx: Tx, id: OperationId, nodeIds: readonly string[]): Promise<void> {
  const rings = await reopenRollout(tx, id, nodeIds)
  const { rows } = await sql<{ intent: IntentRow }>`
    select to_jsonb(i) as intent from operation_nodes n join intents i on i.generation = n.generation
    where n.operation_id = ${id} and n.node_id = any(${nodeIds}::text[]) order by i.node_id for update of i`.execute(tx)
  const failed = rows.flatMap(({ intent }) => tryRead(() => fromIntentRow(intent)) ?? [])
  const [first] = failed
  if (first === undefined) return
  const stored = await storeIntents(
    tx,
    first.intent.backend,
    failed.map(({ intent, plan, bytes }) => ({
      ...{ nodeId: intent.nodeId, kind: intent.kind, opId: id, plan: plan.rollback === undefined ? plan : Plan.parse(plan.rollback.plan) },
      ...{
        awaitsRing: (rings[intent.nodeId] ?? 0) > 1,
        wasSent: false,
        replaced: [],
        note: intent.state === 'cancelled' || !('note' in intent) ? '' : intent.note,
        totalBytes: bytes.total,
      },
      ...{ event: 'retried', detail: { operation: id } },
    })),
  )
  const opened = stored.map(({ nodeId, generation }) => ({ node_id: nodeId, generation, ring: rings[nodeId] ?? null }))
  await sql`
    update operation_nodes n set status = 'open', generation = o.generation, message = '', error = null, error_code = null, attempts = 0,
      dead = false, finished_at = null, current_bytes = 0, percentage = 0, ring = coalesce(o.ring, n.ring)
    from jsonb_to_recordset(${JSON.stringify(opened)}::jsonb) as o (node_id text, generation bigint, ring integer)
    where n.operation_id = ${id} and n.node_id = o.node_id`.execute(tx)
  await sql`select update_finished_at(${id})`.execute(tx)
  await sql`
    select record_change(kind, id, false) from (
      select 0 as rank, 'node' as kind, unnest(${nodeIds}::text[]) as id union all select 1, 'operation', ${id} order by rank, id
    ) c`.execute(tx)
}

/**
 * The rings of these nodes if the operation's rollout failed, which starts again. A rollout that succeeded is not reopened for a
 * late node.
 */
async function reopenRollout(tx: Tx, id: OperationId, nodeIds: readonly string[]): Promise<Readonly<Record<string, number>>> {
  const { rows } = await sql<{ node_id: string; ring: number }>`
    with ringed as (
      select n.node_id, dense_rank() over (order by n.ring)::int as ring from operation_nodes n join rollouts r on r.operation_id = n.operation_id
      where n.operation_id = ${id} and n.ring is not null and r.state = 'failed' and n.node_id = any(${nodeIds}::text[])
    ), begun as (
      update rollouts set state = 'running', ring = 1, rings = (select max(ring) from ringed), failure = null, finished_at = null
      where operation_id = ${id} and exists (select from ringed)
    )
    select node_id, ring from ringed`.execute(tx)
  return Object.fromEntries(rows.map((row) => [row.node_id, row.ring]))
}
