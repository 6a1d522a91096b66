// Registers this worker and polls its session for as long as it runs. membership.pure.ts decides what a response means; this
// file sends the requests, sets the pace and logs.
import { hostname } from 'node:os'
import type { z } from 'zod'
import { withoutCredentials } from '@muster/bus'
import { type Clock, type Log, type NodeKey, version } from '@muster/host'
import { backoffMs, features, type Incarnation, nodeAgentRoutes, type NodeId, type Registration, unreachable } from '@muster/protocol'
import { platformOf } from '@muster/source'
import type { Answer, ControllerClient } from '../controllers/controller-client.ts'
import type { PollOutcome } from '../metrics.ts'
import type { ResourceMonitor } from '../resources/resource-monitor.ts'
import type { EffectiveSettings } from '../settings.ts'
import { type EndedMembership, type JoinFacts, type Membership, type MembershipEvent, step } from './membership.pure.ts'

export type MembershipDeps = Readonly<{
  client: Pick<ControllerClient, 'call' | 'current'>
  incarnation: Incarnation
  hasToken: boolean
  /** The current registration. */
  registration: () => z.input<typeof Registration>
  /** Applies a new state to the parts of the worker. The next request waits for it. */
  apply: (now: Membership, before: Membership | null) => Promise<void>
  onPolled: (outcome: PollOutcome) => void
  random: () => number
  clock: Clock
  log: Log
  /** Its reason is the message that the worker ends with. */
  signal: AbortSignal
}>

const registerTimeoutMs = 15_000
/** A controller that works answers a registration, and the first poll of an approved node, within milliseconds. */
const hedgeMs = 2_000
/** A controller answers a session poll within 30 s, also when nothing changed. */
const pollTimeoutMs = 40_000
/**
 * A controller that responds early although nothing changed is being stopped. The pause prevents a busy loop, and in `muster up` a
 * poll of the own controller that accepts no more connections.
 */
const idlePollMs = 1_000
const fullPollMs = 25_000
const longestRetryAfterMs = 30_000

export async function runMembership(deps: MembershipDeps, initial: Membership): Promise<EndedMembership> {
  const { client, clock, log, signal, hasToken } = deps
  const logFailure = createFailureLog(log)
  let now: Membership = initial
  await deps.apply(now, null)
  while (now.state !== 'ended') {
    const before: Exclude<Membership, EndedMembership> = now
    const facts: JoinFacts = { hasToken, controllerUrl: client.current() }
    const sentAt = clock.monotonic()
    const event = signal.aborted
      ? eventOfAbort(signal)
      : await request(deps, before).catch((error: unknown) => (signal.aborted ? eventOfAbort(signal) : Promise.reject(error)))
    const next = step(before, event, facts)
    if (next === null) throw new Error(`the event ${event.type} is not legal in the state ${before.state}`)
    now = next
    if (now.state !== 'ended') logFailure(now.attempt > 0 ? event : null)
    await deps.apply(now, before)
    if (now.state === 'ended') break
    await clock.sleep(pauseMs({ before, now, tookMs: clock.monotonic() - sentAt, random: deps.random }), signal).catch(() => undefined)
  }
  return now
}

async function request(deps: MembershipDeps, now: Exclude<Membership, EndedMembership>): Promise<MembershipEvent> {
  const { client, signal, incarnation } = deps
  if (now.state === 'registering') {
    const answer = await client.call(nodeAgentRoutes.register, { body: deps.registration(), timeoutMs: registerTimeoutMs, hedgeMs, signal })
    return answer.kind === 'ok'
      ? { type: 'registered', nodeId: answer.body.id, isApproved: answer.body.status !== 'pending' }
      : eventOfFailure(answer)
  }
  const known = now.state === 'registered' ? {} : { known: now.session.etag }
  const answer = await client.call(nodeAgentRoutes.session, {
    params: { id: now.nodeId },
    body: { incarnation, ...known },
    timeoutMs: pollTimeoutMs,
    // Other polls are long: silence is their normal state.
    ...(now.state === 'registered' && now.isApproved ? { hedgeMs } : {}),
    signal,
  })
  deps.onPolled(answer.kind)
  return answer.kind === 'ok' ? { type: 'session', session: answer.body } : eventOfFailure(answer)
}

function eventOfFailure(answer: Exclude<Answer<never>, { kind: 'ok' }>): MembershipEvent {
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

function eventOfAbort({ reason }: AbortSignal): MembershipEvent {
  return { type: 'stop', message: typeof reason === 'string' ? reason : 'stopped' }
}

type Pace = Readonly<{ before: Membership; now: Exclude<Membership, EndedMembership>; tookMs: number; random: () => number }>

/** Exponential backoff up to 5 s, or longer if a controller requests it; with jitter, so that workers do not stay in step. */
function pauseMs({ before, now, tookMs, random }: Pace): number {
  if (now.attempt > 0) {
    const backoff = backoffMs(now.attempt, { baseMs: 200, maxMs: 4_000, jitter: 0.25 }, random())
    return now.retryAfterMs === null ? backoff : Math.max(backoff, Math.min(now.retryAfterMs, longestRetryAfterMs) * (1 + random() / 4))
  }
  const unchanged = 'session' in before && 'session' in now && before.session.etag === now.session.etag
  return unchanged && tookMs < fullPollMs ? idlePollMs : 0
}

/** Logs a failure when it begins and when its reason changes, and the recovery (null). */
function createFailureLog(log: Log): (failure: MembershipEvent | null) => void {
  let last = ''
  return (failure) => {
    const reason = failure === null ? '' : reasonOf(failure)
    if (reason === last) return
    if (reason !== '') log.warn('cannot reach a controller; retrying', { reason })
    else log.info('controllers are reachable again')
    last = reason
  }
}

function reasonOf(event: MembershipEvent): string {
  if (event.type === 'unreachable') return event.reason
  return event.type === 'refused' ? `${event.status} ${event.code}: ${event.message}` : ''
}

type RegistrationFacts = Readonly<{
  settings: EffectiveSettings
  key: NodeKey
  incarnation: Incarnation
  monitor: ResourceMonitor
  gatewayUrl: string
  os: string
  arch: string
}>

export function describeWorker(facts: RegistrationFacts): z.input<typeof Registration> {
  const { settings, key, incarnation, monitor, gatewayUrl, os, arch } = facts
  return {
    name: settings.name ?? hostname(),
    public_key: key.publicKey,
    node_type: settings.type,
    ...(settings.token === undefined ? {} : { token: settings.token.reveal() }),
    version,
    features: [...features],
    // The names of container images, which they are compared with.
    ...platformOf({ platform: os, arch }),
    capability: monitor.capability(),
    gateway_url: gatewayUrl,
    labels: settings.labels,
    prefetch_models: [...settings.prefetchModels],
    resources: monitor.resources(),
    incarnation,
  }
}

/** Logs each change of the membership once. */
export function logMembership(log: Log, now: Membership, before: Membership | null): void {
  if (now.state === before?.state) return
  switch (now.state) {
    case 'registering':
      if (before !== null) log.warn('node removed from the cluster; joining again as a new one')
      return
    case 'registered':
      log.info('worker registered', { node_id: now.nodeId })
      // Logged here already: the first session of a node that is not approved may take half a minute.
      return now.isApproved ? undefined : logPending(log, now.nodeId)
    case 'pending':
      return before?.state === 'registered' && !before.isApproved ? undefined : logPending(log, now.nodeId)
    case 'joined':
      return log.info('worker joined the cluster', { node_id: now.nodeId, bus: withoutCredentials(now.session.bus.url) })
    case 'ended':
      // The caller of startWorker gets the message as the outcome.
      return
    default:
      return unreachable(now)
  }
}

const logPending = (log: Log, nodeId: NodeId): void =>
  log.info('node waits for the approval of an administrator', { node_id: nodeId, run: `muster nodes approve ${nodeId}` })
