// Asks the controllers what this worker is, for as long as it lives, and tells what became of it.
// Answers are facts for the machine; here are only the asking, the pace and the log.
import { type Clock, type Log } from '@muster/host'
import { backoffMs, nodeAgentRoutes, unreachable, type Incarnation, type Registration } from '@muster/protocol'
import type { z } from 'zod'
import type { Answer, ControllerClient } from '../controller-client.ts'
import type { PollOutcome } from '../metrics.ts'
import { step, type Ended, type JoinFacts, type Membership, type MembershipEvent } from './machine.ts'

export type MembershipDeps = Readonly<{
  client: Pick<ControllerClient, 'call' | 'current'>
  incarnation: Incarnation
  hasToken: boolean
  /** What to register with, now. */
  registration: () => z.input<typeof Registration>
  /** Makes the world what the state says. The next question waits for it. */
  become: (now: Membership, before: Membership | null) => Promise<void>
  onPolled: (outcome: PollOutcome) => void
  random: () => number
  clock: Clock
  log: Log
  /** Its reason is what the worker ends with. */
  signal: AbortSignal
}>

const registerTimeoutMs = 15_000
/** A controller answers a session poll within 30 s, also when nothing changed. */
const pollTimeoutMs = 40_000
/** A controller that answers at once though nothing changed must not make this a busy loop. */
const idlePollMs = 1_000
const longestRetryAfterMs = 30_000

export async function runMembership(deps: MembershipDeps, initial: Membership): Promise<Ended> {
  const { client, clock, log, signal, hasToken } = deps
  const complain = createComplaints(log)
  let now: Membership = initial
  await deps.become(now, null)
  while (now.state !== 'ended') {
    const before: Exclude<Membership, Ended> = now
    const facts: JoinFacts = { hasToken, controllerUrl: client.current() }
    const askedAt = clock.monotonic()
    const event = signal.aborted
      ? stopped(signal)
      : await ask(deps, before).catch((error: unknown) => (signal.aborted ? stopped(signal) : Promise.reject(error)))
    const next = step(before, event, facts)
    if (next === null) throw new Error(`a worker that is ${before.state} can't be told ${event.type}`)
    now = next
    if (now.state !== 'ended') complain(now.attempt > 0 ? event : null)
    await deps.become(now, before)
    if (now.state === 'ended') break
    await clock.sleep(pauseMs({ before, now, tookMs: clock.monotonic() - askedAt, random: deps.random }), signal).catch(() => undefined)
  }
  return now
}

async function ask(deps: MembershipDeps, now: Exclude<Membership, Ended>): Promise<MembershipEvent> {
  const { client, signal, incarnation } = deps
  if (now.state === 'registering') {
    const answer = await client.call(nodeAgentRoutes.register, { body: deps.registration(), timeoutMs: registerTimeoutMs, signal })
    return answer.kind === 'ok'
      ? { type: 'registered', nodeId: answer.body.id, isApproved: answer.body.status !== 'pending' }
      : failed(answer)
  }
  const known = now.state === 'registered' ? {} : { known: now.session.etag }
  const answer = await client.call(nodeAgentRoutes.session, {
    params: { id: now.nodeId },
    body: { incarnation, ...known },
    timeoutMs: pollTimeoutMs,
    signal,
  })
  deps.onPolled(answer.kind)
  return answer.kind === 'ok' ? { type: 'session', session: answer.body } : failed(answer)
}

function failed(answer: Exclude<Answer<never>, { kind: 'ok' }>): MembershipEvent {
  switch (answer.kind) {
    case 'refused': {
      const { status, code, message, retryAfterMs } = answer
      return { type: 'refused', status, code, message, retryAfterMs }
    }
    case 'unreachable':
      return { type: 'unreachable', reason: `${answer.url}: ${answer.reason}`, retryAfterMs: answer.retryAfterMs }
    default:
      return unreachable(answer)
  }
}

function stopped({ reason }: AbortSignal): MembershipEvent {
  return { type: 'stop', message: typeof reason === 'string' ? reason : 'stopped' }
}

type Pace = Readonly<{ before: Membership; now: Exclude<Membership, Ended>; tookMs: number; random: () => number }>

/** After a failure longer and longer, but at most 5 s, unless a controller asked for more; never in step with others. */
function pauseMs({ before, now, tookMs, random }: Pace): number {
  if (now.attempt > 0) {
    const backoff = backoffMs(now.attempt, { baseMs: 200, maxMs: 4_000, jitter: 0.25 }, random())
    return now.retryAfterMs === null ? backoff : Math.max(backoff, Math.min(now.retryAfterMs, longestRetryAfterMs) * (1 + random() / 4))
  }
  const unchanged = 'session' in before && 'session' in now && before.session.etag === now.session.etag
  return unchanged ? Math.max(0, idlePollMs - tookMs) : 0
}

/** What goes wrong is said when it begins and when it changes; and that it is over (null). */
function createComplaints(log: Log): (failure: MembershipEvent | null) => void {
  let last = ''
  return (failure) => {
    const reason = failure === null ? '' : reasonOf(failure)
    if (reason === last) return
    if (reason !== '') log.warn('a controller gave no answer to go on with; trying on', { reason })
    else log.info('the controllers answer again')
    last = reason
  }
}

function reasonOf(event: MembershipEvent): string {
  if (event.type === 'unreachable') return event.reason
  return event.type === 'refused' ? `${event.status} ${event.code}: ${event.message}` : ''
}
