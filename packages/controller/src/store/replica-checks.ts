// Queries about replica checks: a new replica may have to answer a check question before it gets requests. Checks are claimed by
// lease: nothing is locked during a check, and a controller that lost its lease writes nothing.
import { Secret } from '@muster/host'
import { ModelName, NodeId, ReplicaId } from '@muster/protocol'
import { sql, type Kysely } from 'kysely'
import { z } from 'zod'
import { retryConflicts } from './errors.ts'
import { nodeIsReachable } from './nodes.ts'
import type { Database } from './tables.ts'

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

type Row = Readonly<{
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
    const { rows } = await sql<Row>`
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
