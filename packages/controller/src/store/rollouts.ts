// Queries about rollouts. Intents, replicas and loads are read, and the decision is written, in one transaction under the lock of
// the backend. So a controller may be killed at any moment: a round is stored completely or not at all, and the next round, on
// any controller, continues from there.
import { Failure, NodeId, OperationId } from '@muster/protocol'
import { sql, type Kysely, type Transaction } from 'kysely'
import { z } from 'zod'
import { applyRollout } from './rollout-writes.ts'
import { rowNameOf } from './intents.ts'
import { retryConflicts } from './errors.ts'
import { RolloutSpec } from './rings.ts'
import { RolloutLoad, RolloutReplica, type RolloutAction, type RolloutNodeRecord, type RolloutRecord } from './rollout-facts.ts'
import { nodeIsReachable } from './pulses.ts'
import type { Database } from './tables.ts'
import { lockBackend } from './submissions.ts'

type Db = Kysely<Database> | Transaction<Database>
type Decide = (rollout: RolloutRecord) => readonly RolloutAction[]
export type Looked = Readonly<{ rollout: RolloutRecord; actions: readonly RolloutAction[] }>

export class RolloutStore {
  readonly #db: Kysely<Database>

  constructor(db: Kysely<Database>) {
    this.#db = db
  }

  /** Oldest first. */
  async open(): Promise<OperationId[]> {
    const rows = await this.#db
      .selectFrom('rollouts')
      .select('operation_id')
      .where('finished_at', 'is', null)
      .orderBy('created_at')
      .execute()
    return rows.map((row) => OperationId.parse(row.operation_id))
  }

  /** Reads the rollout and applies the decision. Most rounds decide nothing and take no lock. Null: the rollout has ended. */
  async advance(id: OperationId, decide: Decide): Promise<Looked | null> {
    const seen = await readRollout(this.#db, id)
    if (seen === null) return null
    const foreseen = decide(seen)
    if (foreseen.length === 0) return { rollout: seen, actions: foreseen }
    return await retryConflicts(() =>
      this.#db.transaction().execute(async (tx) => {
        await lockBackend(tx, seen.backend)
        const rollout = await readRollout(tx, id)
        if (rollout === null) return null
        const actions = decide(rollout)
        await applyRollout(tx, { id, backend: rollout.backend, actions })
        return { rollout, actions }
      }),
    )
  }

  /** Number of open rollouts, for the metrics. */
  async countByState(): Promise<{ state: string; count: number }[]> {
    const { rows } = await sql<{ state: string; count: number }>`
      select s.state, count(r.operation_id)::int as count from (values ('running'), ('returning')) s (state)
      left join rollouts r on r.state = s.state and r.finished_at is null group by s.state`.execute(this.#db)
    return rows
  }
}

interface Row {
  readonly backend: string
  readonly spec: unknown
  readonly rollout_ring: number
  readonly rings: number
  readonly well_ms: number | null
  readonly waits_for: number | null
  readonly waits_ms: number | null
  readonly failure: unknown
  readonly node_id: string
  readonly node_name: string
  readonly ring: number | null
  readonly message: string | null
  readonly is_reachable: boolean
  readonly can_return: boolean
  readonly state: RolloutNodeRecord['state']
  readonly awaits_ring: boolean
  readonly cancel_requested: boolean
  readonly note: string
  readonly rollback_error: string | null
  readonly last_failure: unknown
  readonly moving: unknown
}

const Moving = z.object({
  finishedAt: z.number(),
  planDigest: z.string().nullable(),
  listedDigest: z.string().nullable(),
  inventoryAt: z.number().nullable(),
  replicas: z.array(RolloutReplica),
  loads: z.array(RolloutLoad),
})

async function readRollout(db: Db, id: OperationId): Promise<RolloutRecord | null> {
  const { rows } = await selectRollout(id).execute(db)
  const [first] = rows
  if (first === undefined) return null
  return {
    backend: first.backend,
    spec: RolloutSpec.parse(first.spec),
    ring: first.rollout_ring,
    rings: first.rings,
    wellMs: first.well_ms,
    waits: first.waits_for === null ? null : { left: first.waits_for, ms: first.waits_ms ?? 0 },
    failure: first.failure === null ? null : Failure.parse(first.failure),
    nodes: rows.map(nodeOf),
  }
}

const nodeOf = (row: Row): RolloutNodeRecord => ({
  nodeId: NodeId.parse(row.node_id),
  name: row.node_name,
  ring: row.ring,
  isReachable: row.is_reachable,
  canReturn: row.can_return,
  state: row.state,
  awaitsRing: row.awaits_ring,
  cancelRequested: row.cancel_requested,
  rollbackError: row.rollback_error,
  note: row.note,
  lastFailure: row.last_failure === null ? null : Failure.parse(row.last_failure),
  message: row.message ?? '',
  moving: row.moving === null ? null : Moving.parse(row.moving),
})

// One row per node with an intent of the operation. An intent belongs to the rollout while it has the ID of the operation: a
// superseded intent does not, and an intent that other operations joined continues when this operation is cancelled.
const selectRollout = (id: OperationId) => sql<Row>`
  select r.backend, r.spec, r.ring as rollout_ring, r.rings, r.failure,
    (extract(epoch from now() - r.well_since) * 1000)::float8 as well_ms,
    r.waits_for, (extract(epoch from now() - r.waits_since) * 1000)::float8 as waits_ms,
    n.node_id, n.node_name, n.ring, shown.message,
    coalesce(${nodeIsReachable('d')} and not d.draining, false) as is_reachable,
    n.previous is not null and n.previous ->> 'digest' is distinct from i.plan ->> 'digest' as can_return,
    i.state, coalesce(i.awaits_ring, false) as awaits_ring, coalesce(i.cancel_requested, false) as cancel_requested,
    coalesce(i.note, '') as note, i.last_failure,
    case when i.plan ? 'rollback' then coalesce(i.plan -> 'rollback' ->> 'error', '') end as rollback_error,
    case when shown.message is not null then ${moving} end as moving
  from rollouts r
  join operation_nodes n on n.operation_id = r.operation_id and n.status <> 'skipped'
  left join intents i on i.node_id = n.node_id and i.backend = r.backend and i.op_id = r.operation_id
  left join nodes d on d.id = n.node_id
  left join node_pulses p on p.node_id = n.node_id
  left join lateral (
    select o.message from operation_nodes o where o.proving = i.generation and o.status = 'open' and i.state = 'applied' limit 1
  ) shown on true
  where r.operation_id = ${id} and r.finished_at is null
  order by n.node_name collate "C", n.node_id`

const ms = (time: string) => sql`extract(epoch from ${sql.ref(time)})::float8 * 1000`

/**
 * Replicas of the node that run the backend, or serve; and loads of their models, or pinned to the node. A model may use another
 * name for its backend.
 */
const moving = sql`jsonb_build_object(
  'finishedAt', ${ms('i.finished_at')}, 'planDigest', i.plan ->> 'digest', 'inventoryAt', ${ms('d.inventory_at')},
  'listedDigest', (select b ->> 'digest' from jsonb_array_elements(d.inventory) b where b ->> 'name' = r.backend limit 1),
  'replicas', (
    select coalesce(jsonb_agg(jsonb_build_object('model', x.model, 'isOwn', x.backend = r.backend, 'state', x.state, 'revision', x.revision,
      'digest', x.backend_digest, 'checked', x.checked, 'wasDrained', x.drain_since is not null, 'createdAt', ${ms('x.created_at')},
      'exitedAt', ${ms('x.exited_at')}, 'exit', x.exit)), '[]')
    from replicas x where x.node_id = n.node_id and (x.backend = r.backend or x.state = 'ready')
  ),
  'loads', (
    select coalesce(jsonb_agg(jsonb_build_object('model', l.model, 'state', l.state, 'revision', l.revision, 'attempts', l.attempts,
      'failure', l.failure, 'failedAt', ${ms('l.failed_at')}, 'requestedAt', ${ms('l.requested_at')}, 'note', l.note, 'pin', case
        when l.pinned_node_id is null then 'none'
        when l.pinned_node_id = n.node_id then case when ${rowNameOf(sql`m.backend`)} = r.backend then 'here' else 'here_other_backend' end
        when exists (select from operation_nodes q where q.operation_id = r.operation_id and q.node_id = l.pinned_node_id) then 'in_rollout'
        else 'elsewhere' end)), '[]')
    from loads l join models m on m.name = l.model where l.purpose = 'serve' and (l.pinned_node_id = n.node_id
      or l.model in (select x.model from replicas x where x.node_id = n.node_id and x.backend = r.backend))
  ))`
