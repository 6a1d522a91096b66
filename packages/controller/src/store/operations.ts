// Queries about operations and their nodes.
import {
  type Liveness,
  type NodeId,
  type OperationFilter,
  OperationId,
  OperationKind,
  type Phase,
  type Responsiveness,
} from '@muster/protocol'
import { sql, type Kysely, type Selectable } from 'kysely'
import { z } from 'zod'
import { fromIntentRow, type IntentRecord, type IntentRow } from './intent-rows.ts'
import { LoadBriefs, loadsOf, type LoadBrief } from './load-rows.ts'
import { createRowReader, type RowReader, tryRead } from './readable-rows.ts'
import type { Database, OperationNodesTable, OperationsTable } from './tables.ts'

export type NodeFactsRow = Readonly<{
  approved: boolean
  draining: boolean
  liveness: Liveness
  answering: Responsiveness
  lastSeenAt: string | null
}>

export type OperationNodeRecord = Readonly<{ nodeId: string; nodeName: string; ring: number | null }> &
  (
    | Readonly<{ status: 'open'; record: IntentRecord; node: NodeFactsRow }>
    | ShownNodeRecord
    | Readonly<{
        status: 'success' | 'error' | 'cancelled' | 'skipped'
        message: string
        error: string | null
        errorCode: string | null
        attempts: number
        dead: boolean
        current: number
        total: number
        percentage: number
      }>
  )

/**
 * The last shown state of a node: of an operation about a model, or of a rollout that watches the node. `node` is null when the
 * node was removed.
 */
export type ShownNodeRecord = Readonly<{
  status: 'shown'
  shown: 'queued' | 'downloading' | 'running_on_worker' | 'error'
  /** An administrator cancelled the wait for its rollout. */
  cancelRequested: boolean
  phase: Phase | null
  fileName: string
  /** Milliseconds. */
  nextRetryAt: number | null
  node: NodeFactsRow | null
  message: string
  error: string | null
  errorCode: string | null
  attempts: number
  current: number
  total: number
  percentage: number
}>

/** The operation-wide state of an operation about a model. */
export type JobRecord = Readonly<{
  outcome: 'succeeded' | 'failed' | 'cancelled' | null
  message: string
  current: number
  total: number
  cancelRequested: boolean
  /** The number of replicas of a `model.load`. */
  replicas: number
  /** Set by some installs of models. */
  note?: string | undefined
  /** Loads of the model, while the operation is open. */
  loads: readonly LoadBrief[]
}>

export interface OperationRecord {
  readonly id: OperationId
  readonly kind: OperationKind
  readonly backend: string | null
  readonly model: string | null
  readonly requestedBy: string
  readonly createdAt: string
  readonly finishedAt: string | null
  readonly pausedAt: string | null
  readonly dismissedAt: string | null
  /** The highest percentage shown so far. */
  readonly progress: number
  readonly fileName: string
  /** Null for operations about backends, which consist of their nodes only. */
  readonly job: JobRecord | null
  readonly nodes: readonly OperationNodeRecord[]
}

export type OperationEventRecord = Readonly<{
  at: string
  nodeId: string
  generation: number
  epoch: number
  type: string
  detail: Readonly<Record<string, unknown>>
}>

const maxEvents = 10_000
/** Newest first. */
const maxListed = 500

type JobRow = Pick<Selectable<OperationsTable>, 'outcome' | 'message' | 'current_bytes' | 'total_bytes' | 'cancel_requested' | 'options'>
type OperationRow = Selectable<OperationsTable> & { readonly loads: unknown }
type NodeRow = Selectable<OperationNodesTable> & {
  operation_finished_at: string | null
  operation_progress: number
  job: JobRow
  intent: IntentRow | null
  facts: NodeFactsRow | null
  cancel_requested: boolean
}

export class OperationStore {
  readonly #db: Kysely<Database>
  readonly #reader: RowReader

  constructor(db: Kysely<Database>, reader: RowReader = createRowReader()) {
    this.#db = db
    this.#reader = reader
  }

  /** `isDismissedShown`: includes operations that were dismissed. */
  async list(filter: OperationFilter, isDismissedShown = false): Promise<OperationRecord[]> {
    const all = this.#select().orderBy('created_at', 'desc').orderBy('id')
    const base = isDismissedShown ? all : all.where('dismissed_at', 'is', null)
    if (filter === 'active') return await this.#withNodes(await base.where('finished_at', 'is', null).execute())
    const rows = await (filter === 'all' ? base : base.where('finished_at', 'is not', null)).limit(maxListed).execute()
    return await this.#withNodes(rows)
  }

  async listByIds(ids: readonly string[]): Promise<OperationRecord[]> {
    if (ids.length === 0) return []
    return await this.#withNodes(await this.#select().where('id', 'in', ids).execute())
  }

  async find(id: OperationId): Promise<OperationRecord | null> {
    return (await this.listByIds([id]))[0] ?? null
  }

  /** The events of its intents, oldest first, of every generation that the operation, a retry or a rollback had on its nodes. */
  async history(id: OperationId): Promise<OperationEventRecord[]> {
    const { rows } = await sql<OperationEventRecord>`
      with events as (
        select e.*, e.generation in (n.generation, n.proving) or e.detail ->> 'operation' = o.id as is_own
        from operations o join operation_nodes n on n.operation_id = o.id
        join intent_events e on e.node_id = n.node_id and e.backend = o.backend where o.id = ${id}
      )
      select e.at, e.node_id as "nodeId", e.generation, e.epoch, e.type, e.detail from events e
      where e.generation in (select own.generation from events own where own.is_own) order by e.id limit ${maxEvents}`.execute(this.#db)
    return rows
  }

  /** Operations that wait for these intents. */
  async concernedBy(keys: readonly { nodeId: NodeId; opId: OperationId }[]): Promise<{ id: OperationId; nodes: number }[]> {
    if (keys.length === 0) return []
    const { rows } = await sql<{ id: string; nodes: number }>`
      select c.id, (select count(*) from operation_nodes n where n.operation_id = c.id)::int as nodes from (select distinct n.operation_id as id
      from unnest(${keys.map((k) => k.nodeId)}::text[], ${keys.map((k) => k.opId)}::text[]) k (node_id, op_id)
      join intents i on i.node_id = k.node_id and i.op_id = k.op_id
      join operation_nodes n on n.generation = i.generation and n.status = 'open') c`.execute(this.#db)
    return rows.map((row) => ({ id: OperationId.parse(row.id), nodes: row.nodes }))
  }

  /**
   * Progress never decreases, also on another controller. Skips locked rows, so that it delays no other write, and returns their
   * IDs: they are raised the next time.
   */
  async raiseProgress(shown: readonly { id: OperationId; progress: number; fileName: string }[]): Promise<ReadonlySet<string>> {
    if (shown.length === 0) return new Set()
    const { rows } = await sql<{ id: string }>`
      with shown as (
        select * from unnest(${shown.map((s) => s.id)}::text[], ${shown.map((s) => s.progress)}::real[], ${shown.map((s) => s.fileName)}::text[])
          as s (id, progress, file_name)
      ), raised as (
        select o.id, s.progress, s.file_name from operations o join shown s on s.id = o.id where o.progress < s.progress
        for no key update of o skip locked
      ), written as (
        update operations o set progress = r.progress, file_name = r.file_name from raised r where o.id = r.id
      )
      select o.id from operations o join shown s on s.id = o.id
      where o.progress < s.progress and o.id not in (select id from raised)`.execute(this.#db)
    return new Set(rows.map(({ id }) => id))
  }

  /** Number of intents in progress, for the metrics. */
  async counts(): Promise<{ pending: number; dead: number; runningOnWorker: number; attempts: number; oldestSeconds: number }> {
    const { rows } = await sql<{ pending: number; dead: number; running_on_worker: number; attempts: number; oldest_seconds: number }>`
      select count(*) filter (where finished_at is null) as pending,
        count(*) filter (where state = 'dead') as dead,
        count(*) filter (where finished_at is null and is_overdue) as running_on_worker,
        coalesce(sum(attempts) filter (where finished_at is null), 0)::int as attempts,
        coalesce(extract(epoch from now() - min(requested_at) filter (where state = 'waiting' and not is_paused)), 0)::float8 as oldest_seconds
      from intents`.execute(this.#db)
    const [row] = rows
    return {
      pending: row?.pending ?? 0,
      dead: row?.dead ?? 0,
      runningOnWorker: row?.running_on_worker ?? 0,
      attempts: row?.attempts ?? 0,
      oldestSeconds: row?.oldest_seconds ?? 0,
    }
  }

  /** Deletes history after its retention time, in batches, so that no other query waits. */
  async forget({ historyMs, keysMs }: { historyMs: number; keysMs: number }): Promise<void> {
    const before = sql`now() - make_interval(secs => ${historyMs / 1000})`
    await sql`
      with gone as (delete from operations where id in (select id from operations where finished_at < ${before} limit 1000) returning id)
      select record_change('operation', id, true) from (select id from gone order by id) g`.execute(this.#db)
    // The oldest events have the smallest IDs. An index on the time is not needed, and would slow down every event.
    await sql`delete from intent_events where id in (select id from intent_events order by id limit 10000) and at < ${before}`.execute(
      this.#db,
    )
    await sql`delete from intents i where finished_at < ${before}
      and not exists (select from operation_nodes n where n.generation = i.generation)`.execute(this.#db)
    await sql`delete from idempotency_keys where created_at < now() - make_interval(secs => ${keysMs / 1000})`.execute(this.#db)
  }

  #select() {
    const loads = sql`case when finished_at is null and model is not null then (${loadsOf(sql`operations.model`)}) end`
    return this.#db.selectFrom('operations').selectAll().select(loads.as('loads'))
  }

  async #withNodes(rows: readonly OperationRow[]): Promise<OperationRecord[]> {
    const nodes = await readNodes(
      this.#db,
      rows.map((row) => row.id),
    )
    const byOperation = Map.groupBy(nodes, (row) => row.operation_id)
    const read = (row: OperationRow): OperationRecord => {
      const own = byOperation.get(row.id) ?? []
      return {
        id: OperationId.parse(row.id),
        kind: OperationKind.parse(row.kind),
        backend: row.backend,
        model: row.model,
        requestedBy: row.requested_by,
        createdAt: row.created_at,
        // Read together with the nodes, so that a finished operation has its end.
        finishedAt: own[0] === undefined ? row.finished_at : own[0].operation_finished_at,
        pausedAt: row.paused_at,
        dismissedAt: row.dismissed_at,
        progress: own[0]?.operation_progress ?? row.progress,
        fileName: row.file_name,
        job: row.model === null ? null : jobOf(own[0]?.job ?? row, row.loads),
        nodes: own.map(nodeOf),
      }
    }
    return this.#reader.readAll(rows, read, (row) => `operation ${row.id}`)
  }
}

// One statement, so that a node settled meanwhile is read either before or after, never half.
async function readNodes(db: Kysely<Database>, ids: readonly string[]): Promise<NodeRow[]> {
  if (ids.length === 0) return []
  const { rows } = await sql<NodeRow>`
    select n.*, o.finished_at as operation_finished_at, o.progress as operation_progress, case when n.status = 'open' and n.generation is not null then to_jsonb(i) end as intent,
      coalesce(i.cancel_requested, false) as cancel_requested,
      jsonb_build_object('outcome', o.outcome, 'message', o.message, 'current_bytes', o.current_bytes, 'total_bytes', o.total_bytes,
        'cancel_requested', o.cancel_requested, 'options', o.options) as job,
      case when n.status = 'open' and d.id is not null then jsonb_build_object('approved', d.approved_at is not null, 'draining', d.draining,
        'liveness', p.liveness, 'answering', p.answering, 'lastSeenAt', p.last_seen_at) end as facts
    from operation_nodes n join operations o on o.id = n.operation_id
    left join intents i on i.generation = coalesce(n.generation, n.proving) and n.status = 'open'
    left join nodes d on d.id = n.node_id and n.status = 'open'
    left join node_pulses p on p.node_id = d.id
    where n.operation_id = any(${ids}::text[]) order by n.node_name collate "C", n.node_id`.execute(db)
  return rows
}

/** Times inside JSON have PostgreSQL's format. */
const factsOf = (facts: NodeFactsRow): NodeFactsRow => ({
  ...facts,
  lastSeenAt: facts.lastSeenAt === null ? null : new Date(facts.lastSeenAt).toISOString(),
})

/** The message of a node whose intent a newer version wrote. */
const unreadableMessage = 'unsupported by this version of the controller; a newer controller continues it'

function nodeOf(row: NodeRow): OperationNodeRecord {
  const about = { nodeId: row.node_id, nodeName: row.node_name, ring: row.ring }
  const bytes = { attempts: row.attempts, current: row.current_bytes, total: row.total_bytes, percentage: row.percentage }
  const texts = { message: row.message, error: row.error, errorCode: row.error_code }
  if (row.status === 'open' && row.shown !== null) {
    const { shown, phase, file_name: fileName, cancel_requested: cancelRequested } = row
    const nextRetryAt = row.next_retry_at === null ? null : Date.parse(row.next_retry_at)
    const node = row.facts === null ? null : factsOf(row.facts)
    return { ...about, status: 'shown', shown, cancelRequested, phase, fileName, nextRetryAt, node, ...texts, ...bytes }
  }
  if (row.status === 'open') {
    if (row.intent === null || row.facts === null) throw new Error(`operation ${row.operation_id} waits for an intent that does not exist`)
    const { intent, facts } = row
    const record = tryRead(() => fromIntentRow(intent))
    if (record !== null) return { ...about, status: 'open', record, node: factsOf(facts) }
    const unread = { phase: null, fileName: '', nextRetryAt: null, error: null, errorCode: null, message: unreadableMessage }
    return { ...about, status: 'shown', shown: 'queued', cancelRequested: row.cancel_requested, node: factsOf(facts), ...unread, ...bytes }
  }
  return { ...about, status: row.status, dead: row.dead, ...texts, ...bytes }
}

const JobOptions = z.object({ replicas: z.number().default(1), note: z.string().optional() })

const jobOf = (row: JobRow, loads: unknown): JobRecord => ({
  outcome: row.outcome,
  message: row.message,
  current: row.current_bytes,
  total: row.total_bytes,
  cancelRequested: row.cancel_requested,
  ...JobOptions.parse(row.options),
  loads: LoadBriefs.parse(loads ?? []),
})
