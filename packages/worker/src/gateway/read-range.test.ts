import { expect, it } from 'vitest'
import { readRange } from './serve-files.ts'

it.each<[string | undefined, number, unknown]>([
  [undefined, 10, null],
  ['bytes=0-4', 10, { start: 0, end: 4 }],
  ['bytes=5-', 10, { start: 5, end: 9 }],
  ['bytes=5-99', 10, { start: 5, end: 9 }],
  ['bytes=-3', 10, { start: 7, end: 9 }],
  ['bytes=-30', 10, { start: 0, end: 9 }],
  ['bytes=10-', 10, 'unsatisfiable'],
  ['bytes=-0', 10, 'unsatisfiable'],
  ['bytes=0-', 0, 'unsatisfiable'],
  ['bytes=4-3', 10, null],
  ['bytes=-', 10, null],
  ['bytes=0-1,4-5', 10, null],
  ['bytes=a-b', 10, null],
  ['items=0-1', 10, null],
])('%s of %i bytes', (header, size, want) => {
  expect(readRange(header, size)).toEqual(want)
})
