import { Incarnation, NodeId, type Session } from '@muster/protocol'
import { describe, expect, it } from 'vitest'
import { createManualClock } from '../../test/manual-clock.ts'
import { recordingLog } from '../../test/recording-log.ts'
import type { Answer, ControllerClient } from '../controllers/controller-client.ts'
import { initialMembership, type Membership } from './membership.pure.ts'
import { runMembership } from './run-membership.ts'

const nodeId = NodeId.parse('n-1')
const session = (etag: string, bus: Session['bus'] = null): Answer<Session> => ({
  kind: 'ok',
  body: { status: 'pending', bus, settings: { heartbeat_interval_ms: 1, controllers: [], allow_source: [], galleries: [] }, etag },
})
const registered: Answer<unknown> = { kind: 'ok', body: { id: nodeId, name: 'a', status: 'pending' } }
const unreachable: Answer<never> = { kind: 'unreachable', url: 'http://c', reason: 'closed', retryAfterMs: null }
const refused = (status: number, code: string, retryAfterMs: number | null = null): Answer<never> => ({
  kind: 'refused',
  status,
  code,
  message: code,
  retryAfterMs,
})

/** Gives the answers one after the other, and the last one forever. */
function world(answers: readonly Answer<unknown>[], { tookMs = 0 } = {}) {
  const clock = createManualClock()
  const stopping = new AbortController()
  const asked: { path: string; body: unknown; at: number; hedgeMs: number | null }[] = []
  const states: string[] = []
  const client: Pick<ControllerClient, 'call' | 'current'> = {
    current: () => 'http://c',
    call: async (route, { body, hedgeMs = null, signal }) => {
      signal.throwIfAborted()
      asked.push({ path: route.path, body, at: clock.monotonic(), hedgeMs })
      const answer = answers[Math.min(asked.length, answers.length) - 1]
      if (tookMs > 0) await clock.sleep(tookMs, signal)
      return answer as never
    },
  }
  const log = recordingLog()
  const ended = runMembership(
    {
      client,
      incarnation: Incarnation.parse('i'),
      hasToken: false,
      registration: () => ({ name: 'a', public_key: 'U', incarnation: 'i' }),
      apply: async (now: Membership) => void states.push(now.state),
      onPolled: () => undefined,
      random: () => 0.5,
      clock,
      log,
      signal: stopping.signal,
    },
    initialMembership(null),
  )
  return { clock, asked, states, log, ended, stop: () => stopping.abort('enough') }
}

describe('the pace of requests', () => {
  it('C2 backs off to at most 5 s while no controller answers, and never gives up', async () => {
    const { clock, asked, stop, ended } = world([unreachable])
    await clock.advance(3_600_000)
    const waits = asked.slice(1).map(({ at }, index) => at - (asked[index]?.at ?? 0))
    expect(waits.slice(0, 7)).toEqual([200, 400, 800, 1600, 3200, 4000, 4000])
    expect(Math.max(...waits)).toBeLessThanOrEqual(5000)
    expect(asked.length).toBeGreaterThan(800)
    stop()
    expect(await ended).toEqual({ state: 'ended', reason: 'stopped', code: 0, message: 'enough' })
  })

  it('honors Retry-After, with jitter', async () => {
    const { clock, asked, stop } = world([refused(503, 'unavailable', 8000), registered, session('a')], { tookMs: 0 })
    await clock.advance(20_000)
    expect(asked[1]?.at).toBe(9000)
    stop()
  })

  it('polls at once after a change, and slowly without one', async () => {
    const { clock, asked, stop } = world([registered, session('a'), session('b'), session('b')])
    await clock.advance(2500)
    expect(asked.map(({ at }) => at)).toEqual([0, 0, 0, 0, 1000, 2000])
    stop()
  })

  it('pauses after an unchanged session that came early, as from a controller that is being stopped', async () => {
    const { clock, asked, stop } = world([registered, session('a'), session('a'), session('b')], { tookMs: 5_000 })
    await clock.advance(17_000)
    expect(asked.map(({ at }) => at)).toEqual([0, 5_000, 10_000, 16_000])
    stop()
  })

  it('does not pause after a poll that waited', async () => {
    const { clock, asked, stop } = world([registered, session('a')], { tookMs: 30_000 })
    await clock.advance(95_000)
    expect(asked.map(({ at }) => at)).toEqual([0, 30_000, 60_000, 90_000])
    stop()
  })
})

describe('asking', () => {
  it('sends the etag it knows', async () => {
    const { clock, asked, stop } = world([registered, session('a'), session('b')])
    await clock.advance(0)
    expect(asked.slice(1, 4).map(({ body }) => body)).toEqual([
      { incarnation: 'i' },
      { incarnation: 'i', known: 'a' },
      { incarnation: 'i', known: 'b' },
    ])
    stop()
  })

  it('asks another controller too when one is silent, except in a long poll', async () => {
    const bus = { url: 'local:', credentials: null, expires_at: null }
    const approved: Answer<unknown> = { kind: 'ok', body: { id: nodeId, name: 'a', status: 'unhealthy' } }
    const known = world([approved, session('a', bus), session('a', bus)])
    await known.clock.advance(0)
    expect(known.asked.slice(0, 3).map(({ hedgeMs }) => hedgeMs)).toEqual([2000, 2000, null])
    known.stop()
    const pending = world([registered, session('a')])
    await pending.clock.advance(0)
    expect(pending.asked.slice(0, 2).map(({ hedgeMs }) => hedgeMs)).toEqual([2000, null])
    pending.stop()
  })

  it('logs a lasting failure once, and its end', async () => {
    const { clock, log, stop } = world([unreachable, unreachable, unreachable, registered, session('a')])
    await clock.advance(10_000)
    expect(log.lines.map(({ level }) => level)).toEqual(['warn', 'info'])
    stop()
  })

  it('stops in the middle of a poll', async () => {
    const { clock, ended, stop } = world([registered, session('a')], { tookMs: 30_000 })
    await clock.advance(31_000)
    stop()
    expect(await ended).toMatchObject({ reason: 'stopped' })
  })

  it('ends with the controller’s refusal', async () => {
    const { ended, states } = world([refused(401, 'wrong_token')])
    expect(await ended).toMatchObject({ reason: 'refused', code: 1 })
    expect(states).toEqual(['registering', 'ended'])
  })

  it.each<[string, Answer<unknown>[]]>([
    ['an answer that ends it', [refused(401, 'wrong_token')]],
    ['a controller that forgot it', [registered, session('a'), refused(404, 'unknown_node')]],
    ['a process that took over', [registered, refused(409, 'superseded')]],
  ])('does not promise to try on after %s', async (_, answers) => {
    const { clock, ended, log } = world(answers)
    await clock.advance(1000)
    expect(await ended).toMatchObject({ code: 1 })
    expect(log.lines).toEqual([])
  })
})

it('logs nothing when all goes well', async () => {
  const { clock, log, stop } = world([registered, session('a')])
  await clock.advance(0)
  expect(log.lines).toEqual([])
  stop()
})
