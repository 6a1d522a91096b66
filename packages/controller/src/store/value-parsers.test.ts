import { expect, it } from 'vitest'
import { parseInt8, parseTimestamp } from './connect.ts'

it.each([
  ['2026-03-01 12:34:56.789123+00', '2026-03-01T12:34:56.789Z'],
  ['2026-03-01 12:34:56+00', '2026-03-01T12:34:56.000Z'],
  ['2026-03-01 12:34:56.7+00', '2026-03-01T12:34:56.700Z'],
  ['2026-03-01 12:34:56.999999+05:30', '2026-03-01T07:04:56.999Z'],
  ['0099-12-31 23:00:00-08', '0100-01-01T07:00:00.000Z'],
])('reads the time %s as %s', (text, want) => {
  expect(parseTimestamp(text)).toBe(want)
})

it.each(['infinity', '-infinity', '0044-03-15 00:00:00+00 BC', '12026-01-01 00:00:00+00'])('refuses the time %s', (text) => {
  expect(() => parseTimestamp(text)).toThrow(RangeError)
})

it('refuses numbers that JavaScript would change', () => {
  expect(parseInt8('9007199254740991')).toBe(9007199254740991)
  expect(parseInt8('-5')).toBe(-5)
  expect(() => parseInt8('9007199254740992')).toThrow(RangeError)
})
