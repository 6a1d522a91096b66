import { describe, expect, it } from 'vitest'
import { formatBytes, formatBytesOf, formatDuration } from './amounts.ts'

describe('formatBytes', () => {
  it.each([
    [null, '-'],
    [0, '0 B'],
    [999, '999 B'],
    [1_000, '1 kB'],
    [1_550_000, '1.6 MB'],
    [999_499, '999 kB'],
    [999_500, '1 MB'],
    [999_999_999, '1 GB'],
    [999.7, '1 kB'],
    [80_000_000_000, '80 GB'],
    [2 ** 50, '1.1 PB'],
    [9e18, '9000 PB'],
  ])('shows %s as %s', (bytes, want) => expect(formatBytes(bytes)).toBe(want))

  it('uses one unit for a part and its whole', () => {
    expect(formatBytesOf(61_400_000_000, 80_000_000_000)).toBe('61.4 of 80 GB')
    expect(formatBytesOf(500_000_000, 80_000_000_000)).toBe('0.5 of 80 GB')
  })
})

describe('formatDuration', () => {
  it.each([
    [-5000, '0s'],
    [400, '0s'],
    [59_000, '59s'],
    [60_000, '1m'],
    [125_000, '2m5s'],
    [600_000, '10m'],
    [3_599_000, '59m'],
    [3_600_000, '1h'],
    [11_520_000, '3h12m'],
    [86_400_000, '1d'],
    [800_000_000, '9d6h'],
  ])('shows %d ms as %s', (ms, want) => expect(formatDuration(ms)).toBe(want))
})
