// Rows of `intents`: the plan, the conversion of a row, and the only statement that stores new ones.
import { type Selectable, sql, type Transaction } from 'kysely'
import { z } from 'zod'
import {
  type AwaitedResult,
  BackendName,
  Digest,
  Failure,
  type Intent,
  type IntentKind,
  NodeId,
  OperationId,
  type Phase,
  unreachable,
} from '@muster/protocol'
import type { Database, IntentsTable } from './tables.ts'

/** Everything that an attempt needs, fixed at submission. A later edit of a gallery, or a moved tag, does not change it. */
export const Plan = z.object({
  uri: z.string().max(2048).nullable(),
  /** Other URIs of the same content, tried when `uri` does not answer. */
  mirrors: z.array(z.string().max(2048)).max(64),
  /** The content behind `uri` for the node's platform; null while only a worker can read it (`file:`) and none has (pins.ts). */
  digest: Digest.nullable(),
  version: z.string().max(256),
  galleryUrl: z.string().max(2048),
  /** The concrete backend of a meta backend. */
  name: BackendName.nullable(),
  alias: BackendName.nullable(),
  /** A version or digest was requested: an intact backend of another version is replaced. */
  exact: z.boolean(),
  strategy: z.enum(['rolling', 'recreate']).nullable(),
  /** Upper limit of the download; null: unknown. */
  sizeBytes: z.number().int().min(0).nullable(),
  /** Shown while the node works on it: its disk looked too small, and --disk-check is `warn`. */
  warning: z.string().max(1_024).optional(),
  /**
   * Set for the rollback of an upgrade. `error`: shown when the rollback is applied; `plan`: the plan of the upgrade, for a
   * retry.
   */
  rollback: z.object({ error: z.string(), plan: z.unknown() }).optional(),
})
export type Plan = z.infer<typeof Plan>

/** A deletion needs only the name. */
export const nothingToFetch: Plan = {
  uri: null,
  mirrors: [],
  digest: null,
  version: '',
  galleryUrl: '',
  name: null,
  alias: null,
  exact: false,
  strategy: null,
  sizeBytes: null,
}

export interface ReportedBytes {
  readonly phase: Phase | null
  readonly fileName: string
  readonly current: number
  readonly total: number
  readonly percentage: number
  readonly seq: number | null
}

/** An intent, its plan and progress, and the version of its row. */
export interface IntentRecord {
  readonly intent: Intent
  readonly plan: Plan
  readonly bytes: ReportedBytes
  /** The first epoch of this attempt. Progress of an older epoch belongs to an attempt that failed. */
  readonly triedSince: number
  /** When the worker was last polled; milliseconds. */
  readonly polledAt: number | null
  readonly requestedAt: string
  /** Its ring has not begun, so it is not sent. */
  readonly awaitsRing: boolean
  /** Every operation that waits for it is paused, so no attempt begins. */
  readonly isPaused: boolean
  readonly rowVersion: number
}

export type IntentRow = Selectable<IntentsTable>

const Kind = z.enum(['install', 'upgrade', 'delete'])
const Wait = z.enum(['result', 'reply', 'another_try'])

/** Throws when a newer version wrote something that this one does not know. */
export function fromIntentRow(row: IntentRow): IntentRecord {
  const plan = Plan.parse(row.plan)
  return {
    intent: intentOf(row, plan),
    plan,
    bytes: {
      phase: row.phase,
      fileName: row.file_name,
      current: row.current_bytes,
      total: row.total_bytes,
      percentage: row.percentage,
      seq: row.progress_seq,
    },
    triedSince: row.tried_since,
    polledAt: row.polled_at === null ? null : Date.parse(row.polled_at),
    requestedAt: row.requested_at,
    awaitsRing: row.awaits_ring,
    isPaused: row.is_paused,
    rowVersion: row.row_version,
  }
}

function intentOf(row: IntentRow, plan: Plan): Intent {
  const common = {
    nodeId: NodeId.parse(row.node_id),
    backend: BackendName.parse(row.backend),
    kind: Kind.parse(row.kind),
    generation: row.generation,
    epoch: row.epoch,
    opId: OperationId.parse(row.op_id),
    replaced: row.replaced.map((id) => OperationId.parse(id)),
    attempts: row.attempts,
    lastFailure: row.last_failure === null ? null : Failure.parse(row.last_failure),
    isOverdue: row.is_overdue,
    cancelRequested: row.cancel_requested,
    mayRecreate: row.kind === 'upgrade' && plan.strategy === 'rolling' && plan.rollback === undefined,
  }
  switch (row.state) {
    case 'waiting':
      return { ...common, state: 'waiting', nextAt: at(row.next_at), wasSent: row.was_sent }
    case 'sending':
      return { ...common, state: 'sending', holder: row.holder ?? '', leaseUntil: at(row.lease_until) }
    case 'working':
      return {
        ...common,
        state: 'working',
        acceptedAt: at(row.accepted_at),
        signAt: at(row.sign_at),
        wait: waitOf(row),
      }
    case 'applied':
    case 'failed':
    case 'dead':
    case 'cancelled':
      return { ...common, state: row.state, finishedAt: at(row.finished_at), note: row.note }
    default:
      return unreachable(row.state)
  }
}

function waitOf(row: IntentRow): AwaitedResult {
  const wait = Wait.parse(row.wait)
  switch (wait) {
    case 'result':
      return { for: 'result' }
    case 'reply':
      return { for: 'reply', holder: row.holder ?? '', leaseUntil: at(row.lease_until) }
    case 'another_try':
      return { for: 'another_try', nextAt: at(row.next_at) }
    default:
      return unreachable(wait)
  }
}

export const nameOfIntent = ({ backend, node_id: node, generation }: Pick<IntentRow, 'backend' | 'node_id' | 'generation'>): string =>
  `intent ${generation} for ${backend} on ${node}`

/** Check constraints guarantee that each state has its times. */
const at = (time: string | null): number => Date.parse(time ?? '')

/** Set when an upgrade continues with the strategy `recreate`. */
const recreateNote = 'recreate: the disk is too small for two versions'

/** The columns that a step may change, for `jsonb_to_recordset`. Times are seconds since the epoch. */
export function columnsOf(from: Intent, intent: Intent): Record<string, string | number | boolean | null | Failure> {
  const { epoch, attempts, lastFailure, isOverdue, cancelRequested, state } = intent
  return {
    epoch,
    attempts,
    last_failure: lastFailure,
    cancel_requested: cancelRequested,
    state,
    next_at: seconds(nextTry(intent)),
    was_sent: intent.state !== 'waiting' || intent.wasSent,
    wait: waitIn(intent)?.for ?? null,
    ...leaseOf(intent),
    accepted_at: seconds(intent.state === 'working' ? intent.acceptedAt : null),
    sign_at: seconds(intent.state === 'working' ? intent.signAt : null),
    is_overdue: isOverdue,
    finished_at: seconds('finishedAt' in intent ? intent.finishedAt : null),
    ...(from.mayRecreate && !intent.mayRecreate
      ? { strategy: 'recreate', note: recreateNote }
      : { strategy: null, note: 'note' in intent ? intent.note : '' }),
  }
}

const waitIn = (intent: Intent): AwaitedResult | null => (intent.state === 'working' ? intent.wait : null)

function nextTry(intent: Intent): number | null {
  if (intent.state === 'waiting') return intent.nextAt
  const wait = waitIn(intent)
  return wait?.for === 'another_try' ? wait.nextAt : null
}

function leaseOf(intent: Intent): { holder: string | null; lease_until: number | null } {
  const wait = waitIn(intent)
  const lease = intent.state === 'sending' ? intent : wait?.for === 'reply' ? wait : null
  return { holder: lease?.holder ?? null, lease_until: seconds(lease?.leaseUntil ?? null) }
}

const seconds = (ms: number | null): number | null => (ms === null ? null : ms / 1000)

interface NewIntent {
  readonly nodeId: NodeId
  readonly kind: IntentKind
  readonly opId: OperationId
  readonly plan: Plan
  /** Its ring has not begun. */
  readonly awaitsRing: boolean
  /** The worker may still work on the last intent of the same operation, so that a cancel has to reach it. */
  readonly wasSent: boolean
  /** Other operations whose work may still run on the worker. */
  readonly replaced: readonly OperationId[]
  readonly note: string
  readonly totalBytes: number
  /** In the history. */
  readonly event: 'requested' | 'retried' | 'returning' | 'repinned'
  readonly detail: Readonly<Record<string, string>>
}

type StoredIntent = Readonly<{ nodeId: string; generation: number }>

/**
 * Keeps these nodes until the transaction ends, and returns those that exist. A removal settles what it sees open on its node, so
 * without this lock it would miss an operation that joins or reopens an intent of the node meanwhile.
 */
export async function lockNodes(tx: Transaction<Database>, ids: ReturnType<typeof sql>): Promise<ReadonlySet<string>> {
  const { rows } = await sql<{ id: string }>`select id from nodes where id in (${ids}) order by id for key share`.execute(tx)
  return new Set(rows.map(({ id }) => id))
}

/**
 * An intent takes the place of the last one of its node and backend, with a new generation and without attempts. The epoch
 * continues: workers and progress distinguish attempts by the epoch.
 */
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
        was_sent boolean, replaced text[], note text, total_bytes bigint, event text, detail jsonb) order by node_id
    ), stored as (
      insert into intents as i (node_id, backend, kind, generation, op_id, plan, state, next_at, is_parked, awaits_ring, was_sent, replaced, note, total_bytes)
      select node_id, ${backend}, kind, nextval('intent_generation'), op_id, plan, 'waiting', now(), not node_may_be_tried(node_id), awaits_ring,
        was_sent, replaced, note, total_bytes from given
      on conflict (node_id, backend) do update set kind = excluded.kind, generation = excluded.generation, op_id = excluded.op_id,
        plan = excluded.plan, state = 'waiting', next_at = excluded.next_at, is_parked = excluded.is_parked, awaits_ring = excluded.awaits_ring, is_paused = false,
        was_sent = excluded.was_sent, replaced = excluded.replaced, note = excluded.note, total_bytes = excluded.total_bytes, attempts = 0, last_failure = null,
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
