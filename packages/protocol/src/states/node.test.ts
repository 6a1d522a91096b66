import { describe, expect, it } from 'vitest'
import { isArriving, nodeStatus, step, type Responsiveness, type Liveness, type NodeFacts, type Pulse, type PulseEvent } from './node.ts'

const facts = (changes: Partial<NodeFacts> = {}): NodeFacts => ({
  approved: true,
  draining: false,
  liveness: 'present',
  answering: 'yes',
  lastSeenAt: '2026-01-01T00:00:00.000Z',
  ...changes,
})
const livenesses: Liveness[] = ['new', 'present', 'silent', 'gone', 'left']
const answerings: Responsiveness[] = ['yes', 'unproven', 'no']
const pulses: Pulse[] = livenesses.flatMap((liveness) => answerings.map((answering) => ({ liveness, answering })))

describe('the status of a node', () => {
  it.each<[string, Partial<NodeFacts>, string, RegExp]>([
    ['is healthy when it reports and answers', {}, 'healthy', /heartbeats/],
    ['is draining when an administrator said so', { draining: true }, 'draining', /administrator/],
    ['is unhealthy when it fell silent', { liveness: 'silent' }, 'unhealthy', /node timeout; last heard 2026/],
    ['is unhealthy before its first report', { liveness: 'new', lastSeenAt: null }, 'unhealthy', /not reported/],
    ['is unhealthy when nobody serves its commands', { answering: 'no' }, 'unhealthy', /not answering commands/],
    ['is unhealthy until it proved that commands reach it', { answering: 'unproven' }, 'unhealthy', /has not answered a command yet/],
    ['is offline after a goodbye', { liveness: 'left' }, 'offline', /the worker was stopped/],
    ['is offline when silent for long', { liveness: 'gone' }, 'offline', /offline limit/],
    ['is unhealthy rather than draining', { draining: true, liveness: 'silent' }, 'unhealthy', /./],
    ['is offline rather than unhealthy', { answering: 'no', liveness: 'gone' }, 'offline', /./],
  ])('%s', (_, change, status, reason) => {
    expect(nodeStatus(facts(change))).toEqual({ status, reason: expect.stringMatching(reason) })
  })

  it('is on its way before its first report, and until it proved that commands reach it', () => {
    const arriving = pulses.filter((pulse) => isArriving(facts(pulse)))
    expect(arriving).toEqual([
      ...answerings.map((answering) => ({ liveness: 'new', answering })),
      { liveness: 'present', answering: 'unproven' },
    ])
    for (const change of [{ approved: false }, { draining: true }]) expect(isArriving(facts({ liveness: 'new', ...change }))).toBe(false)
  })

  it('X1 X2 is pending without approval, whatever else is true', () => {
    for (const pulse of pulses) {
      for (const draining of [true, false]) expect(nodeStatus(facts({ ...pulse, draining, approved: false })).status).toBe('pending')
    }
  })
})

describe('a pulse', () => {
  const beat = (via: 'bus' | 'http', isNewIncarnation = false, isAgent = false): PulseEvent => ({
    type: 'heartbeat',
    via,
    isNewIncarnation,
    isAgent,
  })

  it.each<[string, Pulse, PulseEvent, Pulse]>([
    [
      'a first report makes it present',
      { liveness: 'new', answering: 'yes' },
      beat('bus', true),
      { liveness: 'present', answering: 'yes' },
    ],
    [
      'a report after silence brings it back',
      { liveness: 'silent', answering: 'yes' },
      beat('bus'),
      { liveness: 'present', answering: 'yes' },
    ],
    [
      'a heartbeat alone does not heal what met no responders',
      { liveness: 'present', answering: 'no' },
      beat('bus'),
      { liveness: 'present', answering: 'no' },
    ],
    [
      'a restarted worker gets a chance to prove itself',
      { liveness: 'left', answering: 'no' },
      beat('bus', true),
      { liveness: 'present', answering: 'unproven' },
    ],
    [
      'a restart of a healthy one asks for no proof',
      { liveness: 'left', answering: 'yes' },
      beat('bus', true),
      { liveness: 'present', answering: 'yes' },
    ],
    [
      'over HTTP a node that is back has to prove itself',
      { liveness: 'gone', answering: 'yes' },
      beat('http'),
      { liveness: 'present', answering: 'unproven' },
    ],
    [
      'over HTTP a node that never left is unchanged',
      { liveness: 'present', answering: 'yes' },
      beat('http'),
      { liveness: 'present', answering: 'yes' },
    ],
    [
      'an agent that is back over HTTP owes no proof',
      { liveness: 'gone', answering: 'yes' },
      beat('http', true, true),
      { liveness: 'present', answering: 'yes' },
    ],
    [
      'an answer is proof and a sign of life',
      { liveness: 'silent', answering: 'no' },
      { type: 'answered' },
      { liveness: 'present', answering: 'yes' },
    ],
    [
      'no responders is remembered',
      { liveness: 'present', answering: 'yes' },
      { type: 'no_responders' },
      { liveness: 'present', answering: 'no' },
    ],
    ['a goodbye is remembered', { liveness: 'present', answering: 'no' }, { type: 'leaving' }, { liveness: 'left', answering: 'no' }],
    [
      'silence makes a present one silent',
      { liveness: 'present', answering: 'yes' },
      { type: 'silent_for_timeout' },
      { liveness: 'silent', answering: 'yes' },
    ],
    [
      'silence does not change a goodbye',
      { liveness: 'left', answering: 'yes' },
      { type: 'silent_for_offline' },
      { liveness: 'left', answering: 'yes' },
    ],
    [
      'long silence makes it gone',
      { liveness: 'silent', answering: 'yes' },
      { type: 'silent_for_offline' },
      { liveness: 'gone', answering: 'yes' },
    ],
  ])('%s', (_, before, event, after) => {
    expect(step(before, event)).toEqual(after)
  })

  it('is always present after a heartbeat, and never healed by one from no responders', () => {
    for (const pulse of pulses) {
      for (const via of ['bus', 'http'] as const) {
        for (const isNew of [true, false]) {
          const after = step(pulse, beat(via, isNew))
          expect(after.liveness).toBe('present')
          if (pulse.answering === 'no') expect(after.answering).not.toBe('yes')
        }
      }
    }
  })
})
