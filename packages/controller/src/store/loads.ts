// Queries about loads. protocol/states/load.ts decides; the statements here claim, read and write. Each write names the version
// that it was decided on, so of two concurrent decisions one changes nothing and decides again.
import {
  BackendName,
  ModelConfig,
  ModelName,
  type Load,
  type LoadPurpose,
  type NodeId,
  type OperationId,
  type ReplicaId,
} from '@muster/protocol'
import { sql, type Kysely, type Transaction } from 'kysely'
import { isCaughtUp } from './routes.ts'
import { fromLoadRow, loadColumns, type ListedLoad, type LoadRecord, type LoadRow, nameOfLoad, type ReadyFacts } from './load-rows.ts'
import { type ProgressTick, type Read, rowNameOf } from './intents.ts'
import { lockModel } from './models.ts'
import { nodeIsReachable } from './nodes.ts'
import { changeReplica, isConfirmed, lockToRetake, lockToStart, type ReplicaChange } from './replicas.ts'
import { retryConflicts } from './errors.ts'
import { createRowReader, type RowReader } from './readable-rows.ts'
import type { Database } from './tables.ts'

export type LoadKey = Readonly<{ model: ModelName; purpose: LoadPurpose; ordinal: number }>

export interface LoadStep {
  readonly from: LoadRecord
  readonly to: Load | 'gone'
  /** Changes of replicas, in this order. */
  readonly replicas: readonly ReplicaChange[]
  /** Set when the step was decided on all loads of the model together: it is written only if none of them has changed. */
  readonly among?: readonly LoadRecord[]
}
/**
 * `moved`: the row, another row of the decision, or a replica to take back has changed meanwhile. `crowded`: another replica was
 * placed on the node after it was chosen. Nothing was written in either case.
 */
export type Written = 'written' | 'moved' | 'crowded'

/** The part of a model that decides about its loads. */
export interface WantedModel {
  readonly name: ModelName
  readonly revision: string
  readonly backend: BackendName
  readonly config: ModelConfig
  readonly requestedReplicas: number
  readonly isUnloaded: boolean
  /** How many nodes the model may run on now. Counted for `replicas: all` only. */
  readonly matching: number
}

export type NewLoad = Readonly<{ model: ModelName; ordinal: number; pin: NodeId | null; needsCheck: boolean }>

type Tx = Transaction<Database>
type SetRow = TimedRow &
  Readonly<{
    checked: ReadyFacts['checked'] | null
    backend_digest: string | null
    draining: boolean | null
    is_reachable: boolean
    is_admitted: boolean
    listed: string | null
  }>
type TimedRow = LoadRow & { now_ms: number }
interface ModelRow {
  readonly name: string
  readonly revision: string
  readonly backend: string
  readonly config: unknown
  readonly requested_replicas: number
  readonly is_unloaded: boolean
}

/** A paused stage finishes the attempt that runs, and begins none. */
const mayBegin = sql`not (l.is_paused and l.state in ('waiting', 'failed'))`

const nowMs = sql<number>`extract(epoch from now())::float8 * 1000`
/**
 * A prefetch waits for its own node, perhaps for weeks, so it is not claimed while that node takes no work. The alias of `loads` is
 * `l`.
 */
const awaitsItsNode = sql`(l.purpose = 'stage' and l.pinned_node_id is not null and l.state in ('waiting', 'failed') and not exists (
  select from nodes n join node_pulses p on p.node_id = n.id where n.id = l.pinned_node_id and ${nodeIsReachable()} and not n.draining))`
/** Loads that choose a node: one after the other. */
const choosesNode = (l: string) => sql`(${sql.ref(`${l}.purpose`)} = 'serve' or ${sql.ref(`${l}.pinned_node_id`)} is null)`

const keyIs = ({ model, purpose, ordinal }: LoadKey) => sql`model = ${model} and purpose = ${purpose} and ordinal = ${ordinal}`

export class LoadStore {
  readonly #db: Kysely<Database>
  readonly #reader: RowReader
  /** Keys of loads that this version cannot read. They are claimed by newer controllers only. */
  readonly #unreadable = new Set<string>()

  constructor(db: Kysely<Database>, reader: RowReader = createRowReader()) {
    this.#db = db
    this.#reader = reader
  }

  /**
   * Claims due loads, including those of a controller that is gone. Loads of one model are placed one after the other on all
   * controllers: two at once would both find the same node empty. A load that this version cannot read is given back at once and
   * left alone from then on.
   */
  async claim({ holder, leaseMs, limit }: { holder: string; leaseMs: number; limit: number }): Promise<Read<LoadRecord>> {
    const { rows } = await sql<TimedRow>`
      with due as (
        select l.model, l.purpose, l.ordinal from loads l where l.next_at <= now() and (l.lease_until is null or l.lease_until < now()) and ${mayBegin} ${this.#isReadable('l')}
          and not ${awaitsItsNode} and not (l.state in ('waiting', 'failed') and ${choosesNode('l')} and exists (
            select from loads o where o.model = l.model and o.purpose = l.purpose and o.ordinal < l.ordinal and ${choosesNode('o')}
              and o.state in ('waiting', 'failed') and o.next_at <= now()))
        order by l.next_at, l.ordinal limit ${limit} for update skip locked
      )
      update loads l set holder = ${holder}, lease_until = now() + make_interval(secs => ${leaseMs / 1000}), row_version = l.row_version + 1
      from due where l.model = due.model and l.purpose = due.purpose and l.ordinal = due.ordinal
      returning l.*, ${nowMs} as now_ms`.execute(this.#db)
    const claimed = this.#readOf(rows)
    if (claimed.rows.length < rows.length) await this.#giveBack(rows, claimed.rows)
    return claimed
  }

  /** With the row version: a load that was changed may be readable. */
  #isReadable(alias: string) {
    if (this.#unreadable.size === 0) return sql``
    const column = (name: string) => sql.ref(`${alias}.${name}`)
    const key = sql`${column('model')} || ' ' || ${column('purpose')} || ' ' || ${column('ordinal')} || ' ' || ${column('row_version')}`
    return sql`and ${key} <> all(${[...this.#unreadable]}::text[])`
  }

  async #giveBack(rows: readonly TimedRow[], readable: readonly LoadRecord[]): Promise<void> {
    const known = new Set(readable.map(({ load }) => keyOf(load)))
    for (const row of rows.filter((each) => !known.has(keyOf(each)))) {
      this.#unreadable.add(`${keyOf(row)} ${row.row_version}`)
      await sql`
        update loads set holder = null, lease_until = null
        where model = ${row.model} and purpose = ${row.purpose} and ordinal = ${row.ordinal} and row_version = ${row.row_version}`.execute(
        this.#db,
      )
    }
  }

  /** Writes the load and its replicas in one transaction. */
  async apply({ from, to, replicas, among }: LoadStep): Promise<Written> {
    return await retryConflicts(() =>
      this.#db.transaction().execute(async (tx): Promise<Written> => {
        if (among !== undefined && !(await isStill(tx, from.load.model, among))) return 'moved'
        for (const change of replicas) {
          if (change.do === 'retake' && !(await lockToRetake(tx, change))) return 'moved'
          if (change.do === 'start' && !(await lockToStart(tx, change))) return 'crowded'
        }
        if (!(await writeLoad(tx, from, to))) return 'moved'
        for (const change of replicas) await changeReplica(tx, change)
        return 'written'
      }),
    )
  }

  /**
   * Evicts these replicas for other models and returns the names of their models; null when one of them cannot be evicted any
   * more.
   */
  async evict(victims: readonly ReplicaId[]): Promise<string[] | null> {
    return await retryConflicts(() => this.#db.transaction().execute((tx) => evict(tx, victims)))
  }

  async find(key: LoadKey): Promise<Read<LoadRecord>> {
    return await this.#read(sql`where ${keyIs(key)}`)
  }

  async findByReplica(id: ReplicaId): Promise<Read<LoadRecord>> {
    return await this.#read(sql`where replica_id = ${id}`)
  }

  async findByOp(nodeId: NodeId, opId: OperationId): Promise<Read<LoadRecord>> {
    return await this.#read(sql`where node_id = ${nodeId} and op_id = ${opId}`)
  }

  async listOfModel(model: string): Promise<Read<LoadRecord>> {
    return await this.#read(sql`where model = ${model} order by purpose, ordinal`)
  }

  async listOfModels(models: readonly string[]): Promise<Read<LoadRecord>> {
    return await this.#read(sql`where model = any(${models}::text[]) order by model, purpose, ordinal`)
  }

  /**
   * All loads, or those of one model, with the facts that decide which load replaces which. `unreadable`: models with a load
   * that this version cannot read, about which it must not decide.
   */
  async listSets(model: ModelName | null = null): Promise<Read<ListedLoad> & { readonly unreadable: ReadonlySet<string> }> {
    const { rows } = await sql<SetRow>`
      with listed as (
        select distinct on (n.id, b ->> 'name') n.id as node_id, b ->> 'name' as backend, b ->> 'digest' as digest
        from nodes n, jsonb_array_elements(n.inventory) b
        where n.id in (select o.node_id from loads o where o.state = 'ready' and (${model}::text is null or o.model = ${model}))
      )
      select l.*, ${nowMs} as now_ms, r.checked, r.backend_digest, n.draining,
        coalesce(r.state = 'ready' and ${nodeIsReachable()} and ${isConfirmed}, false) as is_reachable,
        coalesce(r.state = 'ready' and r.checked = 'passed' and (${isCaughtUp} or c.at < now() - interval '30 seconds'), false) as is_admitted,
        -- A replica created after the inventory runs a newer build than the inventory lists, which is no reason to replace it.
        case when r.created_at <= n.inventory_at then i.digest end as listed
      from loads l left join replicas r on l.state = 'ready' and r.id = l.replica_id
        left join changes c on c.kind = 'replica' and c.id = r.id
        left join nodes n on n.id = r.node_id left join node_pulses p on p.node_id = r.node_id
        left join listed i on i.node_id = r.node_id and i.backend = r.backend
      where ${model}::text is null or l.model = ${model} order by l.model, l.purpose, l.ordinal`.execute(this.#db)
    const read = this.#reader.readAll(rows, (row) => ({ ...fromLoadRow(row), ready: readyOf(row) }), nameOfLoad)
    const known = new Set(read.map(({ load }) => keyOf(load)))
    const unreadable = new Set(rows.filter((row) => !known.has(keyOf(row))).map((row) => row.model))
    return { now: rows[0]?.now_ms ?? 0, rows: read, unreadable }
  }

  /** Loads on absent nodes. A ready load on a draining node serves until another one is ready. */
  async findAway(limit: number): Promise<Read<LoadRecord>> {
    return await this.#read(sql`
      where l.state in ('installing', 'starting', 'ready') and exists (
        select from nodes n join node_pulses p on p.node_id = n.id where n.id = l.node_id
          and (not ${nodeIsReachable()} or n.draining and l.state <> 'ready')
      ) order by l.model, l.ordinal limit ${limit}`)
  }

  /** Loads that failed for lack of their backend before it was installed on some node. */
  async findArrived(limit: number): Promise<Read<LoadRecord>> {
    return await this.#read(sql`
      where l.state = 'failed' and l.failure ->> 'source' = 'backend' and exists (
        select from intents i join models m on m.name = l.model
        where i.backend = ${rowNameOf(sql`m.backend`)} and i.state = 'applied' and i.kind <> 'delete' and i.finished_at > l.failed_at
      ) order by l.model, l.ordinal limit ${limit}`)
  }

  async models(): Promise<WantedModel[]> {
    const { rows } = await sql<ModelRow>`${selectModels}`.execute(this.#db)
    return this.#reader.readAll(rows, modelOf, ({ name }) => `model ${name}`)
  }

  async model(name: ModelName): Promise<WantedModel | null> {
    const { rows } = await sql<ModelRow>`${selectModels} where name = ${name}`.execute(this.#db)
    return rows[0] === undefined ? null : modelOf(rows[0])
  }

  /** Adds loads that do not exist yet, with the current revision of their model. */
  async add(loads: readonly NewLoad[]): Promise<void> {
    if (loads.length === 0) return
    await sql`
      insert into loads (model, purpose, ordinal, revision, state, next_at, pinned_node_id, needs_check)
      select m.name, 'serve', w.ordinal, m.revision, 'waiting', now(), n.id, w.needs_check
      from unnest(${loads.map((l) => l.model)}::text[], ${loads.map((l) => l.ordinal)}::int[], ${loads.map((l) => l.pin)}::text[],
        ${loads.map((l) => l.needsCheck)}::boolean[]) w (model, ordinal, pin, needs_check)
      join models m on m.name = w.model left join nodes n on n.id = w.pin
      where not m.is_unloaded
      order by m.name, w.ordinal on conflict do nothing`.execute(this.#db)
  }

  /**
   * Called for a request without a replica: requests one replica and ends a manual unload. One statement that writes only on a
   * change, so a model that has its load costs one read.
   */
  async ensure(model: ModelName): Promise<boolean> {
    const { rows } = await sql<{ added: number }>`
      with woken as (
        update models set requested_replicas = greatest(requested_replicas, 1), is_unloaded = false, used_at = now(), updated_at = now()
        where name = ${model} and (requested_replicas < 1 or is_unloaded) returning name
      ), added as (
        insert into loads (model, purpose, ordinal, revision, state, next_at)
        select m.name, 'serve', 0, m.revision, 'waiting', now() from models m
        where m.name = ${model} and not exists (select from loads l where l.model = m.name and l.purpose = 'serve')
        on conflict do nothing returning model
      )
      select ((select count(*) from woken) + (select count(*) from added))::int as added`.execute(this.#db)
    return (rows[0]?.added ?? 0) > 0
  }

  /**
   * Drops the replicas above the minimum of models without requests for this long. A load in progress is never idle, however long
   * it takes, and a ready load gets the full time from then on. Returns the models.
   */
  async forgetIdle(idleMs: number): Promise<string[]> {
    const forget = sql<{ name: string }>`
      update models m set requested_replicas = 0, updated_at = now()
      where m.requested_replicas > 0
        and greatest(coalesce(m.used_at, m.updated_at), (select max(l.sign_at) from loads l where l.model = m.name and l.state = 'ready'))
          < now() - make_interval(secs => ${idleMs / 1000})
        and not exists (
          select from loads l where l.model = m.name and l.purpose = 'serve' and l.state in ('waiting', 'installing', 'starting')
        ) returning m.name`
    const { rows } = await retryConflicts(() => forget.execute(this.#db))
    return rows.map((row) => row.name)
  }

  /**
   * Called when nodes changed: loads that failed for lack of capacity are due again, those that failed first before the others.
   */
  async reconsider(limit: number): Promise<boolean> {
    const hurry = sql`
      update loads set next_at = now(), row_version = row_version + 1
      where (model, purpose, ordinal) in (
        select l.model, l.purpose, l.ordinal from loads l
        where l.state = 'failed' and l.failure ->> 'code' = 'no_capacity' and l.next_at > now()
        order by l.failed_at, l.model, l.ordinal limit ${limit})`
    const { numAffectedRows = 0n } = await retryConflicts(() => hurry.execute(this.#db))
    return numAffectedRows > 0n
  }

  /** Called when the install of a backend ended: loads that wait for it are due. */
  async hurryInstalling(nodeIds: readonly NodeId[]): Promise<void> {
    const hurry = sql`update loads set next_at = now() where state = 'installing' and node_id = any(${nodeIds}::text[]) and next_at > now()`
    await retryConflicts(() => hurry.execute(this.#db))
  }

  /**
   * Stores reported progress, which decides nothing except that the work is alive. Returns the reports about loads in progress.
   */
  async recordProgress(ticks: readonly ProgressTick[], quietMs: number): Promise<{ nodeId: string; opId: string }[]> {
    if (ticks.length === 0) return []
    const { rows } = await sql<{ nodeId: string; opId: string }>`
      with tick as (
        select * from unnest(
          ${ticks.map((t) => t.nodeId)}::text[], ${ticks.map((t) => t.opId)}::text[], ${ticks.map((t) => t.phase)}::text[],
          ${ticks.map((t) => t.fileName)}::text[], ${ticks.map((t) => t.current)}::bigint[], ${ticks.map((t) => t.total)}::bigint[],
          ${ticks.map((t) => t.seq)}::bigint[]
        ) as t (node_id, op_id, phase, file_name, current_bytes, total_bytes, seq)
      ), fresh as (
        select l.model, l.purpose, l.ordinal, t.* from loads l join tick t on t.op_id = l.op_id and t.node_id = l.node_id
        where l.state = 'starting' and (t.seq is null or l.progress_seq is null or t.seq > l.progress_seq)
        order by l.model, l.purpose, l.ordinal for no key update of l skip locked
      ), written as (
        update loads l set phase = f.phase, file_name = f.file_name, current_bytes = f.current_bytes, total_bytes = f.total_bytes,
          progress_seq = coalesce(f.seq, l.progress_seq), sign_at = now(), next_at = greatest(l.next_at, now() + make_interval(secs => ${quietMs / 1000}))
        from fresh f where l.model = f.model and l.purpose = f.purpose and l.ordinal = f.ordinal
      )
      select l.node_id as "nodeId", l.op_id as "opId" from loads l join tick t on t.op_id = l.op_id and t.node_id = l.node_id
      where l.state = 'starting'`.execute(this.#db)
    return rows
  }

  /** Milliseconds until the next load is due; null if there is none. */
  async nextDue(): Promise<number | null> {
    const { rows } = await sql<{ ms: number | null }>`
      select extract(epoch from min(greatest(next_at, coalesce(lease_until, next_at))) - now())::float8 * 1000 as ms
      from loads l where next_at is not null and ${mayBegin} and not ${awaitsItsNode} ${this.#isReadable('l')}`.execute(this.#db)
    return rows[0]?.ms ?? null
  }

  async countByState(): Promise<{ state: string; count: number }[]> {
    const { rows } = await sql<{ state: string; count: number }>`select state, count(*)::int as count from loads group by state`.execute(
      this.#db,
    )
    return rows
  }

  async #read(where: ReturnType<typeof sql>): Promise<Read<LoadRecord>> {
    const { rows } = await sql<TimedRow>`select l.*, ${nowMs} as now_ms from loads l ${where}`.execute(this.#db)
    return this.#readOf(rows)
  }

  #readOf(rows: readonly TimedRow[]): Read<LoadRecord> {
    return { now: rows[0]?.now_ms ?? 0, rows: this.#reader.readAll(rows, fromLoadRow, nameOfLoad) }
  }
}

const keyOf = ({ model, purpose, ordinal }: { model: string; purpose: string; ordinal: number }): string => `${model} ${purpose} ${ordinal}`

const readyOf = (row: SetRow): ReadyFacts | null =>
  row.checked === null
    ? null
    : {
        ...{ checked: row.checked, isReachable: row.is_reachable, isNodeDraining: row.draining === true, isAdmitted: row.is_admitted },
        // Older workers leave the digest empty.
        ...{ digest: row.backend_digest || null, listed: row.listed || null },
      }

/** Takes the lock of the model, so that the next decision about the model sees the outcome. */
async function isStill(tx: Tx, model: ModelName, among: readonly LoadRecord[]): Promise<boolean> {
  await lockModel(tx, model)
  const rows = await tx
    .selectFrom('loads')
    .select(['ordinal', 'row_version'])
    .where('model', '=', model)
    .where('purpose', '=', 'serve')
    .execute()
  const versions = new Map(rows.map((row) => [row.ordinal, row.row_version]))
  return versions.size === among.length && among.every(({ load, version }) => versions.get(load.ordinal) === version)
}

const selectModels = sql`select name, revision, backend, config, requested_replicas, is_unloaded from models`

const modelOf = (row: ModelRow): WantedModel => ({
  name: ModelName.parse(row.name),
  revision: row.revision,
  backend: BackendName.parse(row.backend),
  config: ModelConfig.parse(row.config),
  requestedReplicas: row.requested_replicas,
  isUnloaded: row.is_unloaded,
  matching: 0,
})

async function writeLoad(tx: Tx, { load, version }: LoadRecord, to: Load | 'gone'): Promise<boolean> {
  const { model, purpose, ordinal } = load
  if (to === 'gone') {
    const { numDeletedRows } = await tx
      .deleteFrom('loads')
      .where('model', '=', model)
      .where('purpose', '=', purpose)
      .where('ordinal', '=', ordinal)
      .where('row_version', '=', version)
      .executeTakeFirst()
    return numDeletedRows > 0n
  }
  const isNewTry = to.epoch !== load.epoch
  const { numUpdatedRows } = await tx
    .updateTable('loads')
    .set({
      ...loadColumns(to),
      ...(isNewTry ? { phase: null, file_name: '', current_bytes: 0, total_bytes: 0, progress_seq: null } : {}),
      row_version: version + 1,
    })
    .where('model', '=', model)
    .where('purpose', '=', purpose)
    .where('ordinal', '=', ordinal)
    .where('row_version', '=', version)
    .executeTakeFirst()
  return numUpdatedRows > 0n
}

/**
 * Drains replicas to make room for others. Deletes their loads and lowers the demand of their models accordingly, so that they
 * come back only on request. Null: a replica is gone or draining, or its model is at its minimum. Nothing was changed then.
 */
async function evict(tx: Tx, victims: readonly ReplicaId[]): Promise<string[] | null> {
  const models = await modelsOf(tx, victims)
  for (const { model } of models) await lockModel(tx, model)
  const counted = new Map((await modelsOf(tx, victims)).map(({ model, count }) => [model, count]))
  const isSame = models.every(({ model, count }) => counted.get(model) === count) && counted.size === models.length
  const total = models.reduce((sum, { count }) => sum + count, 0)
  if (!isSame || total === 0 || total !== victims.length) return null
  for (const { model, count } of models) if (!(await mayLose(tx, model, count))) return null
  for (const { model, count } of models) await askForFewer(tx, model, count)
  await sql`delete from loads where replica_id = any(${victims}::text[])`.execute(tx)
  for (const id of victims) await changeReplica(tx, { id, do: 'drain' })
  return models.map(({ model }) => model)
}

async function modelsOf(tx: Tx, victims: readonly ReplicaId[]): Promise<{ model: string; count: number }[]> {
  const { rows } = await sql<{ model: string; count: number }>`
    select l.model, count(*)::int as count from loads l join replicas r on r.id = l.replica_id
    where l.replica_id = any(${victims}::text[]) and l.state = 'ready' and r.state = 'ready'
    group by l.model order by l.model`.execute(tx)
  return rows
}

const minimum = sql`coalesce((config -> 'scheduling' ->> 'min_replicas')::int, 0)`
export const maximum = sql`coalesce(nullif((config -> 'scheduling' ->> 'max_replicas')::int, 0), case
  when config -> 'scheduling' ? 'max_replicas' then requested_replicas else greatest(1, ${minimum}) end)`

async function mayLose(tx: Tx, model: string, count: number): Promise<boolean> {
  const { rows } = await sql`
    select from models where name = ${model} and coalesce(config -> 'scheduling' ->> 'replicas', '') <> 'all'
      and least(requested_replicas, ${maximum}) - ${count}::int >= ${minimum}`.execute(tx)
  return rows.length > 0
}

async function askForFewer(tx: Tx, model: string, count: number): Promise<void> {
  await sql`update models set requested_replicas = least(requested_replicas, ${maximum}) - ${count}::int, updated_at = now() where name = ${model}`.execute(
    tx,
  )
}
