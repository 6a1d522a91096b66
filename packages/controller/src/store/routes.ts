// Queries for routing: models, their serving replicas, the gateways of their nodes, and the controllers that route to them, each
// with the last change that it routes by.
import { Secret } from '@muster/host'
import { type Liveness, NodeId, type NodeType, type Policy, ReplicaId, type Responsiveness } from '@muster/protocol'
import { type Kysely, sql } from 'kysely'
import { retryConflicts } from './errors.ts'
import type { Database } from './tables.ts'

export interface RoutableModel {
  readonly name: string
  readonly createdAt: string
  readonly policy: Policy
  /** No requests are accepted. */
  readonly isDisabled: boolean
}
export interface ReadyReplica {
  readonly id: ReplicaId
  readonly model: string
  readonly revision: string
  readonly node: {
    readonly id: NodeId
    readonly name: string
    readonly gatewayUrl: string
    readonly gatewaySecret: Secret
    readonly approved: boolean
    readonly draining: boolean
    readonly liveness: Liveness
    readonly answering: Responsiveness
    readonly lastSeenAt: string | null
  }
}
/** The gateway of a node. */
export interface NodeGateway {
  readonly name: string
  readonly nodeType: NodeType
  readonly gatewayUrl: string
  readonly gatewaySecret: Secret
}
/** Null: everything. */
export type RouteScope = Readonly<{ models: readonly string[]; nodes: readonly string[] }> | null

export class RouteStore {
  readonly #db: Kysely<Database>

  constructor(db: Kysely<Database>) {
    this.#db = db
  }

  async models(scope: RouteScope): Promise<RoutableModel[]> {
    if (scope !== null && scope.models.length === 0) return []
    const policy = sql<string | null>`config #>> '{scheduling,policy}'`.as('policy')
    const isDisabled = sql<boolean>`coalesce(config #> '{scheduling,disabled}' = 'true'::jsonb, false)`.as('isDisabled')
    const all = this.#db.selectFrom('models').select(['name', 'created_at as createdAt', policy, isDisabled])
    const rows = await (scope === null ? all : all.where('name', 'in', scope.models)).execute()
    return rows.map((row) => ({ ...row, policy: row.policy === 'least' ? 'least' : 'prefix' }))
  }

  /**
   * Replicas that are ready, have an ordinal and passed their check. Of any revision: a successor becomes ready before the old
   * replica drains. The caller decides whether the node is reachable.
   */
  async replicas(scope: RouteScope): Promise<ReadyReplica[]> {
    const all = this.#db
      .selectFrom('replicas')
      .innerJoin('models', 'models.name', 'replicas.model')
      .innerJoin('nodes', 'nodes.id', 'replicas.node_id')
      .innerJoin('node_pulses', 'node_pulses.node_id', 'nodes.id')
      .where('replicas.state', '=', 'ready')
      .where('replicas.ordinal', 'is not', null)
      .where('replicas.checked', '=', 'passed')
      .select(['replicas.id as replica_id', 'replicas.model', 'replicas.revision', 'nodes.id as node_id', 'nodes.name as node_name'])
      .select(['gateway_url', 'gateway_secret', 'approved_at', 'draining', 'liveness', 'answering', 'last_seen_at'])
    const rows = await (
      scope === null
        ? all
        : all.where((e) =>
            e.or([
              e('replicas.model', '=', e.fn.any(e.val([...scope.models]))),
              e('replicas.node_id', '=', e.fn.any(e.val([...scope.nodes]))),
            ]),
          )
    ).execute()
    return rows.map((row) => ({
      id: ReplicaId.parse(row.replica_id),
      model: row.model,
      revision: row.revision,
      node: {
        id: NodeId.parse(row.node_id),
        name: row.node_name,
        gatewayUrl: row.gateway_url,
        gatewaySecret: new Secret(row.gateway_secret),
        approved: row.approved_at !== null,
        draining: row.draining,
        liveness: row.liveness,
        answering: row.answering,
        lastSeenAt: row.last_seen_at,
      },
    }))
  }

  async gatewayOf(id: NodeId): Promise<NodeGateway | null> {
    const row = await this.#db
      .selectFrom('nodes')
      .select(['name', 'node_type as nodeType', 'gateway_url as gatewayUrl', 'gateway_secret'])
      .where('id', '=', id)
      .where('approved_at', 'is not', null)
      .executeTakeFirst()
    if (row === undefined) return null
    const { gateway_secret: secret, ...gateway } = row
    return { ...gateway, gatewaySecret: new Secret(secret) }
  }

  /**
   * Models without requests may be unloaded. The time never goes back, because another controller may have served a later
   * request.
   */
  async markUsed(models: readonly string[]): Promise<void> {
    if (models.length === 0) return
    const mark = sql`update models set used_at = now() where name = any(${[...models]}) and (used_at is null or used_at < now())`
    await retryConflicts(() => mark.execute(this.#db))
  }
}

// Controllers: workers need their addresses, the UI lists them, and a replica drains when all of them have stopped routing to it.

export interface ControllerRecord {
  readonly id: string
  readonly url: string
  readonly version: string
  readonly started_at: string
  readonly last_seen_at: string
}

type OwnController = Readonly<{ id: string; url: string; version: string; pinned?: Readonly<Record<string, string>> }>

export class ControllerStore {
  readonly #db: Kysely<Database>

  constructor(db: Kysely<Database>) {
    this.#db = db
  }

  /** `pinned`: the origin of each setting of this process that cannot be changed by the API. */
  async heartbeat({ pinned = {}, ...own }: OwnController): Promise<void> {
    await this.#db
      .insertInto('controllers')
      .values({ ...own, pinned_settings: JSON.stringify(pinned) })
      .onConflict((conflict) => conflict.column('id').doUpdateSet({ last_seen_at: sql<string>`now()`, url: own.url }))
      .execute()
    await sql`delete from controllers where last_seen_at < now() - interval '1 hour'`.execute(this.#db)
  }

  async listLive(withinMs: number): Promise<ControllerRecord[]> {
    return await this.#db
      .selectFrom('controllers')
      .select(['id', 'url', 'version', 'started_at', 'last_seen_at'])
      .where('last_seen_at', '>', sql<string>`now() - make_interval(secs => ${withinMs / 1000})`)
      .orderBy('started_at')
      .orderBy('id')
      .execute()
  }

  /** Records up to which change this controller routes. False when the controller has no row yet. */
  async recordRoutes(id: string, seq: number): Promise<boolean> {
    const { numUpdatedRows } = await this.#db
      .updateTable('controllers')
      .set({ routes_seq: sql<number>`greatest(routes_seq, ${seq})` })
      .where('id', '=', id)
      .executeTakeFirst()
    return numUpdatedRows > 0n
  }

  async remove(id: string): Promise<void> {
    await this.#db.deleteFrom('controllers').where('id', '=', id).execute()
  }

  async databaseInfo(): Promise<{ version: string; now: string }> {
    const result = await sql<{ version: string; now: string }>`select current_setting('server_version') as version, now() as now`.execute(
      this.#db,
    )
    const row = result.rows[0]
    if (row === undefined) throw new Error('select without from has always one row')
    return row
  }
}

/** A controller that was not seen for this long is gone or disconnected: three rounds of housekeeping. */
const liveMs = 15_000

/**
 * True when every live controller routes by the change `c` (a row of `changes`). A controller that has not reported yet does not.
 * Evaluated once per statement.
 */
export const isCaughtUp = sql`coalesce(c.seq, 0) <= (
  select coalesce(min(k.routes_seq), 9223372036854775807) from controllers k
  where k.last_seen_at > now() - make_interval(secs => ${sql.lit(liveMs / 1000)}))`
