// Queries about nodes: their registration and the settings of administrators. Liveness: pulses.ts.
import { Secret } from '@muster/host'
import {
  InstalledBackend,
  NodeId,
  PublicKey,
  Resources,
  type Responsiveness,
  type Liveness,
  type NodeType,
  type Registration,
} from '@muster/protocol'
import { sql, type Kysely, type Transaction } from 'kysely'
import { z } from 'zod'
import { retryConflicts } from './errors.ts'
import type { Database } from './tables.ts'

export interface NodeRecord {
  readonly id: NodeId
  readonly publicKey: PublicKey
  readonly name: string
  readonly nodeType: NodeType
  readonly version: string
  readonly features: readonly string[]
  readonly os: string
  readonly arch: string
  readonly capability: string
  readonly gatewayUrl: string
  /** Authenticates controllers at the node's gateway. Used for its session and for tokens; never shown. */
  readonly gatewaySecret: Secret
  readonly reportedLabels: Readonly<Record<string, string>>
  readonly labelOverrides: Readonly<Record<string, string | null>>
  readonly vramBudget: string | null
  readonly maxReplicasPerModel: number | null
  readonly draining: boolean
  readonly incarnation: string
  readonly inventory: readonly InstalledBackend[]
  /** The process that reported the inventory; null before the first report. */
  readonly inventoryIncarnation: string | null
  readonly createdAt: string
  readonly approvedAt: string | null
  readonly liveness: Liveness
  readonly answering: Responsiveness
  readonly lastSeenAt: string | null
  readonly resources: Resources
  readonly inFlight: number
  /** Number of open intents. */
  readonly pendingOps: number
  /** Models with replicas on the node. */
  readonly models: readonly string[]
  /** Models that an administrator unloaded on this node alone. */
  readonly unloadedModels: readonly string[]
}

export type RefreshResult = { outcome: 'refreshed'; id: NodeId } | { outcome: 'outdated'; newest: string } | { outcome: 'unknown' }

export type Arrival = Readonly<{ approvedBy: string | null; signedAt: Date }>

export interface StatusFacts {
  readonly approved: boolean
  readonly draining: boolean
  readonly liveness: Liveness
  readonly answering: Responsiveness
  readonly count: number
}

const StoredLabels = z.record(z.string(), z.string())
const StoredOverrides = z.record(z.string(), z.string().nullable())
const StoredInventory = z.array(InstalledBackend)

/** For statements with `nodes` under the alias `n` and `node_pulses` under the alias `p`. */
const isPresent = (n: string) => sql`${sql.ref(`${n}.approved_at`)} is not null and p.liveness = 'present'`

/** The node reports and answers. It may be draining: its ready replicas serve until they are replaced. */
export const nodeIsReachable = (n = 'n') => sql<boolean>`(${isPresent(n)} and p.answering = 'yes')`

/** Commands may be sent to the node. A node without responders is tried again; an unproven node is probed first. */
export const nodeTakesCommands = sql<boolean>`(${isPresent('n')} and p.answering <> 'unproven')`

const select = (db: Kysely<Database>) =>
  db
    .selectFrom('nodes')
    .innerJoin('node_pulses', 'node_pulses.node_id', 'nodes.id')
    .selectAll('nodes')
    .select(['liveness', 'answering', 'last_seen_at', 'resources', 'in_flight'])
    .select((e) =>
      e
        .selectFrom('intents')
        .whereRef('intents.node_id', '=', 'nodes.id')
        .where('intents.state', 'in', ['waiting', 'sending', 'working'])
        .select((count) => count.fn.countAll<number>().as('open'))
        .$asScalar()
        .$notNull()
        .as('pending_ops'),
    )
    .select(
      sql<string[]>`array(select distinct r.model from replicas r where r.node_id = nodes.id and r.state <> 'exited' order by r.model)`.as(
        'models',
      ),
    )
    .select(sql<string[]>`array(select u.model from node_unloads u where u.node_id = nodes.id order by u.model)`.as('unloaded_models'))

type Row = Awaited<ReturnType<ReturnType<typeof select>['executeTakeFirstOrThrow']>>

const fromRow = (row: Row): NodeRecord => ({
  id: NodeId.parse(row.id),
  publicKey: PublicKey.parse(row.public_key),
  name: row.name,
  nodeType: row.node_type,
  version: row.version,
  features: row.features,
  os: row.os,
  arch: row.arch,
  capability: row.capability,
  gatewayUrl: row.gateway_url,
  gatewaySecret: new Secret(row.gateway_secret),
  reportedLabels: StoredLabels.parse(row.reported_labels),
  labelOverrides: StoredOverrides.parse(row.label_overrides),
  vramBudget: row.vram_budget,
  maxReplicasPerModel: row.max_replicas_per_model,
  draining: row.draining,
  incarnation: row.incarnation,
  inventory: StoredInventory.parse(row.inventory),
  inventoryIncarnation: row.inventory_incarnation,
  createdAt: row.created_at,
  approvedAt: row.approved_at,
  liveness: row.liveness,
  answering: row.answering,
  lastSeenAt: row.last_seen_at,
  resources: Resources.parse(row.resources),
  inFlight: row.in_flight,
  pendingOps: row.pending_ops,
  models: row.models,
  unloadedModels: row.unloaded_models,
})

/** The machine as registered; the worker does not write the other columns. */
const reported = (registration: Registration) => ({
  name: registration.name,
  node_type: registration.node_type,
  version: registration.version,
  features: registration.features,
  os: registration.os,
  arch: registration.arch,
  capability: registration.capability,
  gateway_url: registration.gateway_url,
  reported_labels: JSON.stringify(registration.labels),
  prefetch_models: [...new Set(registration.prefetch_models)],
  incarnation: registration.incarnation,
})

export class NodeStore {
  readonly #db: Kysely<Database>

  constructor(db: Kysely<Database>) {
    this.#db = db
  }

  async find(id: NodeId): Promise<NodeRecord | null> {
    const row = await select(this.#db).where('nodes.id', '=', id).executeTakeFirst()
    return row === undefined ? null : fromRow(row)
  }

  async findByKey(publicKey: PublicKey): Promise<NodeRecord | null> {
    const row = await select(this.#db).where('public_key', '=', publicKey).executeTakeFirst()
    return row === undefined ? null : fromRow(row)
  }

  async list(): Promise<NodeRecord[]> {
    return (await select(this.#db).orderBy('name').orderBy('nodes.id').execute()).map(fromRow)
  }

  async listByIds(ids: readonly string[]): Promise<NodeRecord[]> {
    if (ids.length === 0) return []
    return (await select(this.#db).where('nodes.id', 'in', ids).execute()).map(fromRow)
  }

  /** The registered process of each node. Cheap, because every heartbeat needs it. */
  async incarnationsOf(ids: readonly NodeId[]): Promise<Map<string, string>> {
    if (ids.length === 0) return new Map()
    const { rows } = await sql<{ id: string; incarnation: string }>`
      select id, incarnation from nodes where id = any(${ids}::text[])`.execute(this.#db)
    return new Map(rows.map(({ id, incarnation }) => [id, incarnation]))
  }

  /** Facts that decide the status, and the number of nodes with them. */
  async countByStatusFacts(): Promise<StatusFacts[]> {
    return await this.#db
      .selectFrom('nodes')
      .innerJoin('node_pulses', 'node_pulses.node_id', 'nodes.id')
      .select(['draining', 'liveness', 'answering'])
      .select((e) => [e('approved_at', 'is not', null).$castTo<boolean>().as('approved'), e.fn.countAll<number>().as('count')])
      .groupBy(['approved', 'draining', 'liveness', 'answering'])
      .execute()
  }

  async countPending(): Promise<number> {
    const row = await this.#db
      .selectFrom('nodes')
      .where('approved_at', 'is', null)
      .select((e) => e.fn.countAll<number>().as('pending'))
      .executeTakeFirstOrThrow()
    return row.pending
  }

  /**
   * Updates the row of a known key. A process may repeat its registration; of two processes the one that signed later wins,
   * whichever arrives last.
   */
  async refresh(registration: Registration, signedAt: Date): Promise<RefreshResult> {
    const at = signedAt.toISOString()
    const row = await this.#db
      .updateTable('nodes')
      .set({ ...reported(registration), registration_signed_at: sql<string>`greatest(registration_signed_at, ${at})` })
      .where('public_key', '=', registration.public_key)
      .where((e) =>
        e.or([
          e('incarnation', '=', registration.incarnation),
          e('registration_signed_at', 'is', null),
          e('registration_signed_at', '<', at),
        ]),
      )
      .returning('id')
      .executeTakeFirst()
    if (row !== undefined) return { outcome: 'refreshed', id: NodeId.parse(row.id) }
    const newer = await this.#db
      .selectFrom('nodes')
      .where('public_key', '=', registration.public_key)
      .select('registration_signed_at')
      .executeTakeFirst()
    return newer === undefined ? { outcome: 'unknown' } : { outcome: 'outdated', newest: newer.registration_signed_at ?? at }
  }

  /** Inserts a row for a new key. Null when the key was registered meanwhile (then: refresh). */
  async insert(id: NodeId, registration: Registration, { approvedBy, signedAt }: Arrival): Promise<NodeId | null> {
    return await this.#db.transaction().execute(async (tx) => {
      const row = await tx
        .insertInto('nodes')
        .values({
          id,
          public_key: registration.public_key,
          ...reported(registration),
          registration_signed_at: signedAt.toISOString(),
          approved_by: approvedBy,
          approved_at: approvedBy === null ? null : sql<string>`now()`,
        })
        .onConflict((conflict) => conflict.column('public_key').doNothing())
        .returning('id')
        .executeTakeFirst()
      if (row === undefined) return null
      await tx
        .insertInto('node_pulses')
        .values({ node_id: id, resources: JSON.stringify(registration.resources), reported_at: sql<string>`now() - interval '30 seconds'` })
        .execute()
      return id
    })
  }

  /**
   * Approves a pending node and resets its pulse: heartbeats from before must not make it healthy. Does not change an approved
   * node: then the result is false.
   */
  async approve(id: NodeId, by: string): Promise<boolean> {
    const { numAffectedRows = 0n } = await sql`
      with approved as (
        update nodes set approved_at = now(), approved_by = ${by} where id = ${id} and approved_at is null returning id
      )
      update node_pulses p set liveness = 'new', answering = 'yes' from approved where p.node_id = approved.id`.execute(this.#db)
    return numAffectedRows > 0n
  }

  /** False when nothing was different, or the node does not exist. */
  async setDraining(id: NodeId, draining: boolean): Promise<boolean> {
    const { numUpdatedRows } = await this.#db
      .updateTable('nodes')
      .set({ draining })
      .where('id', '=', id)
      .where('draining', '<>', draining)
      .executeTakeFirst()
    return numUpdatedRows > 0n
  }

  async setVramBudget(id: NodeId, budget: string | null): Promise<void> {
    await this.#db.updateTable('nodes').set({ vram_budget: budget }).where('id', '=', id).execute()
  }

  async setMaxReplicasPerModel(id: NodeId, limit: number | null): Promise<void> {
    await this.#db.updateTable('nodes').set({ max_replicas_per_model: limit }).where('id', '=', id).execute()
  }

  /**
   * Reads and writes the labels under the lock of the row, so that concurrent edits both count. An edit to null changes nothing.
   */
  async editLabels(id: NodeId, edit: (node: NodeRecord) => Record<string, string | null> | null): Promise<NodeRecord | null> {
    return await this.#db.transaction().execute(async (tx) => {
      const row = await select(tx).where('nodes.id', '=', id).forUpdate('nodes').executeTakeFirst()
      if (row === undefined) return null
      const overrides = edit(fromRow(row))
      if (overrides === null) return fromRow(row)
      await tx
        .updateTable('nodes')
        .set({ label_overrides: JSON.stringify(overrides) })
        .where('id', '=', id)
        .execute()
      return fromRow({ ...row, label_overrides: overrides })
    })
  }

  async remove(id: NodeId): Promise<boolean> {
    return await retryConflicts(() =>
      this.#db.transaction().execute(async (tx) => {
        const { rows } = await sql`select from nodes where id = ${id} for update`.execute(tx)
        if (rows.length === 0) return false
        // A prefetch is of this node alone.
        await sql`delete from loads where purpose = 'stage' and pinned_node_id = ${id}`.execute(tx)
        await placeLoadsAnew(tx, id)
        await endWork(tx, id)
        await tx.deleteFrom('nodes').where('id', '=', id).execute()
        return true
      }),
    )
  }
}

/** Same as `node_away` in protocol/states/load.ts. The replicas of the node are deleted with it. */
async function placeLoadsAnew(tx: Transaction<Database>, id: NodeId): Promise<void> {
  await sql`
    update loads set state = 'waiting', node_id = null, replica_id = null, install_id = null, op_id = null, next_at = now(), sign_at = null,
      holder = null, lease_until = null, row_version = row_version + 1
    where node_id = ${id} and state in ('installing', 'starting', 'ready')`.execute(tx)
}

/**
 * Settles the node in open operations; its intents are deleted with it. The loop of model operations ends those, because they may
 * involve more than their nodes.
 */
async function endWork(tx: Transaction<Database>, id: NodeId): Promise<void> {
  await sql`
    insert into intent_events (node_id, backend, generation, epoch, type, detail)
    select node_id, backend, generation, epoch, 'cancelled', '{"reason": "node removed"}' from intents
    where node_id = ${id} and state in ('waiting', 'sending', 'working') order by generation`.execute(tx)
  const { rows } = await sql<{ id: string }>`
    update operation_nodes set status = 'cancelled', message = 'node removed', finished_at = now(), shown = null, phase = null,
      proving = null, error = null, error_code = null, next_retry_at = null
    where node_id = ${id} and status = 'open' returning operation_id as id`.execute(tx)
  const ended = sql`select unnest(${rows.map((row) => row.id)}::text[]) as id`
  await sql`select update_finished_at(id) from (${ended} order by id) e`.execute(tx)
  await sql`
    select record_change(kind, id, false) from (
      select 0 as rank, 'operation' as kind, e.id from (${ended}) e
      union select 1, 'backend', b ->> 'name' from nodes n, jsonb_array_elements(n.inventory) b where n.id = ${id} and b ->> 'name' is not null
      order by rank, id
    ) c`.execute(tx)
}
