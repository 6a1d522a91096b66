import { describe, expect, it } from 'vitest'
import { parseSelector } from '../commands/backends.ts'

describe('parseSelector', () => {
  it.each([
    ['rack=b2', { rack: 'b2' }],
    ['rack=b2,gpu.vendor=nvidia', { rack: 'b2', 'gpu.vendor': 'nvidia' }],
    ['rack=a,rack=b', { rack: ['a', 'b'] }],
    ['tier=*, rack=!', { tier: '*', rack: '!' }],
    ['note=a=b', { note: 'a=b' }],
  ])('reads %s', (text, want) => expect(parseSelector(text)).toEqual(want))

  it.each(['', 'rack', '=b2', 'a=1,,b=2', `a=${'x'.repeat(256)}`])('refuses %j as wrong usage', (text) =>
    expect(() => parseSelector(text)).toThrow(expect.objectContaining({ exitCode: 2 }) as Error),
  )
})
