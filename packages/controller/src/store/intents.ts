// Queries about intents. protocol/states/intent.ts decides; the statements here claim, read and write. Each write names the row
// version that it was decided on, so of two concurrent decisions one changes nothing and decides again.
import { type Kysely, sql, type Transaction } from 'kysely'
import { BackendName, type Intent, type NodeId, type OperationId, type Phase } from '@muster/protocol'
import { columnsOf, fromIntentRow, type IntentRecord, type IntentRow, nameOfIntent, type Plan } from './intent-rows.ts'
import { retryConflicts } from './errors.ts'
import { nodeTakesCommands } from './nodes.ts'
import { nodeEndOf, provingMessage } from './operation-nodes.pure.ts'
import { createRowReader, type RowReader } from './readable-rows.ts'
import type { Database } from './tables.ts'

export interface IntentStep {
  readonly from: Pick<IntentRecord, 'rowVersion' | 'intent' | 'plan'>
  readonly to: Intent
  /** The type of the event in the history. */
  readonly event: string
  readonly detail?: Readonly<Record<string, unknown>>
}

/** An intent claimed by this controller, and the worker that it goes to. */
export interface ClaimedIntent extends IntentRecord {
  readonly features: readonly string[]
  readonly incarnation: string | null
  /** False: the last command found no responders, so this one is the probe. */
  readonly isAnswering: boolean
}

export interface ProgressTick {
  readonly nodeId: NodeId
  readonly opId: OperationId
  readonly phase: Phase | null
  readonly fileName: string
  readonly current: number
  readonly total: number
  readonly percentage: number
  readonly seq: number | null
  /** The epoch of the attempt; null when the worker does not report it. */
  readonly epoch: number | null
}

export type RecordedProgress = Readonly<{ nodeId: string; opId: string; isLocked?: boolean }>

/** How long an intent may stay without a report before its worker is polled. */
export interface QuietFor {
  /** Since the last report, for a working intent. */
  readonly quietMs: number
  /** Since the claim (its lease is `claimMs`), for an intent that is being sent. */
  readonly unansweredMs: number
  readonly claimMs: number
  readonly cancelEveryMs: number
  readonly limit: number
}

/** Rows, and the database's time when they were read. */
export type Read<T> = Readonly<{ now: number; rows: readonly T[] }>

/** Times in milliseconds from now; null: none. `isBusy`: an intent is in progress and has to be watched. */
export type Outlook = Readonly<{ dueMs: number | null; watchMs: number | null; isBusy: boolean }>

/** A database time loses fractions of a millisecond on its way through a JavaScript number. */
const roundingMs = 1

type ClaimedRow = IntentRow & { features: string[]; node_incarnation: string | null; is_answering: boolean; now_ms: number }

const claimedOf = (row: ClaimedRow): ClaimedIntent => ({
  ...fromIntentRow(row),
  features: row.features,
  incarnation: row.node_incarnation,
  isAnswering: row.is_answering,
})

/** A paused intent finishes the attempt that runs, and begins none. */
const mayBegin = sql`not (i.is_paused and i.state = 'waiting')`

const nowMs = sql<number>`extract(epoch from now())::float8 * 1000`

/** The `backend` column of the intent for this name, which may be the name of a concrete backend. */
export const rowNameOf = (name: ReturnType<typeof sql>) => sql<string>`coalesce((
  select named.backend from intents named where named.backend = ${name} or named.plan ->> 'name' = ${name}
  order by named.backend <> ${name} limit 1), ${name})`

/** The step decides what follows: see `overdue` in protocol/states/intent.ts. An install that is sent again is overdue each time. */
const mayBecomeOverdue = sql`(not i.is_overdue and i.wait in ('result', 'reply') or i.wait = 'reply' and i.kind <> 'upgrade')`

export class IntentStore {
  readonly #db: Kysely<Database>
  readonly #reader: RowReader
  /** Generations that this version cannot read. They are claimed by newer controllers only. */
  readonly #unreadable = new Set<number>()

  constructor(db: Kysely<Database>, reader: RowReader = createRowReader()) {
    this.#db = db
    this.#reader = reader
  }

  /**
   * Claims due intents on healthy nodes, and on nodes whose last command found no responders: there the command is the probe.
   * Intents of a node are sent in the order of their submission, so only the oldest due intent of each node can be claimed, and
   * none while an older one is being sent. That takes milliseconds and delays no other node. The limit is part of the text: with
   * an unknown limit PostgreSQL would plan for all rows, or plan again each time, which takes 2 ms where the rest takes 0.6. So
   * callers use few different limits. An intent that this version cannot read is given back at once and left alone from then on.
   */
  async claim({ holder, leaseMs, limit }: { holder: string; leaseMs: number; limit: number }): Promise<Read<ClaimedIntent>> {
    const { rows } = await sql<ClaimedRow>`
      with due as (
        select i.node_id, i.backend, n.features, p.incarnation as node_incarnation, p.answering = 'yes' as is_answering
        from intents i join nodes n on n.id = i.node_id join node_pulses p on p.node_id = i.node_id
        where i.next_at <= now() and not i.is_parked and not i.awaits_ring and not i.cancel_requested and ${mayBegin} ${this.#isReadable('i')}
          and ${nodeTakesCommands} and n.node_type <> 'agent' and not n.draining
          and not (i.kind = 'delete' and exists (
            select from replicas r where r.node_id = i.node_id and r.backend = i.backend and r.state = 'draining'))
          and not exists (
            select from intents older where older.node_id = i.node_id and older.generation < i.generation and not older.cancel_requested and not older.awaits_ring
              and older.state in ('waiting', 'sending', 'working') ${this.#isReadable('older')} and (older.state = 'sending' or older.state = 'waiting' and older.next_at <= now() and not older.is_paused)
          )
        order by i.next_at, i.generation limit ${sql.lit(limit)} for update of i skip locked
      ), claimed as (
        update intents i set state = 'sending', epoch = i.epoch + 1, holder = ${holder},
          lease_until = now() + make_interval(secs => ${leaseMs / 1000}),
          next_at = null, wait = null, accepted_at = null, sign_at = null, was_sent = true, polled_at = null, progress_seq = null,
          row_version = i.row_version + 1
        from due where i.node_id = due.node_id and i.backend = due.backend
        returning i.*, due.features, due.node_incarnation, due.is_answering
      ), logged as (
        insert into intent_events (node_id, backend, generation, epoch, type, detail)
        select node_id, backend, generation, epoch, 'claimed', jsonb_build_object('holder', ${holder}::text) from claimed
      )
      select claimed.*, t.now_ms from (select ${nowMs} as now_ms) t left join claimed on true order by generation`.execute(this.#db)
    const claimed = rows.filter((row) => row.node_id !== null)
    const readable = this.#reader.readAll(claimed, claimedOf, nameOfIntent)
    if (readable.length < claimed.length) await this.#giveBack(claimed, readable)
    return { now: rows[0]?.now_ms ?? 0, rows: readable }
  }

  #isReadable(alias: string) {
    if (this.#unreadable.size === 0) return sql``
    return sql`and ${sql.ref(`${alias}.generation`)} <> all(${[...this.#unreadable]}::bigint[])`
  }

  async #giveBack(claimed: readonly ClaimedRow[], readable: readonly ClaimedIntent[]): Promise<void> {
    const known = new Set(readable.map(({ intent }) => intent.generation))
    const generations = claimed.map(({ generation }) => generation).filter((generation) => !known.has(generation))
    for (const generation of generations) this.#unreadable.add(generation)
    await sql`
      with given_back as (
        update intents set state = 'waiting', next_at = now(), holder = null, lease_until = null, row_version = row_version + 1
        where generation = any(${generations}::bigint[]) and state = 'sending' returning node_id, backend, generation, epoch
      )
      insert into intent_events (node_id, backend, generation, epoch, type)
      select node_id, backend, generation, epoch, 'unsupported_by_this_version' from given_back`.execute(this.#db)
  }

  /**
   * Writes the steps, their history and the consequences for operations in one statement. Returns the intents that were written;
   * the others have changed meanwhile.
   */
  async apply(steps: readonly IntentStep[]): Promise<{ nodeId: string; backend: string }[]> {
    return await retryConflicts(() => applyIntents(this.#db, steps))
  }

  /** Intents of one node, by the operation IDs of their commands. */
  async findByOps(keys: readonly { nodeId: NodeId; opId: OperationId }[]): Promise<Read<IntentRecord>> {
    return await this.#read(sql`join unnest(${keys.map((k) => k.nodeId)}::text[], ${keys.map((k) => k.opId)}::text[]) k (node_id, op_id)
      on k.node_id = i.node_id and k.op_id = i.op_id where i.finished_at is null`)
  }

  async findOpen(nodeId: NodeId): Promise<Read<IntentRecord>> {
    return await this.#read(sql`where i.node_id = ${nodeId} and i.state in ('waiting', 'sending', 'working') order by i.generation`)
  }

  /** Includes finished intents. */
  async listOfNode(nodeId: NodeId): Promise<Read<IntentRecord>> {
    return await this.#read(sql`where i.node_id = ${nodeId} order by i.backend collate "C"`)
  }

  async find(nodeId: NodeId, backend: BackendName): Promise<Read<IntentRecord>> {
    return await this.#read(sql`where i.node_id = ${nodeId} and i.backend = ${backend}`)
  }

  /** Open intents, on all nodes. */
  async findByBackend(backend: BackendName): Promise<Read<IntentRecord>> {
    return await this.#read(sql`where i.backend = ${backend} and i.state in ('waiting', 'sending', 'working')`)
  }

  /** Nodes that installed the backend after their last inventory, which follows a moment after the result. */
  async installedUnlisted(backend: BackendName): Promise<Set<string>> {
    const { rows } = await sql<{ node_id: string }>`
      select i.node_id from intents i join nodes n on n.id = i.node_id
      where i.backend = ${backend} and i.state = 'applied' and i.kind <> 'delete' and coalesce(n.inventory_at < i.finished_at, true)`.execute(
      this.#db,
    )
    return new Set(rows.map((row) => row.node_id))
  }

  /** Nodes whose backends changed after their last inventory. */
  async unlistedNodes(): Promise<Set<string>> {
    const { rows } = await sql<{ node_id: string }>`
      select distinct i.node_id from intents i join nodes n on n.id = i.node_id
      where i.state = 'applied' and coalesce(n.inventory_at < i.finished_at, true)`.execute(this.#db)
    return new Set(rows.map((row) => row.node_id))
  }

  /** Intents whose controller is gone; their progress is unknown. */
  async findLost(limit: number): Promise<Read<IntentRecord>> {
    return await this.#read(sql`where i.lease_until < now() order by i.lease_until limit ${limit}`)
  }

  async findOverdue(timeouts: { installMs: number; upgradeMs: number }, limit: number): Promise<Read<IntentRecord>> {
    return await this.#read(sql`where i.state = 'working' and ${mayBecomeOverdue} and i.accepted_at < now() - make_interval(
      secs => case i.kind when 'upgrade' then ${timeouts.upgradeMs / 1000}::float8 else ${timeouts.installMs / 1000}::float8 end)
      order by i.accepted_at limit ${limit}`)
  }

  /**
   * Takes intents whose worker has to be polled: without a report for a while, sent without a known reply, or cancelled by an
   * administrator. Stamps them, so that one of several controllers polls. Absent nodes are not polled, nor workers without
   * `async` before their reply is overdue.
   */
  async takeQuiet({ quietMs, unansweredMs, claimMs, cancelEveryMs, limit }: QuietFor): Promise<Read<ClaimedIntent>> {
    const { rows } = await sql<ClaimedRow & { before: string | null }>`
      with quiet as (
        select i.node_id, i.backend, i.polled_at as before, n.features, p.incarnation as node_incarnation, p.answering = 'yes' as is_answering
        from intents i join nodes n on n.id = i.node_id join node_pulses p on p.node_id = i.node_id
        where i.state in ('waiting', 'sending', 'working') and ${nodeTakesCommands} and case
          when i.cancel_requested and (i.state = 'waiting' or i.state = 'working' and (i.wait <> 'reply' or i.is_overdue))
            then coalesce(i.polled_at < now() - make_interval(secs => ${cancelEveryMs / 1000}), true)
          when i.state = 'working' and (i.wait <> 'reply' or i.is_overdue)
            then greatest(i.sign_at, i.polled_at, i.accepted_at) < now() - make_interval(secs => ${quietMs / 1000})
          when i.state = 'sending'
            then greatest(i.polled_at, i.lease_until - make_interval(secs => ${claimMs / 1000})) < now() - make_interval(secs => ${unansweredMs / 1000})
          else false end
        order by i.generation limit ${limit} for update of i skip locked
      ), polled as (
        update intents i set polled_at = now() from quiet
        where i.node_id = quiet.node_id and i.backend = quiet.backend
        returning i.*, quiet.features, quiet.node_incarnation, quiet.is_answering, quiet.before
      )
      select polled.*, ${nowMs} as now_ms from polled`.execute(this.#db)
    return {
      now: rows[0]?.now_ms ?? 0,
      rows: this.#reader.readAll(rows, (row) => claimedOf({ ...row, polled_at: row.before }), nameOfIntent),
    }
  }

  /**
   * Corrects intents whose node left or returned while they were written: parks those on absent nodes and resumes the others.
   * True when there were any.
   */
  async park(): Promise<boolean> {
    const { numAffectedRows = 0n } = await sql`
      update intents i set is_parked = not i.is_parked, row_version = i.row_version + 1
      where i.state = 'waiting' and i.is_parked = node_may_be_tried(i.node_id)`.execute(this.#db)
    return numAffectedRows > 0n
  }

  /**
   * Renews the leases of the requests that this controller still holds open. Only of these: an intent whose request has ended and
   * whose outcome could not be written must lose its lease, so that another controller recovers it.
   */
  async renew(holder: string, leaseMs: number, held: readonly { nodeId: NodeId; backend: BackendName }[]): Promise<void> {
    if (held.length === 0) return
    await sql`
      update intents i set lease_until = now() + make_interval(secs => ${leaseMs / 1000})
      from unnest(${held.map((h) => h.nodeId)}::text[], ${held.map((h) => h.backend)}::text[]) h (node_id, backend)
      where i.node_id = h.node_id and i.backend = h.backend and i.holder = ${holder} and i.state = 'working' and i.lease_until is not null`.execute(
      this.#db,
    )
  }

  /**
   * Stores reported progress, at most once a second per intent. Every controller receives every report; the first to write wins,
   * and numbers only grow. Does not change the row version, because progress decides nothing except that the work is alive.
   * Returns the reports about open intents. `isLocked`: another write kept the row, and the report was not stored.
   */
  async recordProgress(ticks: readonly ProgressTick[]): Promise<RecordedProgress[]> {
    if (ticks.length === 0) return []
    const isNews = sql`i.finished_at is null and (t.seq is null or i.progress_seq is null or t.seq > i.progress_seq)
      and case when t.epoch is null then i.state = 'working' else t.epoch >= i.tried_since end`
    const { rows } = await sql<RecordedProgress>`
      with tick as (
        select * from unnest(
          ${ticks.map((t) => t.nodeId)}::text[], ${ticks.map((t) => t.opId)}::text[], ${ticks.map((t) => t.phase)}::text[],
          ${ticks.map((t) => t.fileName)}::text[], ${ticks.map((t) => t.current)}::bigint[], ${ticks.map((t) => t.total)}::bigint[],
          ${ticks.map((t) => t.percentage)}::real[], ${ticks.map((t) => t.seq)}::bigint[], ${ticks.map((t) => t.epoch)}::bigint[]
        ) as t (node_id, op_id, phase, file_name, current_bytes, total_bytes, percentage, seq, epoch)
      ), fresh as (
        select i.node_id, i.backend, t.phase, t.file_name, t.current_bytes, t.total_bytes, t.percentage, t.seq
        from intents i join tick t on t.node_id = i.node_id and t.op_id = i.op_id
        where ${isNews}
        order by i.node_id, i.backend for no key update of i skip locked
      ), written as (
        update intents i set phase = f.phase, file_name = f.file_name, current_bytes = f.current_bytes, total_bytes = f.total_bytes,
          percentage = greatest(i.percentage, f.percentage), progress_seq = coalesce(f.seq, i.progress_seq),
          sign_at = case when i.state = 'working' then now() end
        from fresh f where i.node_id = f.node_id and i.backend = f.backend
      )
      select i.node_id as "nodeId", i.op_id as "opId",
        ${isNews} and not exists (select from fresh f where f.node_id = i.node_id and f.backend = i.backend) as "isLocked"
      from intents i join tick t on t.node_id = i.node_id and t.op_id = i.op_id where i.finished_at is null`.execute(this.#db)
    return rows
  }

  /**
   * When the next intent is due that the last claim, at the database time `claimedAt`, did not see as due: one that became due since
   * is due now. Intents that were due and could not be claimed wait for a change. `watchMs`: when a lease or a timeout ends.
   */
  async outlook(timeouts: { installMs: number; upgradeMs: number }, claimedAt: number): Promise<Outlook> {
    const { rows } = await sql<{ due_ms: number | null; watch_ms: number | null; is_busy: boolean }>`
      select extract(epoch from (
        select min(i.next_at) from intents i
        where i.next_at > to_timestamp(${(claimedAt - roundingMs) / 1000}) and not i.is_parked and not i.awaits_ring and not i.cancel_requested
          and ${mayBegin}
      ) - now())::float8 * 1000 as due_ms, extract(epoch from min(at) - now())::float8 * 1000 as watch_ms, exists (
        select from intents where state in ('sending', 'working') or state = 'waiting' and cancel_requested
      ) as is_busy
      from (
        select min(lease_until) as at from intents where lease_until is not null
        union all select min(accepted_at + make_interval(secs => case kind when 'upgrade' then ${timeouts.upgradeMs / 1000}::float8
          else ${timeouts.installMs / 1000}::float8 end)) from intents i where state = 'working' and ${mayBecomeOverdue}
      ) t`.execute(this.#db)
    const row = rows[0]
    return { dueMs: row?.due_ms ?? null, watchMs: row?.watch_ms ?? null, isBusy: row?.is_busy ?? false }
  }

  /** The `backend` column of the intent for a concrete backend: the name of the meta backend that it was installed as. */
  async listedName(name: BackendName): Promise<BackendName> {
    const { rows } = await sql<{ backend: string }>`select ${rowNameOf(sql`${name}::text`)} as backend`.execute(this.#db)
    return BackendName.parse(rows[0]?.backend ?? name)
  }

  async #read(where: ReturnType<typeof sql>): Promise<Read<IntentRecord>> {
    const { rows } = await sql<IntentRow & { now_ms: number }>`select i.*, ${nowMs} as now_ms from intents i ${where}`.execute(this.#db)
    return { now: rows[0]?.now_ms ?? 0, rows: this.#reader.readAll(rows, fromIntentRow, nameOfIntent) }
  }
}

/** Like `apply`, in the caller's transaction. After a conflict the caller has to retry the whole transaction. */
export async function applyIntents(
  db: Kysely<Database> | Transaction<Database>,
  steps: readonly IntentStep[],
): Promise<{ nodeId: string; backend: string }[]> {
  if (steps.length === 0) return []
  const given = JSON.stringify(
    steps.map(({ from, to, event, detail = {} }) => ({
      node_id: from.intent.nodeId,
      backend: from.intent.backend,
      row_version: from.rowVersion,
      ...columnsOf(from.intent, to),
      ...nodeColumns(to, from.plan),
      event,
      detail,
    })),
  )
  const { rows } = await applySteps(given).execute(db)
  return rows[0]?.moved ?? []
}

function nodeColumns(to: Intent, plan: Plan) {
  const end = nodeEndOf(to, plan)
  return {
    node_status: end?.status ?? null,
    node_error: end?.error ?? null,
    node_error_code: end?.errorCode ?? null,
    proving_message: provingMessage(plan),
  }
}

// Updates the operations that wait for the intents in `moved`. A node in a ring is done
// when its replicas have moved, which rollout-writes.ts records.
const followed = sql`
  concerned as (
    -- Row by row through the index. Open nodes have no finished_at; asked by status, the planner may read a whole index of open nodes.
    -- With all columns of the intent: the planner expects one row in moved, and would join the two in a loop over both.
    select n.operation_id, m.* from moved m cross join lateral (
      select n.operation_id from operation_nodes n where n.generation = m.generation and n.finished_at is null offset 0
    ) n
  ), proving as (
    update operation_nodes n set generation = null, proving = c.generation, shown = 'downloading', phase = 'starting',
      message = c.proving_message, attempts = c.attempts, current_bytes = c.current_bytes,
      total_bytes = c.total_bytes, percentage = c.percentage
    from concerned c
    where n.operation_id = c.operation_id and n.node_id = c.node_id and n.generation = c.generation and n.finished_at is null
      and n.ring is not null and c.is_rolled_out
  ), settled as (
    update operation_nodes n set
      status = c.node_status, message = coalesce(c.node_error, c.note), error = c.node_error, error_code = c.node_error_code,
      attempts = c.attempts, dead = c.state = 'dead', current_bytes = c.current_bytes, total_bytes = c.total_bytes,
      percentage = c.percentage, finished_at = c.finished_at
    from concerned c
    where n.operation_id = c.operation_id and n.node_id = c.node_id and n.generation = c.generation and n.finished_at is null
      and c.node_status is not null and not (c.is_rolled_out and n.ring is not null)
    returning n.operation_id
  ), finished as (
    select count(*) as operations from (select distinct operation_id from settled order by operation_id) s
    cross join lateral update_finished_at(s.operation_id)
  )`

// Progress starts again with each attempt; otherwise it stays.
const applySteps = (given: string) => sql<{ moved: { nodeId: string; backend: string }[] }>`
  with step as (
    select * from jsonb_to_recordset(${given}::jsonb) as s (
      node_id text, backend text, row_version bigint, epoch bigint, attempts int, last_failure jsonb, cancel_requested boolean, state text,
      next_at float8, was_sent boolean, wait text, holder text, lease_until float8, accepted_at float8, sign_at float8, is_overdue boolean,
      finished_at float8, note text, strategy text, node_status text, node_error text,
      node_error_code text, proving_message text, event text, detail jsonb)
  ), locked as (
    -- Row by row through the index: the planner estimates every recordset at a hundred rows.
    select i.node_id, i.backend, i.op_id, s.state from (select * from step order by node_id, backend) s cross join lateral (
      select i.node_id, i.backend, i.op_id from intents i
      where i.node_id = s.node_id and i.backend = s.backend and i.row_version = s.row_version for update
    ) i
  ), rolled_out as (
    -- The shared lock keeps an open rollout open until commit; the operations never wait for a rollout that has ended.
    select r.operation_id from rollouts r where r.finished_at is null
      and r.operation_id in (select l.op_id from locked l where l.state = 'applied') order by r.operation_id for share
  ), moved as (
    update intents i set epoch = s.epoch, attempts = s.attempts, last_failure = nullif(s.last_failure, 'null'), cancel_requested = s.cancel_requested,
      state = s.state, next_at = to_timestamp(s.next_at), was_sent = s.was_sent, wait = s.wait, holder = s.holder,
      lease_until = to_timestamp(s.lease_until), accepted_at = to_timestamp(s.accepted_at), sign_at = to_timestamp(s.sign_at),
      is_overdue = s.is_overdue, finished_at = case when s.finished_at is not null then clock_timestamp() end,
      is_paused = i.is_paused and s.finished_at is null, note = coalesce(nullif(s.note, ''), i.note),
      plan = case when s.strategy is null then i.plan else jsonb_set(i.plan, '{strategy}', to_jsonb(s.strategy)) end,
      phase = case when s.state = 'working' then i.phase end,
      percentage = case when s.state = 'applied' then 100 when s.attempts > i.attempts then 0 else i.percentage end,
      current_bytes = case when s.state = 'applied' then i.total_bytes when s.attempts > i.attempts then 0 else i.current_bytes end,
      file_name = case when s.attempts > i.attempts then '' else i.file_name end,
      tried_since = case when s.attempts > i.attempts then s.epoch + 1 else i.tried_since end,
      row_version = i.row_version + 1
    from step s join locked l on l.node_id = s.node_id and l.backend = s.backend
    where i.node_id = s.node_id and i.backend = s.backend
    returning i.*, s.event, s.detail, s.node_status, s.node_error, s.node_error_code, s.proving_message,
      i.state = 'applied' and i.op_id in (select r.operation_id from rolled_out r) as is_rolled_out
  ), logged as (
    insert into intent_events (node_id, backend, generation, epoch, type, detail)
    select node_id, backend, generation, epoch, event, detail from moved
  ), ${followed}, changed as (
    select 0 as rank, 'node' as kind, node_id as id from moved where finished_at is not null
    union select 1, 'operation', operation_id from concerned
  ), recorded as (
    select count(*) as changes from (select * from changed order by rank, id) c cross join lateral record_change(c.kind, c.id, false)
  )
  select coalesce((select jsonb_agg(jsonb_build_object('nodeId', node_id, 'backend', backend)) from moved), '[]') as moved,
    (select operations from finished), (select changes from recorded)`
