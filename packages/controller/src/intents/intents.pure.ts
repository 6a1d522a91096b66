// What follows from an answer of a worker. Pure: protocol/states/intent.ts then moves the row.
import {
  isOpen,
  unreachable,
  type BackendList,
  type CommandReply,
  type Failure,
  type Intent,
  type IntentEvent,
  type OpStatusReply,
  type IntentKind,
} from '@muster/protocol'
import type { Plan } from '../store/plan.ts'
import type { BytesSeen } from '../store/intent-rows.ts'
import type { ProgressTick } from '../store/intents.ts'

/** Asked again this much later when nobody knows what became of a command. */
export const againInMs = 2_000

export function eventOfReply(kind: IntentKind, epoch: number, reply: CommandReply): IntentEvent {
  if ('success' in reply) {
    if (reply.success) return { type: 'succeeded', note: '' }
    const message = `${kind} failed: ${reply.error ?? 'the worker gave no reason'}`
    return { type: 'failed', epoch, failure: { code: 'internal', retry: 'backoff', message } }
  }
  return reply.accepted ? { type: 'accepted' } : { type: 'failed', epoch, failure: reply.failure }
}

/** How it ended, by event or when asked; null while it has not. */
export function eventOfEnd(reply: OpStatusReply): IntentEvent | null {
  const epoch = reply.epoch ?? null
  switch (reply.state) {
    case 'succeeded':
      return { type: 'succeeded', note: '' }
    case 'failed':
      return { type: 'failed', epoch, failure: reply.failure ?? unexplained('failed') }
    case 'cancelled':
      return { type: 'cancelled_on_worker', epoch, failure: reply.failure ?? unexplained('was cancelled') }
    case 'unknown':
    case 'accepted':
    case 'running':
      return null
    default:
      return unreachable(reply.state)
  }
}

const unexplained = (how: string): Failure => ({
  code: 'internal',
  retry: 'backoff',
  message: `it ${how} on the worker, which gave no reason`,
})

export type Asked = Readonly<{ intent: Intent; bytes: BytesSeen; /** The last time, null: never of this try. */ polledAt: number | null }>
export type StallFacts = Readonly<{ now: number; quietMs: number; stallMs: number }>

/** What follows from asking how it goes; null: nothing. */
export function eventOfStatus({ intent, bytes, polledAt }: Asked, reply: OpStatusReply, facts: StallFacts): IntentEvent | null {
  if (reply.generation !== undefined && reply.generation !== intent.generation) return { type: 'unknown_to_worker', againInMs }
  const end = eventOfEnd(reply)
  if (end !== null) return end
  if (reply.state === 'unknown') return { type: 'unknown_to_worker', againInMs }
  // It was taken on, and whoever sent it has not said so: it is gone, or the answer is. An older try is not this one:
  // what became of it would end nothing.
  if (intent.state === 'sending') return reply.epoch === intent.epoch ? { type: 'accepted' } : null
  if (intent.state !== 'working') return null
  // Waiting for its turn is no stall; nor is what nobody has watched: the first look only begins the watch.
  const isWatched = polledAt !== null && facts.now - polledAt <= 4 * facts.quietMs + 5_000
  if (!isWatched || hasMoved(reply, bytes)) return { type: 'moved' }
  if (facts.now - intent.signAt <= facts.stallMs) return null
  return { type: 'failed', epoch: intent.epoch, failure: stalled(facts, reply), mayRun: true }
}

/** Workers number their signs of life, since not every sign moves a byte. */
function hasMoved({ state, phase, current, progress_seq: seq }: OpStatusReply, seen: BytesSeen): boolean {
  if (state === 'accepted') return true
  if (seq !== undefined && seen.seq !== null) return seq > seen.seq
  return (current ?? 0) !== seen.current || (phase ?? null) !== seen.phase
}

/** What was asked for and answered is as good as what is told: of progress everything may be lost. */
export function tickOf({ intent, bytes }: Pick<Asked, 'intent' | 'bytes'>, reply: OpStatusReply): ProgressTick {
  const { phase = null, current = 0, total = 0, progress_seq: seq = null } = reply
  const percentage = total > 0 ? Math.min(100, Math.floor((current / total) * 1000) / 10) : 0
  const { nodeId, opId, epoch } = intent
  return { nodeId, opId, epoch, phase, fileName: bytes.fileName, current, total, percentage, seq }
}

const stalled = ({ stallMs }: StallFacts, { phase, current, total }: OpStatusReply): Failure => ({
  code: 'timeout',
  retry: 'backoff',
  message: `no sign of life for ${Math.round(stallMs / 1000)} s${phase === undefined ? '' : ` while ${phase}`}${
    current === undefined ? '' : ` (${current} of ${total ?? '?'} bytes)`
  }; it was cancelled on the worker and is tried again`,
})

/**
 * Whether what a node lists makes the wish true. A list that was made before the worker took the wish on says nothing
 * about it: workers that number their wishes say up to which one their list goes, of others it has to be in work.
 */
export function isSatisfied({ intent, plan }: { intent: Intent; plan: Plan }, list: BackendList): boolean {
  if (!isOpen(intent)) return false
  if (list.generations === undefined) {
    if (intent.state !== 'working') return false
  } else {
    if ((list.generations[intent.backend] ?? -1) < intent.generation) return false
    // It may be there and damaged: an upgrade that failed, or of which nobody knows, is tried again to mend it.
    if (intent.state !== 'working' && intent.kind === 'upgrade') return false
  }
  const found = list.backends.find(({ name }) => name === intent.backend || name === plan.name)
  switch (intent.kind) {
    case 'install':
      return found !== undefined && (!plan.exact || (plan.digest !== null && found.digest === plan.digest))
    case 'upgrade':
      return found !== undefined && plan.digest !== null && found.digest === plan.digest
    case 'delete':
      return found === undefined
    default:
      return unreachable(intent.kind)
  }
}
