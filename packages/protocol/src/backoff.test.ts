import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { backoffMs } from './backoff.ts'

const policy = { baseMs: 30_000, maxMs: 900_000, jitter: 0.1 }

describe('backoffMs', () => {
  it.each([
    [1, 30_000],
    [2, 60_000],
    [5, 480_000],
    [6, 900_000],
    [10, 900_000],
    [5000, 900_000],
    [0, 30_000],
  ])('waits after attempt %d for %d ms', (attempt, ms) => {
    expect(backoffMs(attempt, policy, 0.5)).toBe(ms)
  })

  it('stays within the jitter, and uses both sides of it', () => {
    expect(backoffMs(1, policy, 0)).toBe(27_000)
    expect(backoffMs(1, policy, 0.999999999)).toBe(33_000)
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 10_000 }), fc.double({ min: 0, max: 0.999, noNaN: true }), (attempt, at) => {
        const exact = backoffMs(attempt, policy, 0.5)
        const ms = backoffMs(attempt, policy, at)
        return ms >= exact * 0.9 && ms <= exact * 1.1
      }),
    )
  })

  it('waits not at all with a base of 0', () => {
    expect(backoffMs(5000, { ...policy, baseMs: 0 }, 0.5)).toBe(0)
  })
})
