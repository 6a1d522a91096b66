import { describe, expect, it } from 'vitest'
import { formatAge, formatBytes, formatDuration, formatFree } from './text.ts'

describe('formatBytes', () => {
  it.each([
    [null, '-'],
    [0, '0 B'],
    [999, '999 B'],
    [1000, '1.0 kB'],
    [1_500_000, '1.5 MB'],
    [64e9, '64 GB'],
    [2 ** 50, '1.1 PB'],
    [9e18, '9000 PB'],
  ])('shows %s as %s', (bytes, want) => expect(formatBytes(bytes)).toBe(want))
})

describe('formatFree', () => {
  it.each([
    ['nothing of an unknown size', 5, null, '-'],
    ['the size when what is free is unknown', null, 8e9, '8.0 GB'],
    ['both', 2e9, 8e9, '2.0 GB free of 8.0 GB'],
  ])('says %s', (_, free, total, want) => expect(formatFree(free, total)).toBe(want))
})

describe('formatDuration', () => {
  it.each([
    [-5000, '0s'],
    [400, '0s'],
    [59_000, '59s'],
    [60_000, '1m'],
    [3_599_000, '59m'],
    [3_600_000, '1h'],
    [11_520_000, '3h12m'],
    [86_400_000, '1d'],
    [800_000_000, '9d6h'],
  ])('shows %d ms as %s', (ms, want) => expect(formatDuration(ms)).toBe(want))
})

describe('formatAge', () => {
  const now = Date.parse('2030-01-01T00:01:00Z')
  it.each([
    [null, 'never'],
    ['2030-01-01T00:00:00Z', '1m'],
    ['2031-01-01T00:00:00Z', '0s'],
    ['rubbish', '-'],
  ])('shows %s as %s', (moment, want) => expect(formatAge(moment, now)).toBe(want))
})
