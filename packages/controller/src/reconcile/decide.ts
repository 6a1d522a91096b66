// What follows from an answer of a worker. Pure: protocol/states/intent.ts then moves the row.
import {
  unreachable,
  type BackendList,
  type CommandReply,
  type Failure,
  type Intent,
  type IntentEvent,
  type OpStatusReply,
  type WishKind,
} from '@muster/protocol'
import type { Plan } from '../store/plan.ts'
import type { BytesSeen } from '../store/intent-rows.ts'

/** Asked again this much later when nobody knows what became of a command. */
export const againInMs = 2_000

export function eventOfReply(kind: WishKind, epoch: number, reply: CommandReply): IntentEvent {
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

export type Asked = Readonly<{ intent: Intent; bytes: BytesSeen; /** The last time, null: never of this try. */ askedAt: number | null }>
export type StallFacts = Readonly<{ now: number; quietMs: number; stallMs: number }>

/** What follows from asking how it goes; null: nothing. */
export function eventOfStatus({ intent, bytes, askedAt }: Asked, reply: OpStatusReply, facts: StallFacts): IntentEvent | null {
  if (reply.generation !== undefined && reply.generation !== intent.generation) return { type: 'unknown_to_worker', againInMs }
  const end = eventOfEnd(reply)
  if (end !== null) return end
  if (reply.state === 'unknown') return { type: 'unknown_to_worker', againInMs }
  // It was taken on, and whoever sent it has not said so: it is gone, or the answer is. An older try is not this one:
  // what became of it would end nothing.
  if (intent.state === 'sending') return reply.epoch === intent.epoch ? { type: 'accepted' } : null
  if (intent.state !== 'working') return null
  // Waiting for its turn is no stall; nor is what nobody has watched: the first look only begins the watch.
  const isWatched = askedAt !== null && facts.now - askedAt <= 4 * facts.quietMs + 5_000
  const hasMoved = reply.state === 'accepted' || (reply.current ?? 0) !== bytes.current || (reply.phase ?? null) !== bytes.phase
  if (!isWatched || hasMoved) return { type: 'moved' }
  if (facts.now - intent.signAt <= facts.stallMs) return null
  return { type: 'failed', epoch: intent.epoch, failure: stalled(facts, reply), mayRun: true }
}

const stalled = ({ stallMs }: StallFacts, { phase, current, total }: OpStatusReply): Failure => ({
  code: 'timeout',
  retry: 'backoff',
  message: `no sign of life for ${Math.round(stallMs / 1000)} s${phase === undefined ? '' : ` while ${phase}`}${
    current === undefined ? '' : ` (${current} of ${total ?? '?'} bytes)`
  }; it was cancelled on the worker and is tried again`,
})

/**
 * Whether what a node lists makes the wish true. Only of work that the worker has taken on: a list that was made before
 * says nothing about it. Workers that number their wishes say up to which one their list goes.
 */
export function isSatisfied({ intent, plan }: { intent: Intent; plan: Plan }, list: BackendList): boolean {
  if (intent.state !== 'working') return false
  const upTo = list.generations?.[intent.backend]
  if (list.generations !== undefined && (upTo === undefined || upTo < intent.generation)) return false
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
