import { describe, expect, it } from 'vitest'
import { createRateMeter } from './progress-rows.ts'

describe('createRateMeter', () => {
  it('is empty before a second has passed', () => {
    const measure = createRateMeter()
    expect(measure('a', 0, 0)).toBeNull()
    expect(measure('a', 500, 500)).toBeNull()
    expect(measure('a', 1000, 1000)).toBe(1000)
  })

  it('follows the last seconds, and falls to 0 when nothing arrives', () => {
    const measure = createRateMeter()
    for (let second = 0; second <= 10; second += 1) measure('a', second * 1000, second * 1000)
    expect(measure('a', 10_000, 12_000)).toBeLessThan(1000)
    expect(measure('a', 10_000, 20_000)).toBe(0)
  })

  it('begins anew with each attempt, and for each node', () => {
    const measure = createRateMeter()
    measure('a', 9000, 0)
    measure('a', 10_000, 2000)
    expect(measure('a', 10, 3000)).toBeNull()
    expect(measure('b', 0, 3000)).toBeNull()
    expect(measure('a', 2010, 5000)).toBe(1000)
  })
})
