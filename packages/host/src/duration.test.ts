import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { formatSettingDuration, parseDuration } from './amounts.ts'

describe('parseDuration', () => {
  it.each([
    ['500ms', 500],
    ['30s', 30_000],
    ['15m', 900_000],
    ['24h', 86_400_000],
    ['30d', 2_592_000_000],
    ['1.5h', 5_400_000],
    ['1.1s', 1100],
    ['1h30m', 5_400_000],
    ['15m0s', 900_000],
    ['0', 0],
    ['0s', 0],
    ['0.2ms', 1],
  ])('reads %s as %d ms', (text, ms) => {
    expect(parseDuration(text)).toBe(ms)
  })

  it.each(['', ' ', '5', 's', '5 m', '15 minutes', '1.s', '.5s', '5M', '5m30', '1e3s', '0x10s', 'NaNs', 'Infinitys', '٣s', '5s\n', '+5s'])(
    'refuses "%s" and says what it takes',
    (text) => {
      expect(() => parseDuration(text)).toThrow(/is not a duration: use a number and a unit, as in 500ms, 30s, 15m, 24h or 30d/)
    },
  )

  it.each(['-5s', '-0.5h', '- 5s', '-5'])('refuses "%s" as negative', (text) => {
    expect(() => parseDuration(text)).toThrow(/is negative/)
  })

  it('refuses durations beyond all dates', () => {
    expect(() => parseDuration('9'.repeat(400) + 'd')).toThrow(/longer than a hundred years/)
    expect(() => parseDuration('36501d')).toThrow(/longer than a hundred years/)
  })
})

describe('formatDuration', () => {
  it.each([
    [0, '0s'],
    [500, '500ms'],
    [1500, '1500ms'],
    [90_000, '90s'],
    [900_000, '15m'],
    [86_400_000, '1d'],
  ])('writes %d ms as %s', (ms, text) => {
    expect(formatSettingDuration(ms)).toBe(text)
  })

  it('writes text that parseDuration reads back', () => {
    fc.assert(fc.property(fc.integer({ min: 0, max: 36_500 * 86_400_000 }), (ms) => parseDuration(formatSettingDuration(ms)) === ms))
  })
})
