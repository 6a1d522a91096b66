import { expect, it } from 'vitest'
import { parseBytes } from './amounts.ts'

it.each([
  ['12GB', 12e9],
  ['1.5 GiB', 1.5 * 2 ** 30],
  ['150MiB', 150 * 2 ** 20],
  ['7b', 7],
  ['12', null],
  ['GB', null],
  ['-1GB', null],
  ['1e3GB', null],
  ['12 XB', null],
  ['1constructor', null],
  ['', null],
])('%j is %s bytes', (text, bytes) => {
  expect(parseBytes(text)).toBe(bytes)
})
