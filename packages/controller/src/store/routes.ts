// Queries for routing: models, their serving replicas, and the gateways of their nodes.
import { Secret } from '@muster/host'
import { NodeId, ReplicaId, type Responsiveness, type Liveness, type NodeType, type Policy } from '@muster/protocol'
import { sql, type Kysely } from 'kysely'
import { retryConflicts } from './errors.ts'
import type { Database } from './tables.ts'

export interface RoutableModel {
  readonly name: string
  readonly createdAt: string
  readonly policy: Policy
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
    const all = this.#db.selectFrom('models').select(['name', 'created_at as createdAt', policy])
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
