// Rollouts: the facts that decide, the possible actions, and their queries; rollouts/ owns the meaning of facts and actions.
// Intents, replicas and loads are read, and the decision is written, in one transaction under the lock of the backend. So a
// controller may be killed at any moment: a round is stored completely or not at all, and the next round, on any controller,
// continues from there.
import { type Kysely, sql, type Transaction } from 'kysely'
import { z } from 'zod'
import { Failure, type Intent, NodeId, OperationId } from '@muster/protocol'
import { retryConflicts } from './errors.ts'
import { rowNameOf } from './intents.ts'
import { RolloutSpec } from './operation-nodes.pure.ts'
import { createRowReader, type RowReader } from './readable-rows.ts'
import { nodeIsReachable } from './nodes.ts'
import { applyRollout } from './rollout-writes.ts'
import { lockBackend } from './submissions.ts'
import type { Database } from './tables.ts'

/** A replica on a node of the rollout. Times are milliseconds. */
export const RolloutReplica = z.object({
  model: z.string(),
  /** The replica runs the backend of the rollout. */
  isOwn: z.boolean(),
  state: z.enum(['starting', 'ready', 'draining', 'exited']),
  revision: z.string(),
  digest: z.string().nullable(),
  checked: z.enum(['due', 'passed', 'failed']),
  wasDrained: z.boolean(),
  createdAt: z.number(),
  exitedAt: z.number().nullable(),
  exit: z
    .object({ exit_code: z.number(), signal: z.string(), last_lines: z.array(z.string()), expected: z.boolean() })
    .partial()
    .nullable(),
})
export type RolloutReplica = Readonly<z.infer<typeof RolloutReplica>>

/** A load of a model that has or had a replica on a node of the rollout, or a load that is pinned to the node. */
export const RolloutLoad = z.object({
  model: z.string(),
  state: z.enum(['waiting', 'installing', 'starting', 'ready', 'failed']),
  revision: z.string(),
  attempts: z.number(),
  failure: Failure.nullable(),
  failedAt: z.number().nullable(),
  requestedAt: z.number(),
  /** `here`: pinned to this node, for a model of the rollout's backend or of another one. */
  pin: z.enum(['none', 'here', 'here_other_backend', 'in_rollout', 'elsewhere']),
  note: z.string(),
})
export type RolloutLoad = Readonly<z.infer<typeof RolloutLoad>>

/** A node whose intent is applied and that is not settled: its replicas are moved and watched. */
export type MovingNode = Readonly<{
  finishedAt: number
  planDigest: string | null
  /** The version in the node's inventory. */
  listedDigest: string | null
  inventoryAt: number | null
  replicas: readonly RolloutReplica[]
  loads: readonly RolloutLoad[]
}>

export type RolloutNodeRecord = Readonly<{
  nodeId: NodeId
  name: string
  ring: number | null
  isReachable: boolean
  /** The previous version is known and differs from the new one. */
  canReturn: boolean
  /** Null: the node has no intent of this rollout any more. */
  state: Intent['state'] | null
  awaitsRing: boolean
  cancelRequested: boolean
  /** Set when the intent returns the node to the previous version; shown as the node's error when that is done. */
  rollbackError: string | null
  note: string
  lastFailure: Failure | null
  /** The message shown so far. */
  message: string
  moving: MovingNode | null
}>

export interface RolloutRecord {
  readonly backend: string
  readonly spec: RolloutSpec
  readonly ring: number
  readonly rings: number
  /** How long all upgraded nodes have been healthy; null: not all are. */
  readonly wellMs: number | null
  /** The number of replicas left to move when it last changed, and how long ago that was. */
  readonly waits: Readonly<{ left: number; ms: number }> | null
  /** The reason of the rollback; null: there is none. */
  readonly failure: Failure | null
  /** The operation is paused: no further node begins. */
  readonly isPaused: boolean
  /** Sorted by name. */
  readonly nodes: readonly RolloutNodeRecord[]
}

export type RolloutEnd = 'succeeded' | 'failed' | 'cancelled'

export type RolloutAction =
  /** The ring of the node begins, so its intent may be sent. */
  | Readonly<{ do: 'begin'; nodeId: NodeId }>
  | Readonly<{ do: 'message'; nodeId: NodeId; message: string }>
  | Readonly<{ do: 'prove'; nodeId: NodeId; message: string }>
  | Readonly<{ do: 'withdraw'; nodeId: NodeId }>
  | Readonly<{ do: 'cancel'; nodeId: NodeId }>
  /** Return the node to the previous version; `error` is shown at the end. */
  | Readonly<{ do: 'return'; nodeId: NodeId; error: string }>
  /** No replica of the node runs the new version any more. */
  | Readonly<{ do: 'returned'; nodeId: NodeId; error: string }>
  /** The node cannot return to the previous version; its failure is shown. */
  | Readonly<{ do: 'fail'; nodeId: NodeId; failure: Failure }>
  | Readonly<{ do: 'enter'; ring: number }>
  /** All upgraded nodes are healthy from now on, or not any more. */
  | Readonly<{ do: 'watch'; isWell: boolean }>
  /** This many replicas are left to move from now on; null: none is waited for. */
  | Readonly<{ do: 'wait'; left: number | null }>
  | Readonly<{ do: 'stop'; failure: Failure }>
  | Readonly<{ do: 'end'; end: RolloutEnd }>

type Db = Kysely<Database> | Transaction<Database>
type Decide = (rollout: RolloutRecord) => readonly RolloutAction[]
export type RolloutRound = Readonly<{ rollout: RolloutRecord; actions: readonly RolloutAction[] }>

export class RolloutStore {
  readonly #db: Kysely<Database>
  readonly #reader: RowReader

  constructor(db: Kysely<Database>, reader: RowReader = createRowReader()) {
    this.#db = db
    this.#reader = reader
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

  /** Reads the rollout and applies the decision. Most rounds decide nothing and take no lock. Null: the rollout has ended, or is unreadable. */
  async advance(id: OperationId, decide: Decide): Promise<RolloutRound | null> {
    const seen = await this.#read(this.#db, id)
    if (seen === null) return null
    const foreseen = decide(seen)
    if (foreseen.length === 0) return { rollout: seen, actions: foreseen }
    return await retryConflicts(() =>
      this.#db.transaction().execute(async (tx) => {
        await lockBackend(tx, seen.backend)
        const rollout = await this.#read(tx, id)
        if (rollout === null) return null
        const actions = decide(rollout)
        await applyRollout(tx, { id, backend: rollout.backend, actions })
        return { rollout, actions }
      }),
    )
  }

  async #read(db: Db, id: OperationId): Promise<RolloutRecord | null> {
    const { rows } = await selectRollout(id).execute(db)
    const [rollout = null] = this.#reader.readAll(rows.length === 0 ? [] : [rows], rolloutOf, () => `rollout ${id}`)
    return rollout
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
  readonly is_paused: boolean
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

/** The rows of one rollout, at least one. */
function rolloutOf(rows: readonly Row[]): RolloutRecord {
  const [first] = rows
  if (first === undefined) throw new Error('a rollout has no nodes')
  return {
    backend: first.backend,
    spec: RolloutSpec.parse(first.spec),
    ring: first.rollout_ring,
    rings: first.rings,
    wellMs: first.well_ms,
    waits: first.waits_for === null ? null : { left: first.waits_for, ms: first.waits_ms ?? 0 },
    failure: first.failure === null ? null : Failure.parse(first.failure),
    isPaused: first.is_paused,
    nodes: rows.map(nodeOf),
  }
}

const IntentState = z.enum(['waiting', 'sending', 'working', 'applied', 'failed', 'dead', 'cancelled'])

const nodeOf = (row: Row): RolloutNodeRecord => ({
  nodeId: NodeId.parse(row.node_id),
  name: row.node_name,
  ring: row.ring,
  isReachable: row.is_reachable,
  canReturn: row.can_return,
  state: row.state === null ? null : IntentState.parse(row.state),
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
  select r.backend, r.spec, r.ring as rollout_ring, r.rings, r.failure, op.paused_at is not null as is_paused,
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
  join operations op on op.id = r.operation_id
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
