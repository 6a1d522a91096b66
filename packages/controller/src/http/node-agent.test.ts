import { describe, expect, it } from 'vitest'
import { parseRange } from './node-agent.ts'

describe('parseRange of 100 bytes', () => {
  it.each([
    [null, null],
    ['bytes=0-', { start: 0, end: 99 }],
    ['bytes=40-', { start: 40, end: 99 }],
    ['bytes=40-49', { start: 40, end: 49 }],
    ['bytes=40-400', { start: 40, end: 99 }],
    ['bytes=-10', { start: 90, end: 99 }],
    ['bytes=-1000', { start: 0, end: 99 }],
    ['bytes=99-', { start: 99, end: 99 }],
    ['bytes=100-', 'unsatisfiable'],
    ['bytes=-0', 'unsatisfiable'],
    ['bytes=9-1', null],
    ['bytes=-', null],
    ['bytes=0-1,5-6', null],
    ['lines=0-1', null],
    ['bytes=a-b', null],
  ])('%j is %o', (header, want) => {
    expect(parseRange(header, 100)).toEqual(want)
  })
})
