import { describe, expect, it } from 'vitest'
import { createRateMeter } from './progress-rows.ts'

describe('createRateMeter', () => {
  it('is empty before a second has passed', () => {
    const meter = createRateMeter()
    expect(meter.measure('a', 0, 0)).toBeNull()
    expect(meter.measure('a', 500, 500)).toBeNull()
    expect(meter.measure('a', 1000, 1000)).toBe(1000)
  })

  it('follows the last seconds, and falls to 0 when nothing arrives', () => {
    const meter = createRateMeter()
    for (let second = 0; second <= 10; second += 1) meter.measure('a', second * 1000, second * 1000)
    expect(meter.measure('a', 10_000, 12_000)).toBeLessThan(1000)
    expect(meter.measure('a', 10_000, 20_000)).toBe(0)
  })

  it('begins anew with each attempt, and for each node', () => {
    const meter = createRateMeter()
    meter.measure('a', 9000, 0)
    meter.measure('a', 10_000, 2000)
    expect(meter.measure('a', 10, 3000)).toBeNull()
    expect(meter.measure('b', 0, 3000)).toBeNull()
    expect(meter.measure('a', 2010, 5000)).toBe(1000)
  })
})
