import { describe, expect, it } from 'vitest'
import { isNatsUrl, withoutCredentials } from './server-urls.ts'

describe('withoutCredentials', () => {
  it.each([
    ['nats://bus.example:4333', 'nats://bus.example:4333'],
    ['local:', 'local:'],
    ['nats://me:secret@a:4333', 'nats://a:4333'],
    ['nats://me:sec@ret@a', 'nats://a'],
    ['nats://t0ken@a, tls://me:secret@[::1]:1', 'nats://a,tls://[::1]:1'],
    ['me:secret@a', 'nats://a'],
    ['nats://me:se/cret@a', '***'],
  ])('%s', (list, want) => expect(withoutCredentials(list)).toBe(want))
})

describe('isNatsUrl', () => {
  it.each(['nats://a', 'tls://a:1/', 'a:4222', 'nats://u:p@a, nats://b'])('takes %s', (list) => expect(isNatsUrl(list)).toBe(true))
  it.each(['', 'http://a', 'nats://', 'nats://a,', 'nats://a:port', 'nats://u:p/w@a', 'nats://a?x', 'nats://a#x', 'nats://a b'])(
    'refuses %j',
    (list) => expect(isNatsUrl(list)).toBe(false),
  )
})
