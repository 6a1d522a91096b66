// Queries about replicas: the processes that serve models, and the checks of new ones. A row is inserted before the command is
// sent, so a process without a row is unknown. An ID is never used twice.
import { Secret } from '@muster/host'
import { ModelName, NodeId, type OperationId, ReplicaId, ReplicaState } from '@muster/protocol'
import { type Kysely, sql, type Transaction } from 'kysely'
import { z } from 'zod'
import { retryConflicts } from './errors.ts'
import { nodeIsReachable } from './nodes.ts'
import { createRowReader, type RowReader } from './readable-rows.ts'
import { isCaughtUp } from './routes.ts'
import type { Booking } from './placement.ts'
import type { Database } from './tables.ts'

/** The last report of the worker that was applied. */
export type Stamp = Readonly<{ incarnation: string; seq: number }>
export type Exit = Readonly<{ exit_code?: number; signal?: string; last_lines?: readonly string[]; expected?: boolean; reason?: string }>

/** A change of a replica, after a step of its load or a report of its worker. */
export type ReplicaChange = Readonly<{ id: ReplicaId }> &
  (
    | Readonly<{
        do: 'start'
        model: string
        revision: string
        ordinal: number
        nodeId: NodeId
        backend: string
        config: object
        opId: OperationId
        /** The replica gets no requests until it has passed a check. */
        needsCheck: boolean
        /** The live replicas of the node that were known when the node was chosen. */
        seen: readonly ReplicaId[]
        /** Where its memory is booked; left out when unknown. */
        booking?: Booking | null
      }>
    | Readonly<{ do: 'ready'; backendDigest: string | null; stamp: Stamp | null }>
    | Readonly<{ do: 'exit'; exit: Exit; stamp: Stamp | null }>
    /** Detaches the replica from its load, which may get another one. It keeps running until it is retaken or drained. */
    | Readonly<{ do: 'release' }>
    | Readonly<{ do: 'retake'; ordinal: number }>
    /** The replica gets no new requests, and exits. */
    | Readonly<{ do: 'drain' }>
    /** Like `drain`, for a replica without a load; only if all ordinals of its revision have a replica. */
    | Readonly<{ do: 'drain_surplus'; /** As it was read: one that was taken back since has another. */ ordinal: number | null }>
  )

export interface ReplicaRecord {
  readonly id: ReplicaId
  readonly model: string
  readonly revision: string
  readonly ordinal: number | null
  /** Distinguishes the processes of one model on one node; never changes. */
  readonly slot: number
  readonly nodeId: NodeId
  readonly nodeName: string
  readonly backend: string
  readonly backendDigest: string | null
  readonly state: ReplicaState
  readonly opId: string | null
  readonly stamp: Stamp | null
  readonly createdAt: string
  /** Null: it has not exited. */
  readonly exitedAt: string | null
  /** Time in the current state, by the database's clock. */
  readonly ageMs: number
  /** The last heartbeat of its node, and the time since, by the database's clock; null: none yet. */
  readonly heardAt: string | null
  readonly heardMs: number | null
  /** The node is reachable, draining or not. */
  readonly isReachable: boolean
  readonly isNodeDraining: boolean
  /** A load has this replica. */
  readonly hasLoad: boolean
}

/** `areSomeWaiting`: other drains wait for controllers that may still route requests to them. */
export type Drains = Readonly<{ due: readonly Readonly<{ id: ReplicaId; nodeId: NodeId }>[]; areSomeWaiting: boolean }>

interface Row {
  readonly id: string
  readonly model: string
  readonly revision: string
  readonly ordinal: number | null
  readonly slot: number
  readonly node_id: string
  readonly node_name: string
  readonly backend: string
  readonly backend_digest: string | null
  readonly state: ReplicaState
  readonly op_id: string | null
  readonly incarnation: string | null
  readonly seq: number | null
  readonly created_at: string
  readonly exited_at: string | null
  readonly age_ms: number
  readonly heard_at: string | null
  readonly heard_ms: number | null
  readonly draining: boolean
  readonly is_reachable: boolean
  readonly has_load: boolean
}

/** For the aliases `r` and `n`. A restarted worker may have lost the replica: it counts again when the worker has reported it. */
export const isConfirmed = sql`(r.state <> 'ready' or r.incarnation is null or r.incarnation = n.incarnation)`

const select = sql`
  select r.id, r.model, r.revision, r.ordinal, r.slot, r.node_id, n.name as node_name, r.backend, r.backend_digest, r.state, r.op_id, r.incarnation,
    r.seq, r.created_at, r.exited_at, extract(epoch from now() - coalesce(r.exited_at, r.drain_since, r.ready_at, r.created_at))::float8 * 1000 as age_ms,
    p.last_seen_at as heard_at, extract(epoch from now() - p.last_seen_at)::float8 * 1000 as heard_ms,
    n.draining, ${nodeIsReachable()} and ${isConfirmed} as is_reachable,
    exists (select from loads l where l.replica_id = r.id) as has_load
  from replicas r join nodes n on n.id = r.node_id join node_pulses p on p.node_id = r.node_id`

const canRetake = (ordinal: number) => sql`r.state in ('starting', 'ready') and (r.ordinal is null or r.ordinal = ${ordinal})`

const fromRow = (row: Row): ReplicaRecord => ({
  id: ReplicaId.parse(row.id),
  model: row.model,
  revision: row.revision,
  ordinal: row.ordinal,
  slot: row.slot,
  nodeId: NodeId.parse(row.node_id),
  nodeName: row.node_name,
  backend: row.backend,
  backendDigest: row.backend_digest,
  state: ReplicaState.parse(row.state),
  opId: row.op_id,
  stamp: row.incarnation === null || row.seq === null ? null : { incarnation: row.incarnation, seq: row.seq },
  createdAt: row.created_at,
  exitedAt: row.exited_at,
  ageMs: row.age_ms,
  heardAt: row.heard_at,
  heardMs: row.heard_ms,
  isReachable: row.is_reachable,
  isNodeDraining: row.draining,
  hasLoad: row.has_load,
})

export class ReplicaStore {
  readonly #db: Kysely<Database>
  readonly #reader: RowReader

  constructor(db: Kysely<Database>, reader: RowReader = createRowReader()) {
    this.#db = db
    this.#reader = reader
  }

  /** All replicas of a model, including those that exited in the last hour. */
  async listOfModel(model: string): Promise<ReplicaRecord[]> {
    return await this.#read(sql`where r.model = ${model} order by r.created_at desc, r.id limit 1000`)
  }

  /** True when a replica can serve requests now. */
  async isServing(model: string): Promise<boolean> {
    const { rows } = await sql<{ is: boolean }>`
      select exists (
        select from replicas r join nodes n on n.id = r.node_id join node_pulses p on p.node_id = r.node_id
        where r.model = ${model} and r.state = 'ready' and r.checked = 'passed' and ${nodeIsReachable()} and ${isConfirmed}) as is`.execute(
      this.#db,
    )
    return rows[0]?.is ?? false
  }

  /** True when a replica of the same revision ran this long, now or before; exited ones are kept for an hour. */
  async isProven(id: ReplicaId, steadyForMs: number): Promise<boolean> {
    const { rows } = await sql<{ is: boolean }>`
      select exists (
        select from replicas r join replicas o on o.model = r.model and o.revision = r.revision
        where r.id = ${id} and coalesce(o.exited_at, now()) - o.ready_at >= make_interval(secs => ${steadyForMs / 1000})) as is`.execute(
      this.#db,
    )
    return rows[0]?.is ?? false
  }

  async listOfNode(nodeId: NodeId): Promise<ReplicaRecord[]> {
    return await this.#read(sql`where r.node_id = ${nodeId} and r.state <> 'exited' order by r.model collate "C", r.id`)
  }

  async listByIds(ids: readonly string[]): Promise<ReplicaRecord[]> {
    if (ids.length === 0) return []
    return await this.#read(sql`where r.id = any(${ids}::text[])`)
  }

  async find(id: ReplicaId): Promise<ReplicaRecord | null> {
    return (await this.listByIds([id]))[0] ?? null
  }

  /** Replicas on these nodes that use one of these backends. */
  async listUsing(backends: readonly string[], nodeIds: readonly NodeId[]): Promise<ReplicaRecord[]> {
    return await this.#read(sql`
      where r.state in ('starting', 'ready') and r.backend = any(${[...new Set(backends)]}::text[]) and r.node_id = any(${nodeIds}::text[])
      order by r.model collate "C", n.name collate "C"`)
  }

  /**
   * Replicas on these nodes that are not known to have exited, and those that exited a moment ago, which an older report may
   * still list.
   */
  async liveOn(nodeIds: readonly NodeId[]): Promise<ReplicaRecord[]> {
    if (nodeIds.length === 0) return []
    return await this.#read(sql`
      where r.node_id = any(${nodeIds}::text[]) and (r.state <> 'exited' or r.exited_at > now() - interval '10 seconds')`)
  }

  /** A replica of this revision without a load, on a reachable node, that can take this ordinal. */
  async findReturned({ model, revision, ordinal }: { model: string; revision: string; ordinal: number }): Promise<ReplicaRecord | null> {
    const [found = null] = await this.#read(sql`
      where r.model = ${model} and r.revision = ${revision} and ${canRetake(ordinal)} and r.op_id is not null and ${nodeIsReachable()} and ${isConfirmed}
        and (r.state = 'ready' or not n.draining) and not exists (select from loads l where l.replica_id = r.id)
      order by r.state = 'ready' desc, r.created_at, r.id limit 1`)
    return found
  }

  /** Replicas without a load, on present nodes, that are neither draining nor exited. */
  async findSurplus(limit: number): Promise<ReplicaRecord[]> {
    return await this.#read(sql`
      where r.state in ('starting', 'ready') and ${nodeIsReachable()} and ${isConfirmed}
        and not exists (select from loads l where l.replica_id = r.id)
      order by r.created_at, r.id limit ${limit}`)
  }

  /**
   * Takes draining replicas whose worker should stop them: when no controller routes to them any more, or after a time limit (the
   * worker then refuses late requests, and their controller chooses another replica). Stamps them, so that one of several
   * controllers sends the command.
   */
  async takeDrains({ everyMs, patienceMs, limit }: { everyMs: number; patienceMs: number; limit: number }): Promise<Drains> {
    const { rows } = await sql<{ id: string; node_id: string }>`
      with due as (
        select r.id from replicas r join nodes n on n.id = r.node_id join node_pulses p on p.node_id = r.node_id
          left join changes c on c.kind = 'replica' and c.id = r.id
        where r.state = 'draining' and ${nodeIsReachable()} and coalesce(r.stop_sent_at < now() - make_interval(secs => ${everyMs / 1000}), true)
          and (r.drain_since < now() - make_interval(secs => ${patienceMs / 1000}) or ${isCaughtUp})
        order by r.id limit ${limit} for update of r skip locked
      )
      update replicas r set stop_sent_at = now() from due where r.id = due.id returning r.id, r.node_id`.execute(this.#db)
    const left = await sql<{ is: boolean }>`
      select exists (select from replicas r join nodes n on n.id = r.node_id join node_pulses p on p.node_id = r.node_id
        where r.state = 'draining' and r.stop_sent_at is null and ${nodeIsReachable()}) as is`.execute(this.#db)
    const due = rows.map((row) => ({ id: ReplicaId.parse(row.id), nodeId: NodeId.parse(row.node_id) }))
    return { due, areSomeWaiting: left.rows[0]?.is ?? false }
  }

  /** For a replica without a load. True when the row changed. */
  async change(change: ReplicaChange): Promise<boolean> {
    return await retryConflicts(() => changeReplica(this.#db, change))
  }

  /** Deletes exited replicas, which are kept for a while to show why they exited. */
  async prune({ keepMs, keepOfModel }: { keepMs: number; keepOfModel: number }): Promise<void> {
    const prune = sql`
      delete from replicas where id in (
        select id from (
          select id, exited_at, row_number() over (partition by model order by exited_at desc) as nth from replicas where state = 'exited'
        ) e where e.exited_at < now() - make_interval(secs => ${keepMs / 1000}) or e.nth > ${keepOfModel} limit 1000
      )`
    await retryConflicts(() => prune.execute(this.#db))
  }

  async countByState(): Promise<{ state: ReplicaState; count: number }[]> {
    const { rows } = await sql<{ state: ReplicaState; count: number }>`
      select state, count(*)::int as count from replicas group by state`.execute(this.#db)
    return rows
  }

  async #read(where: ReturnType<typeof sql>): Promise<ReplicaRecord[]> {
    const { rows } = await sql<Row>`${select} ${where}`.execute(this.#db)
    return this.#reader.readAll(rows, fromRow, ({ id }) => `replica ${id}`)
  }
}

/** States only go forward: an exited replica stays exited, and a draining one never serves again. */
export async function changeReplica(db: Kysely<Database> | Transaction<Database>, change: ReplicaChange): Promise<boolean> {
  const { numAffectedRows = 0n } = await statementOf(change).execute(db)
  return numAffectedRows > 0n
}

/** False: the replica is draining, exited or belongs to another load. Otherwise it is locked until the transaction ends. */
export async function lockToRetake(tx: Transaction<Database>, { id, ordinal }: { id: ReplicaId; ordinal: number }): Promise<boolean> {
  const { rows } = await sql`select from replicas r where r.id = ${id} and ${canRetake(ordinal)} for update`.execute(tx)
  return rows.length > 0
}

/**
 * Locks the node until the transaction ends. False: another replica was placed there since the node was chosen, so the free
 * memory may be in use; or an administrator unloaded the model there.
 */
export async function lockToStart(
  tx: Transaction<Database>,
  { nodeId, model, seen }: Extract<ReplicaChange, { do: 'start' }>,
): Promise<boolean> {
  await sql`select from nodes where id = ${nodeId} for no key update`.execute(tx)
  const { rows } = await sql`
    (select from replicas where node_id = ${nodeId} and state <> 'exited' and not (id = any(${seen}::text[])) limit 1)
    union all select from node_unloads where node_id = ${nodeId} and model = ${model}`.execute(tx)
  return rows.length === 0
}

function statementOf(change: ReplicaChange) {
  const { id } = change
  switch (change.do) {
    case 'start':
      return sql`
        insert into replicas (id, model, revision, ordinal, node_id, backend, config, state, op_id, checked, booking, slot)
        select ${id}, ${change.model}, ${change.revision}, ${change.ordinal}::int, ${change.nodeId}, ${change.backend},
          ${JSON.stringify(change.config)}::jsonb, 'starting', ${change.opId}, ${change.needsCheck ? 'due' : 'passed'},
          nullif(${JSON.stringify(change.booking ?? null)}::jsonb, 'null'), min(free.slot)
        from generate_series(0, (select count(*)::int from replicas where node_id = ${change.nodeId} and state <> 'exited')) free (slot)
        where not exists (
          select from replicas o where o.node_id = ${change.nodeId} and o.model = ${change.model} and o.slot = free.slot and o.state <> 'exited')`
    case 'ready':
      return sql`
        update replicas set state = 'ready', ready_at = coalesce(ready_at, now()), backend_digest = coalesce(${change.backendDigest}, backend_digest),
          incarnation = coalesce(${change.stamp?.incarnation ?? null}, incarnation), seq = coalesce(${change.stamp?.seq ?? null}::bigint, seq)
        where id = ${id} and state in ('starting', 'ready')`
    case 'exit':
      return sql`
        update replicas set state = 'exited', exited_at = now(), exit = ${JSON.stringify(change.exit)}::jsonb,
          incarnation = coalesce(${change.stamp?.incarnation ?? null}, incarnation), seq = coalesce(${change.stamp?.seq ?? null}::bigint, seq)
        where id = ${id} and state <> 'exited'`
    case 'release':
      return sql`update replicas set ordinal = null where id = ${id} and state <> 'exited'`
    case 'retake':
      return sql`update replicas set ordinal = ${change.ordinal} where id = ${id} and state in ('starting', 'ready')`
    case 'drain':
      return sql`update replicas set state = 'draining', drain_since = now(), ordinal = null where id = ${id} and state in ('starting', 'ready')`
    case 'drain_surplus':
      // A load that starts on the same node may have been refused because of this replica, so its ordinal counts as free.
      return sql`
        update replicas r set state = 'draining', drain_since = now(), ordinal = null
        where r.id = ${id} and r.state in ('starting', 'ready') and r.ordinal is not distinct from ${change.ordinal}::int
          and not exists (select from loads l where l.replica_id = r.id)
          and (r.op_id is null or not exists (
            select from loads l left join replicas o on o.id = l.replica_id and o.state in ('starting', 'ready')
            where l.model = r.model and l.purpose = 'serve' and l.revision = r.revision
              and (o.id is null or l.state = 'starting' and l.node_id = r.node_id)))`
  }
}

// Checks: a new replica may have to answer a check question before it gets requests. Checks are claimed by lease: nothing is
// locked during a check, and a controller that lost its lease writes nothing.

export interface DueCheck {
  readonly id: ReplicaId
  readonly model: ModelName
  readonly usecases: readonly string[]
  readonly nodeId: NodeId
  readonly nodeName: string
  readonly gatewayUrl: string
  readonly gatewaySecret: Secret
  /** Time since the first of consecutive attempts, by the database's clock. */
  readonly elapsedMs: number
}

type CheckRow = Readonly<{
  id: string
  model: string
  usecases: unknown
  node_id: string
  node_name: string
  gateway_url: string
  gateway_secret: string
  elapsed_ms: number
}>

const Usecases = z.array(z.string()).catch([])

/** The replica is ready, on a reachable node (which may be draining), and a load waits for the result. */
const isDue = sql`
  r.state = 'ready' and r.checked = 'due' and ${nodeIsReachable()}
  and exists (select from loads l where l.replica_id = r.id and l.state = 'ready')`

/** After a longer pause, because the node was absent or other checks came first, the time limit starts again. */
const pause = sql`interval '5 seconds'`

export class ReplicaCheckStore {
  readonly #db: Kysely<Database>

  constructor(db: Kysely<Database>) {
    this.#db = db
  }

  /** Claims due checks, oldest first. */
  async take({ holder, leaseMs, limit }: { holder: string; leaseMs: number; limit: number }): Promise<DueCheck[]> {
    const { rows } = await sql<CheckRow>`
      with due as (
        select r.id from replicas r join nodes n on n.id = r.node_id join node_pulses p on p.node_id = r.node_id
        where ${isDue} and coalesce(r.check_until < now(), true)
        order by r.ready_at, r.id limit ${limit} for update of r skip locked
      ), taken as (
        update replicas r set check_holder = ${holder}, check_until = now() + make_interval(secs => ${leaseMs / 1000}),
          check_since = case when r.check_until > now() - ${pause} then r.check_since else now() end
        from due where r.id = due.id returning r.*
      )
      select t.id, t.model, m.config -> 'known_usecases' as usecases, t.node_id, n.name as node_name, n.gateway_url, n.gateway_secret,
        extract(epoch from now() - t.check_since)::float8 * 1000 as elapsed_ms
      from taken t join models m on m.name = t.model join nodes n on n.id = t.node_id`.execute(this.#db)
    return rows.map((row) => ({
      id: ReplicaId.parse(row.id),
      model: ModelName.parse(row.model),
      usecases: Usecases.parse(row.usecases),
      nodeId: NodeId.parse(row.node_id),
      nodeName: row.node_name,
      gatewayUrl: row.gateway_url,
      gatewaySecret: new Secret(row.gateway_secret),
      elapsedMs: row.elapsed_ms,
    }))
  }

  /** Extends the lease. False: the lease is lost, or the check is not due any more. */
  async keep(id: ReplicaId, { holder, forMs }: { holder: string; forMs: number }): Promise<boolean> {
    const { numAffectedRows } = await sql`
      update replicas set check_until = now() + make_interval(secs => ${forMs / 1000})
      where id = ${id} and state = 'ready' and checked = 'due' and check_holder = ${holder}`.execute(this.#db)
    return numAffectedRows === 1n
  }

  /** True while the replica can be checked: its node is reachable, and a load waits for the result. */
  async isDue(id: ReplicaId): Promise<boolean> {
    const { rows } = await sql`
      select from replicas r join nodes n on n.id = r.node_id join node_pulses p on p.node_id = r.node_id where r.id = ${id} and ${isDue}`.execute(
      this.#db,
    )
    return rows.length > 0
  }

  /** Admits the replica to requests. False: the lease is lost. */
  async pass(id: ReplicaId, holder: string): Promise<boolean> {
    const pass = sql`
      update replicas set checked = 'passed', check_holder = null, check_until = null
      where id = ${id} and state = 'ready' and checked = 'due' and check_holder = ${holder}`
    const { numAffectedRows } = await retryConflicts(() => pass.execute(this.#db))
    return numAffectedRows === 1n
  }

  /** The load has already failed. */
  async fail(id: ReplicaId): Promise<void> {
    const fail = sql`
      update replicas set checked = 'failed', check_holder = null, check_until = null where id = ${id} and state <> 'ready' and checked = 'due'`
    await retryConflicts(() => fail.execute(this.#db))
  }

  /** Milliseconds until the next check is due; null if there is none. */
  async nextDue(): Promise<number | null> {
    const { rows } = await sql<{ in_ms: number | null }>`
      select min(greatest(coalesce(extract(epoch from r.check_until - now())::float8 * 1000, 0), 0)) as in_ms
      from replicas r join nodes n on n.id = r.node_id join node_pulses p on p.node_id = r.node_id where ${isDue}`.execute(this.#db)
    return rows[0]?.in_ms ?? null
  }
}
