// Judges replies of workers about one operation, for every kind of work. Pure: intents.pure.ts and loads.pure.ts turn the
// verdicts into events, protocol/states moves the rows.
import { unreachable, type CommandReply, type Failure, type NodeId, type OperationId, type OpStatusReply } from '@muster/protocol'
import type { ReportedBytes } from '../store/intent-rows.ts'
import type { ProgressTick } from '../store/intents.ts'

/** Prefix of the operation ids under which workers know loads. Every other id is that of an operation with intents. */
export const loadOpPrefix = 'ld'
export type WorkKind = 'intent' | 'load'
/** The id alone decides which store a report belongs to. */
export const kindOfWork = (opId: OperationId): WorkKind => (opId.startsWith(`${loadOpPrefix}-`) ? 'load' : 'intent')

/** Reply to a command. `done`: from a worker that replies at the end only. */
export type CommandOutcome = Readonly<{ is: 'accepted' } | { is: 'done' } | { is: 'refused'; failure: Failure }>

export function outcomeOf(what: string, reply: CommandReply): CommandOutcome {
  if ('accepted' in reply) return reply.accepted ? { is: 'accepted' } : { is: 'refused', failure: reply.failure }
  if (reply.success) return { is: 'done' }
  const message = `${what} failed: ${reply.error ?? 'the worker gave no reason'}`
  return { is: 'refused', failure: { code: 'internal', retry: 'backoff', message } }
}

/** `epoch`: the try that ended; null when the worker does not report it. */
export type WorkEnd = Readonly<{ is: 'succeeded' } | { is: 'failed' | 'cancelled'; epoch: number | null; failure: Failure }>

/** How the work ended, by event or by query; null while it has not. */
export function endOf(reply: OpStatusReply): WorkEnd | null {
  const { state, failure } = reply
  const epoch = reply.epoch ?? null
  switch (state) {
    case 'succeeded':
      return { is: 'succeeded' }
    case 'failed':
      return { is: 'failed', epoch, failure: failure ?? unexplained('it failed') }
    case 'cancelled':
      return { is: 'cancelled', epoch, failure: failure ?? unexplained('it was cancelled') }
    case 'unknown':
    case 'accepted':
    case 'running':
      return null
    default:
      return unreachable(state)
  }
}

const unexplained = (how: string): Failure => ({
  code: 'internal',
  retry: 'backoff',
  message: `${how} on the worker, which gave no reason`,
})

export type StallLimits = Readonly<{ now: number; quietMs: number; stallMs: number }>

/** Workers number their signs of life, since not every sign moves a byte. Waiting in the worker's queue is no stall. */
export function hasMoved(
  { state, phase, current, progress_seq: seq }: OpStatusReply,
  seen: Pick<ReportedBytes, 'phase' | 'current' | 'seq'>,
): boolean {
  if (state === 'accepted') return true
  if (seq !== undefined) return seen.seq === null || seq > seen.seq
  return (current ?? 0) !== seen.current || (phase ?? null) !== seen.phase
}

export const stallFailure = (stallMs: number, { state, phase, current, total }: OpStatusReply): Failure => ({
  code: 'timeout',
  retry: 'backoff',
  message: `no sign of life for ${Math.round(stallMs / 1000)} s${state === 'unknown' ? ', and the worker does not know it' : ''}${
    phase === undefined ? '' : ` while ${phase}`
  }${current === undefined ? '' : ` (${current} of ${total ?? '?'} bytes)`}; it was cancelled on the worker and is tried again`,
})

type TickSubject = Readonly<{ nodeId: NodeId; opId: OperationId; epoch: number }>

/** A reply to a query counts as a progress message: all progress messages may be lost. */
export function tickOf(
  { nodeId, opId, epoch }: TickSubject,
  { fileName }: Pick<ReportedBytes, 'fileName'>,
  reply: OpStatusReply,
): ProgressTick {
  const { phase = null, current = 0, total = 0, progress_seq: seq = null } = reply
  const percentage = total > 0 ? Math.min(100, Math.floor((current / total) * 1000) / 10) : 0
  return { nodeId, opId, epoch, phase, fileName, current, total, percentage, seq }
}
