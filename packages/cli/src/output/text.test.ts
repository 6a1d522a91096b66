import { execFileSync } from 'node:child_process'
import { describe, expect, it } from 'vitest'
import { formatFree } from '@muster/protocol'
import { formatAge, plainJson, plainText, shellWord } from './text.ts'

describe('plainText', () => {
  it.each([
    ['leaves ordinary names alone', 'gpu-1 (Büro 3) 机器 🚀', 'gpu-1 (Büro 3) 机器 🚀'],
    ['keeps two spaces, which are part of a name', 'a  b', 'a  b'],
    ['drops color sequences with their parameters', '\u001b[31mred\u001b[0m', 'red'],
    ['drops a sequence that sets the window title', '\u001b]0;owned\u0007name', 'name'],
    ['drops the one-character form of a sequence start', '\u009b2Jname', 'name'],
    ['drops a bell and a backspace', 'a\u0007b\u0008c', 'abc'],
    ['makes one line of several', 'a\r\nb\u2028c', 'a  b c'],
    ['drops a change of writing direction', 'user\u202Egnp.exe', 'usergnp.exe'],
  ])('%s', (_, given, want) => expect(plainText(given)).toBe(want))
})

describe('plainJson', () => {
  const hostile = { name: '\u001b[31m\u009b2J\u202Ex\u2028\u{E0041}' }

  it('gives a parser the same value', () => expect(JSON.parse(plainJson(hostile, 2))).toEqual(hostile))

  it('holds nothing that a terminal obeys', () => expect(plainJson(hostile)).toMatch(/^[\x20-\x7e]*$/))

  it('keeps the line breaks of its own indentation', () => expect(plainJson({ a: 1 }, 2)).toBe('{\n  "a": 1\n}'))
})

describe('shellWord', () => {
  it.each(['/plain/path', "/it's here", '/a b', '/$(touch x)`y`', '/ü"\\', ''])('gives a shell back %j', (text) =>
    expect(execFileSync('sh', ['-c', `printf %s "$(printf %s ${shellWord(text)})"`], { encoding: 'utf8' })).toBe(text),
  )
})

describe('formatFree', () => {
  it.each([
    ['- for an unknown size', 5, null, '-'],
    ['the size when what is free is unknown', null, 8e9, '8 GB'],
    ['both', 2e9, 8e9, '2 GB free of 8 GB'],
  ])('shows %s', (_, free, total, want) => expect(formatFree(free, total)).toBe(want))
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
