// Stores new intents: the only statement that does so. An intent takes the place of the last one of its node and backend, with a
// new generation, and nothing was tried of it. The epoch goes on: workers and progress tell tries apart by it.
import type { IntentKind, NodeId, OperationId } from '@muster/protocol'
import { sql, type Transaction } from 'kysely'
import type { Plan } from './plan.ts'
import type { Database } from './tables.ts'

export interface NewIntent {
  readonly nodeId: NodeId
  readonly kind: IntentKind
  readonly opId: OperationId
  readonly plan: Plan
  /** Its ring has not begun. */
  readonly awaitsRing: boolean
  /** The worker may still work on the last intent of the same operation, so that a cancel has to reach it. */
  readonly wasSent: boolean
  readonly note: string
  readonly totalBytes: number
  /** In the history. */
  readonly event: 'requested' | 'retried' | 'returning' | 'repinned'
  readonly detail: Readonly<Record<string, string>>
}

export type StoredIntent = Readonly<{ nodeId: string; generation: number }>

export async function storeIntents(
  tx: Transaction<Database>,
  backend: string,
  intents: readonly NewIntent[],
): Promise<readonly StoredIntent[]> {
  if (intents.length === 0) return []
  const given = JSON.stringify(
    intents.map(({ nodeId, opId, awaitsRing, wasSent, totalBytes, ...same }) => ({
      ...{ ...same, node_id: nodeId, op_id: opId, awaits_ring: awaitsRing, was_sent: wasSent, total_bytes: totalBytes },
    })),
  )
  const { rows } = await sql<StoredIntent>`
    with given as (
      select * from jsonb_to_recordset(${given}::jsonb) as g (node_id text, kind text, op_id text, plan jsonb, awaits_ring boolean,
        was_sent boolean, note text, total_bytes bigint, event text, detail jsonb) order by node_id
    ), stored as (
      insert into intents as i (node_id, backend, kind, generation, op_id, plan, state, next_at, is_parked, awaits_ring, was_sent, note, total_bytes)
      select node_id, ${backend}, kind, nextval('intent_generation'), op_id, plan, 'waiting', now(), not node_may_be_tried(node_id), awaits_ring,
        was_sent, note, total_bytes from given
      on conflict (node_id, backend) do update set kind = excluded.kind, generation = excluded.generation, op_id = excluded.op_id,
        plan = excluded.plan, state = 'waiting', next_at = excluded.next_at, is_parked = excluded.is_parked, awaits_ring = excluded.awaits_ring,
        was_sent = excluded.was_sent, note = excluded.note, total_bytes = excluded.total_bytes, attempts = 0, last_failure = null,
        cancel_requested = false, wait = null, holder = null, lease_until = null, accepted_at = null, sign_at = null, is_overdue = false,
        finished_at = null, phase = null, file_name = '', current_bytes = 0, percentage = 0, progress_seq = null,
        tried_since = i.epoch + 1, polled_at = null, requested_at = now(), row_version = i.row_version + 1
      returning node_id, backend, generation, epoch
    ), logged as (
      insert into intent_events (node_id, backend, generation, epoch, type, detail)
      select s.node_id, s.backend, s.generation, s.epoch, g.event, g.detail from stored s join given g on g.node_id = s.node_id
    )
    select node_id as "nodeId", generation from stored`.execute(tx)
  return rows
}
