import { describe, expect, it } from 'vitest'
import { isNatsUrl, isOnLoopback, withoutCredentials } from './server-urls.ts'

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

describe('isOnLoopback', () => {
  it.each(['nats://127.0.0.1:4222', 'localhost', 'tls://u:p@[::1]:1, nats://nats.localhost', '127.8.0.1'])('takes %s', (list) =>
    expect(isOnLoopback(list)).toBe(true),
  )
  it.each([
    '',
    'nats://10.0.0.1',
    'nats://127.0.0.1,nats://10.0.0.1',
    '127.0.0.1.example',
    'localhost.example',
    '0.0.0.0',
    'nats://u:p/w@127.0.0.1',
  ])('refuses %j', (list) => expect(isOnLoopback(list)).toBe(false))
})

describe('isNatsUrl', () => {
  it.each(['nats://a', 'tls://a:1/', 'a:4222', 'nats://u:p@a, nats://b'])('takes %s', (list) => expect(isNatsUrl(list)).toBe(true))
  it.each(['', 'http://a', 'nats://', 'nats://a,', 'nats://a:port', 'nats://u:p/w@a', 'nats://a?x', 'nats://a#x', 'nats://a b'])(
    'refuses %j',
    (list) => expect(isNatsUrl(list)).toBe(false),
  )
})
