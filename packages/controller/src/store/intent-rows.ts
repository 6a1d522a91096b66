// Converts rows of `intents`.
import { BackendName, Failure, NodeId, OperationId, unreachable, type Intent, type Phase, type AwaitedResult } from '@muster/protocol'
import type { Selectable } from 'kysely'
import { Plan } from './plan.ts'
import type { IntentsTable } from './tables.ts'

export interface BytesSeen {
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
  readonly bytes: BytesSeen
  /** The first epoch of this attempt. Progress of an older epoch belongs to an attempt that failed. */
  readonly triedSince: number
  /** When the worker was last polled; milliseconds. */
  readonly polledAt: number | null
  readonly requestedAt: string
  /** Its ring has not begun, so it is not sent. */
  readonly awaitsRing: boolean
  readonly rowVersion: number
}

export type IntentRow = Selectable<IntentsTable>

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
    rowVersion: row.row_version,
  }
}

function intentOf(row: IntentRow, plan: Plan): Intent {
  const common = {
    nodeId: NodeId.parse(row.node_id),
    backend: BackendName.parse(row.backend),
    kind: row.kind,
    generation: row.generation,
    epoch: row.epoch,
    opId: OperationId.parse(row.op_id),
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
  if (row.wait === 'reply') return { for: 'reply', holder: row.holder ?? '', leaseUntil: at(row.lease_until) }
  return row.wait === 'another_try' ? { for: 'another_try', nextAt: at(row.next_at) } : { for: 'result' }
}

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
