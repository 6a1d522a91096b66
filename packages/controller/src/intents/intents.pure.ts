// Turns replies of workers about an intent into events. Pure: protocol/states/intent.ts then moves the row.
import {
  isOpen,
  unreachable,
  type BackendList,
  type CommandReply,
  type Digest,
  type Failure,
  type Intent,
  type IntentEvent,
  type OpStatusReply,
  type IntentKind,
} from '@muster/protocol'
import type { ReportedBytes, Plan } from '../store/intent-rows.ts'
import { endOf, hasMoved, outcomeOf, stallFailure, type StallLimits } from '../work/exchange.pure.ts'

/** Delay until the next query or send when the fate of a command is unknown. */
export const againInMs = 2_000

export function eventOfReply(kind: IntentKind, epoch: number | null, reply: CommandReply): IntentEvent {
  const outcome = outcomeOf(kind, reply)
  switch (outcome.is) {
    case 'accepted':
      return { type: 'accepted' }
    case 'done':
      return { type: 'succeeded', note: '' }
    case 'refused':
      return { type: 'failed', epoch, failure: outcome.failure }
    default:
      return unreachable(outcome)
  }
}

/** Null while the work has not ended. The plan is the one after `digestToPin` was pinned. */
export function eventOfEnd({ digest, uri }: SourcePlan, reply: OpStatusReply): IntentEvent | null {
  const end = endOf(reply)
  if (end === null) return null
  if (end.is === 'succeeded') {
    const found = reply.source_digest
    if (digest === null || found === undefined || found === digest) return { type: 'succeeded', note: '' }
    return { type: 'failed', epoch: reply.epoch ?? null, failure: otherContent({ uri, pinned: digest, found }) }
  }
  const { epoch, failure } = end
  return { type: end.is === 'failed' ? 'failed' : 'cancelled_on_worker', epoch, failure }
}

type SourcePlan = Pick<Plan, 'digest' | 'uri'>

/** The content that this report gives to an operation without a digest; null: none. */
export function digestToPin({ intent, plan }: Pick<QueriedIntent, 'intent' | 'plan'>, reply: OpStatusReply): Digest | null {
  if (plan.digest !== null || reply.state !== 'succeeded' || isOfOtherGeneration(intent, reply)) return null
  return reply.source_digest ?? null
}

const otherContent = ({ uri, pinned, found }: { uri: string | null; pinned: Digest; found: Digest }): Failure => ({
  code: 'integrity',
  retry: 'never',
  message: `${uri ?? 'the source'} changed during the operation: this node installed ${found}, and ${pinned} was installed on another node before; install it again for the same content on all nodes`,
})

/** True while the worker has not confirmed the end of this work. */
export const isInProgress = (reply: OpStatusReply): boolean => reply.state !== 'unknown' && endOf(reply) === null

/** `polledAt`: the previous query of this try; null when there was none. */
export type QueriedIntent = Readonly<{ intent: Intent; plan: SourcePlan; bytes: ReportedBytes; polledAt: number | null }>

/** Event that follows from a status query; null: none. */
export function eventOfStatus(queried: QueriedIntent, reply: OpStatusReply, limits: StallLimits): IntentEvent | null {
  const { intent, plan, bytes, polledAt } = queried
  if (isOfOtherGeneration(intent, reply)) return { type: 'unknown_to_worker', againInMs }
  const end = eventOfEnd(plan, reply)
  if (end !== null) return end
  if (reply.state === 'unknown') return { type: 'unknown_to_worker', againInMs }
  // The worker accepted it, and the sender has not recorded that: the sender died, or the reply was lost. The end of an older
  // attempt does not end this one.
  if (intent.state === 'sending') return reply.epoch === intent.epoch ? { type: 'accepted' } : null
  if (intent.state !== 'working') return null
  // Work that no controller has watched is not stalled: the first query only begins the watch.
  const isWatched = polledAt !== null && limits.now - polledAt <= 4 * limits.quietMs + 5_000
  if (!isWatched || hasMoved(reply, bytes)) return { type: 'moved' }
  if (limits.now - intent.signAt <= limits.stallMs) return null
  return { type: 'failed', epoch: intent.epoch, failure: stallFailure(limits.stallMs, reply), mayRun: true }
}

/** Event that follows from a cancel request; null while the worker has not confirmed it. */
export function eventOfCancel({ intent, plan }: Pick<QueriedIntent, 'intent' | 'plan'>, reply: OpStatusReply): IntentEvent | null {
  if (reply.state === 'unknown' || isOfOtherGeneration(intent, reply)) return { type: 'unknown_to_worker', againInMs: 0 }
  return eventOfEnd(plan, reply)
}

/** A reply about an older or newer intent under the same operation ID does not apply to this one. */
export const isOfOtherGeneration = ({ generation }: Pick<Intent, 'generation'>, reply: OpStatusReply): boolean =>
  reply.generation !== undefined && reply.generation !== generation

/**
 * True when the inventory of a node fulfills the intent. A list made before the worker accepted the intent does not count:
 * workers that number their intents report the last number that their list includes; for other workers the intent must be in
 * progress. A list does not tell whether content was read from a path of the node (`file:`) by this intent: unless it is the
 * pinned content, the result decides.
 */
export function isSatisfied({ intent, plan }: { intent: Intent; plan: Plan }, list: BackendList): boolean {
  if (!isOpen(intent)) return false
  if (list.generations === undefined) {
    if (intent.state !== 'working') return false
  } else {
    if ((list.generations[intent.backend] ?? -1) < intent.generation) return false
    // The version may be present but damaged: an upgrade that failed, or whose fate is unknown, is sent again to repair it.
    if (intent.state !== 'working' && intent.kind === 'upgrade') return false
  }
  const found = list.backends.find(({ name }) => name === intent.backend || name === plan.name)
  const isIntact = found !== undefined && found.damaged !== true
  switch (intent.kind) {
    case 'install': {
      const isAnyEnough = !plan.exact && (list.generations === undefined || plan.uri?.startsWith('file:') !== true)
      return isIntact && (isAnyEnough || (plan.digest !== null && found.digest === plan.digest))
    }
    case 'upgrade':
      return isIntact && plan.digest !== null && found.digest === plan.digest
    case 'delete':
      return found === undefined
    default:
      return unreachable(intent.kind)
  }
}
