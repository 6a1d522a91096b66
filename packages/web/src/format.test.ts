import { describe, expect, it } from 'vitest'
import { formatCount, isLoopback, listNames, plural, searchFor, sentence, shortId } from './format.ts'

it.each([
  [3, '3'],
  [3.44, '3.4'],
  [1240.2, '1,240'],
  [181_000, '181k'],
])('formats %d as %s', (value, want) => expect(formatCount(value)).toBe(want))

it('counts, shortens and lists names', () => {
  expect([plural(1, 'node'), plural(5, 'node'), plural(2, 'reply', 'replies')]).toEqual(['1 node', '5 nodes', '2 replies'])
  expect([shortId('sha256:0123456789ab'), shortId('sha256-89abcdef01')]).toEqual(['01234567', '89abcdef'])
  expect(listNames(['a'])).toBe('a')
  expect(listNames(['a', 'b', 'c'])).toBe('a, b and c')
  expect(listNames(['a', 'b', 'c', 'd', 'e'])).toBe('a, b and 3 more')
})

it.each(['no such file', 'No such file.', 'no such file. '])('%j becomes a sentence', (text) =>
  expect(sentence(text)).toBe('No such file.'),
)

describe('a search', () => {
  it.each([
    ['', true],
    ['  ', true],
    ['speech', true],
    ['SPEECH mit', true],
    ['mit speech', true],
    ['speech gpl', false],
    // A word does not span two texts.
    ['whispermit', false],
  ])('%j: %s', (text, isFound) => expect(searchFor(text)('Whisper', 'MIT', 'speech to text')).toBe(isFound))
})

it.each([
  ['127.0.0.1', true],
  ['localhost', true],
  ['[::1]', true],
  ['127.evil.example', false],
  ['muster.example', false],
])('%s is a loopback name: %s', (hostname, want) => expect(isLoopback(hostname)).toBe(want))
