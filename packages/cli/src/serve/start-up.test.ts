import { expect, it } from 'vitest'
import { localUrl } from './start-up.ts'

it.each([
  ['127.0.0.1', 'http://127.0.0.1:8080'],
  ['0.0.0.0', 'http://127.0.0.1:8080'],
  ['::', 'http://[::1]:8080'],
  ['::1', 'http://[::1]:8080'],
  ['10.0.0.5', 'http://10.0.0.5:8080'],
  ['localhost', 'http://localhost:8080'],
])('a controller on %s is reached here at %s', (host, want) => expect(localUrl({ host, port: 8080 })).toBe(want))
