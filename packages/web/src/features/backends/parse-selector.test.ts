import { describe, expect, it } from 'vitest'
import { parseSelector } from './parse-selector.ts'

describe('labels that a person writes', () => {
  it.each([
    ['rack=b2', { rack: 'b2' }],
    ['rack = b2\n\n gpu.vendor=nvidia \n', { rack: 'b2', 'gpu.vendor': 'nvidia' }],
    ['rack=a\nrack=b', { rack: ['a', 'b'] }],
    ['tier=*\nrack=!\nroom=!c', { tier: '*', rack: '!', room: '!c' }],
    ['note=a=b', { note: 'a=b' }],
    ['note=a, b', { note: 'a, b' }],
  ])('%j are read', (text, selector) => expect(parseSelector(text)).toEqual({ selector }))

  it.each([
    ['', 'Write at least one label, as rack=b2.'],
    ['rack=a\nrack', 'Line 2: “rack” is not KEY=VALUE.'],
    ['=b', 'Line 1: “=b” is not KEY=VALUE.'],
    ['a b=c', 'a b: a label key is 1–128 characters of A–Z, a–z, 0–9 and . _ / -, beginning and ending with a letter or digit.'],
    [`a=${'x'.repeat(256)}`, 'a: Too big: expected string to have <=255 characters.'],
  ])('%j are not: it is said why', (text, problem) => expect(parseSelector(text)).toEqual({ problem }))
})
