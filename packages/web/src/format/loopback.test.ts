import { expect, it } from 'vitest'
import { isLoopback } from '../format.ts'

it.each([
  ['127.0.0.1', true],
  ['localhost', true],
  ['[::1]', true],
  ['127.evil.example', false],
  ['muster.example', false],
])('%s is this very machine: %s', (hostname, want) => expect(isLoopback(hostname)).toBe(want))
