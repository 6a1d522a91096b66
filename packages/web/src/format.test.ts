import { describe, expect, it } from 'vitest'
import { formatBytes, formatBytesOf, formatCount, formatDuration, listNames, plural, shortId } from './format.ts'

describe('amounts', () => {
  it.each([
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
  ])('%d bytes are %s', (bytes, words) => expect(formatBytes(bytes)).toBe(words))

  it('use one unit for a part and its whole', () => {
    expect(formatBytesOf(61_400_000_000, 80_000_000_000)).toBe('61.4 of 80 GB')
    expect(formatBytesOf(500_000_000, 80_000_000_000)).toBe('0.5 of 80 GB')
  })

  it.each([
    [400, '0 s'],
    [45_000, '45 s'],
    [125_000, '2 min 5 s'],
    [600_000, '10 min'],
    [3_900_000, '1 h 5 min'],
    [300 * 3_600_000, '12 d'],
    [-5, '0 s'],
  ])('%d ms are %s', (ms, words) => expect(formatDuration(ms)).toBe(words))

  it.each([
    [3, '3'],
    [3.44, '3.4'],
    [1240.2, '1,240'],
    [181_000, '181k'],
  ])('%d is %s', (value, words) => expect(formatCount(value)).toBe(words))

  it('count and shorten', () => {
    expect([plural(1, 'node'), plural(5, 'node'), plural(2, 'reply', 'replies')]).toEqual(['1 node', '5 nodes', '2 replies'])
    expect([shortId('sha256:0123456789ab'), shortId('sha256-89abcdef01')]).toEqual(['01234567', '89abcdef'])
    expect(listNames(['a'])).toBe('a')
    expect(listNames(['a', 'b', 'c'])).toBe('a, b and c')
    expect(listNames(['a', 'b', 'c', 'd', 'e'])).toBe('a, b and 3 more')
  })
})
