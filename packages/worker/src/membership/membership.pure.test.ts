import type { NodeId, Session } from '@muster/protocol'
import { describe, expect, it } from 'vitest'
import { initialMembership, step, type JoinFacts, type Membership, type MembershipEvent, type Refusal } from './membership.pure.ts'

const id = 'node-1' as NodeId
const settings = { heartbeat_interval_ms: 5000, controllers: [], allow_source: [], galleries: [] }
const bus = { url: 'nats://127.0.0.1:4222', credentials: 'jwt', expires_at: null }
const waiting: Session = { status: 'pending', bus: null, settings, etag: 'a' }
const approved = { status: 'healthy', bus, settings, etag: 'b' } as const satisfies Session
const asking = { attempt: 0, retryAfterMs: null }

const firstJoin: Membership = { state: 'registering', nodeId: null, ...asking }
const returning: Membership = { state: 'registering', nodeId: id, ...asking }
const registered: Membership = { state: 'registered', nodeId: id, isApproved: false, ...asking }
const pending: Membership = { state: 'pending', nodeId: id, session: waiting, ...asking }
const joined: Membership = { state: 'joined', nodeId: id, session: approved, ...asking }
const ended: Membership = { state: 'ended', reason: 'stopped', code: 0, message: '' }
const states = { firstJoin, returning, registered, pending, joined, ended }

const refusal = (status: number, code: string, retryAfterMs: number | null = null): Refusal => ({
  type: 'refused',
  status,
  code,
  message: `because ${code}`,
  retryAfterMs,
})
const events = {
  registered: { type: 'registered', nodeId: 'node-2' as NodeId, isApproved: true },
  waiting: { type: 'session', session: waiting },
  approved: { type: 'session', session: approved },
  unreachable: { type: 'unreachable', reason: 'closed', retryAfterMs: null },
  overloaded: refusal(503, 'unavailable', 3000),
  limited: refusal(429, 'too_many_failures', 9000),
  broken: refusal(500, 'internal'),
  wrongToken: refusal(401, 'wrong_token'),
  badSignature: refusal(401, 'bad_signature'),
  invalid: refusal(400, 'invalid'),
  forbidden: refusal(403, 'forbidden'),
  gone: refusal(404, 'unknown_node'),
  gateway: refusal(404, 'not_found'),
  local: refusal(409, 'bus_is_local'),
  superseded: refusal(409, 'superseded'),
  conflict: refusal(409, 'conflict'),
  outdated: refusal(409, 'registration_outdated'),
  stop: { type: 'stop', message: 'told to' },
} as const satisfies Record<string, MembershipEvent>

type Outcome =
  | 'illegal'
  | 'again'
  | 'registering anew'
  | 'registered'
  | 'pending'
  | 'joined'
  | 'stopped'
  | 'deleted'
  | 'superseded'
  | 'refused'

/** The effect of a controller's response on a worker that has no token, in every state. */
const table: Record<keyof typeof events, Record<keyof typeof states, Outcome>> = {
  registered: {
    firstJoin: 'registered',
    returning: 'registered',
    registered: 'illegal',
    pending: 'illegal',
    joined: 'illegal',
    ended: 'illegal',
  },
  waiting: { firstJoin: 'illegal', returning: 'illegal', registered: 'pending', pending: 'pending', joined: 'pending', ended: 'illegal' },
  approved: { firstJoin: 'illegal', returning: 'illegal', registered: 'joined', pending: 'joined', joined: 'joined', ended: 'illegal' },
  unreachable: { firstJoin: 'again', returning: 'again', registered: 'again', pending: 'again', joined: 'again', ended: 'illegal' },
  overloaded: { firstJoin: 'again', returning: 'again', registered: 'again', pending: 'again', joined: 'again', ended: 'illegal' },
  limited: { firstJoin: 'again', returning: 'again', registered: 'again', pending: 'again', joined: 'again', ended: 'illegal' },
  broken: { firstJoin: 'again', returning: 'again', registered: 'again', pending: 'again', joined: 'again', ended: 'illegal' },
  wrongToken: { firstJoin: 'refused', returning: 'refused', registered: 'again', pending: 'again', joined: 'again', ended: 'illegal' },
  badSignature: { firstJoin: 'refused', returning: 'again', registered: 'again', pending: 'again', joined: 'again', ended: 'illegal' },
  invalid: { firstJoin: 'refused', returning: 'again', registered: 'again', pending: 'again', joined: 'again', ended: 'illegal' },
  forbidden: { firstJoin: 'refused', returning: 'again', registered: 'again', pending: 'again', joined: 'again', ended: 'illegal' },
  gone: { firstJoin: 'refused', returning: 'again', registered: 'deleted', pending: 'deleted', joined: 'deleted', ended: 'illegal' },
  gateway: { firstJoin: 'refused', returning: 'again', registered: 'again', pending: 'again', joined: 'again', ended: 'illegal' },
  local: { firstJoin: 'refused', returning: 'refused', registered: 'refused', pending: 'refused', joined: 'refused', ended: 'illegal' },
  superseded: {
    firstJoin: 'superseded',
    returning: 'superseded',
    registered: 'superseded',
    pending: 'superseded',
    joined: 'superseded',
    ended: 'illegal',
  },
  conflict: { firstJoin: 'refused', returning: 'again', registered: 'again', pending: 'again', joined: 'again', ended: 'illegal' },
  outdated: { firstJoin: 'again', returning: 'again', registered: 'again', pending: 'again', joined: 'again', ended: 'illegal' },
  stop: { firstJoin: 'stopped', returning: 'stopped', registered: 'stopped', pending: 'stopped', joined: 'stopped', ended: 'illegal' },
}
const withToken: typeof table = {
  ...table,
  gone: { ...table.gone, registered: 'registering anew', pending: 'registering anew', joined: 'registering anew' },
}

function outcome(before: Membership, event: MembershipEvent, facts: JoinFacts): Outcome {
  const after = step(before, event, facts)
  if (after === null) return 'illegal'
  if (after.state === 'ended') return after.reason
  if (after.state === 'registering' && after.nodeId === null && before.state !== 'registering') return 'registering anew'
  if (before.state !== 'ended' && after.attempt === before.attempt + 1) {
    expect(after).toEqual({ ...before, attempt: after.attempt, retryAfterMs: 'retryAfterMs' in event ? event.retryAfterMs : null })
    return 'again'
  }
  expect(after).toMatchObject(asking)
  return after.state === 'registering' ? 'illegal' : after.state
}

const rows = (want: typeof table) =>
  Object.entries(want).flatMap(([event, byState]) =>
    Object.entries(byState).map(([state, expected]) => [event as keyof typeof events, state as keyof typeof states, expected] as const),
  )

describe('a worker without a token', () => {
  it.each(rows(table))('%s while %s: %s', (event, state, want) => {
    expect(outcome(states[state], events[event], { hasToken: false, controllerUrl: 'http://c' })).toBe(want)
  })
})

describe('a worker with a token', () => {
  it.each(rows(withToken))('%s while %s: %s', (event, state, want) => {
    expect(outcome(states[state], events[event], { hasToken: true, controllerUrl: 'http://c' })).toBe(want)
  })
})

describe('the state it keeps', () => {
  it('begins with no failures', () => {
    expect(initialMembership(id)).toEqual(returning)
  })
  it('takes the ID of the controller, also when it had another one before', () => {
    expect(step(returning, events.registered, { hasToken: false, controllerUrl: 'http://c' })).toMatchObject({
      nodeId: 'node-2',
      isApproved: true,
    })
  })
  it('exits with 1 and the command to run when it was deleted', () => {
    expect(step(joined, events.gone, { hasToken: false, controllerUrl: 'http://c:8080' })).toMatchObject({
      code: 1,
      message: expect.stringContaining('muster worker --join http://c:8080 --token'),
    })
  })
  it('reports the refusal of a controller about its bus', () => {
    expect(step(firstJoin, events.local, { hasToken: true, controllerUrl: 'http://c' })).toMatchObject({
      code: 1,
      message: 'because bus_is_local',
    })
  })
  it.each([
    [false, 'joining needs the join token'],
    [true, 'the join token is not accepted'],
  ])('says which token trouble it is (token given: %s)', (hasToken, want) => {
    expect(step(firstJoin, events.wrongToken, { hasToken, controllerUrl: 'http://c' })).toMatchObject({
      code: 1,
      message: expect.stringContaining(want),
    })
  })
  it('resets its failures with the first response', () => {
    expect(step({ ...joined, attempt: 7, retryAfterMs: 5 }, events.approved, { hasToken: false, controllerUrl: 'http://c' })).toEqual(
      joined,
    )
  })
})
