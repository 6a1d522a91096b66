import { describe, expect, it } from 'vitest'
import { Selector, matchesSelector } from './selector.ts'

const labels = { 'gpu.vendor': 'nvidia', room: 'b', note: '' }

describe('a selector', () => {
  it.each<[string, Selector, boolean]>([
    ['a string is equal', { room: 'b' }, true],
    ['a string is not another one', { room: 'c' }, false],
    ['a string is not nothing', { rack: 'b' }, false],
    ['a list is one of', { room: ['a', 'b'] }, true],
    ['a list is none of', { room: ['a', 'c'] }, false],
    ['a list is not nothing', { rack: ['a', ''] }, false],
    ['* exists', { note: '*' }, true],
    ['* does not exist', { rack: '*' }, false],
    ['! is absent', { rack: '!' }, true],
    ['! is there', { note: '!' }, false],
    ['!x is not equal', { room: '!a' }, true],
    ['!x is equal', { room: '!b' }, false],
    ['!x holds for what has no such label', { rack: '!a' }, true],
    ['all of it holds', { room: 'b', 'gpu.vendor': ['amd', 'nvidia'] }, true],
    ['one part does not', { room: 'b', 'gpu.vendor': 'amd' }, false],
    ['an inherited name is no label', { constructor: '*' }, false],
  ])('%s', (_, selector, want) => {
    expect(matchesSelector(selector, labels)).toBe(want)
  })

  it.each([{}, { room: [] }, { room: 1 }, { '': 'x' }, [], 'room=b', { room: 'x'.repeat(256) }])('is not %j', (given) => {
    expect(Selector.safeParse(given).success).toBe(false)
  })
})
