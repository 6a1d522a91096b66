import type { StatsBucket } from '@muster/protocol'
import { describe, expect, it } from 'vitest'
import { lastMinuteOf, trafficOf } from './traffic.pure.ts'

const now = Date.parse('2026-01-01T12:00:07Z')
const bucket = (secondsAgo: number, changes: Partial<StatsBucket> = {}): StatsBucket => ({
  at: new Date(Date.parse('2026-01-01T12:00:00Z') - secondsAgo * 1_000).toISOString(),
  ...{
    model: 'm',
    node_id: 'a',
    requests: 20,
    errors: 1,
    client_errors: 3,
    overloaded: 2,
    prompt_tokens: 7,
    completion_tokens: 100,
    in_flight: 2,
    duration_ms: 5,
  },
  ...changes,
})

describe('traffic', () => {
  it('covers an hour in intervals of ten seconds, per second', () => {
    const { times, requests, tokens, errors, overloaded, clientErrors, inFlight } = trafficOf([bucket(30), bucket(30, { node_id: 'b' })], {
      now,
      since: 0,
    })
    expect(times).toHaveLength(360)
    expect(times.at(-1)).toBe(Date.parse('2026-01-01T12:00:00Z') / 1_000)
    expect([requests, tokens, errors, overloaded, clientErrors, inFlight].map((series) => series.at(-4))).toEqual([4, 20, 0.2, 0.4, 0.6, 4])
  })

  it('is zero without requests, and unknown without data', () => {
    const { requests } = trafficOf([], { now, since: now - 60_000 })
    // The bucket in which the controller started counts; the last two are not reported yet.
    expect(requests.slice(-9)).toEqual([null, null, 0, 0, 0, 0, 0, null, null])
    expect(requests.slice(0, -7).every((value) => value === null)).toBe(true)
  })

  it('is known from buckets older than the controllers', () => {
    const { requests } = trafficOf([bucket(600), bucket(0)], { now, since: now })
    expect(requests.at(-61)).toBe(2)
    expect(requests.at(-60)).toBe(0)
    expect(requests.at(-62)).toBe(null)
    expect(requests.at(-1)).toBe(2)
  })

  it('of the last minute is the sum of the last six complete buckets', () => {
    const buckets = [bucket(10), bucket(20), bucket(70), bucket(80)]
    expect(lastMinuteOf(buckets, now)).toEqual({
      requestsPerSecond: 40 / 60,
      tokensPerSecond: 200 / 60,
      errors: 2,
      overloaded: 4,
      clientErrors: 6,
    })
    expect(lastMinuteOf([], now)).toEqual({ requestsPerSecond: 0, tokensPerSecond: 0, errors: 0, overloaded: 0, clientErrors: 0 })
  })
})
