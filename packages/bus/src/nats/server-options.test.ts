import { nkeys } from '@nats-io/transport-node'
import { describe, expect, it } from 'vitest'
import { credentialsAuthenticator, serversOf } from './server-options.ts'

describe('serversOf', () => {
  it.each([
    ['nats://bus.example:4333', { servers: ['bus.example:4333'] }],
    ['nats://bus.example', { servers: ['bus.example:4222'] }],
    ['bus.example:4333', { servers: ['bus.example:4333'] }],
    ['nats://[::1]:4333', { servers: ['[::1]:4333'] }],
    ['nats://a, nats://b:1', { servers: ['a:4222', 'b:1'] }],
    ['tls://bus.example', { servers: ['bus.example:4222'], tls: {} }],
  ])('%s', (url, want) => {
    expect(serversOf(url)).toEqual(want)
  })

  it('takes a user and password, or a token, out of the URL', () => {
    expect(serversOf('nats://me:p%40ss@a').authenticator?.('nonce')).toEqual({ user: 'me', pass: 'p@ss' })
    expect(serversOf('nats://t0ken@a').authenticator?.('nonce')).toEqual({ auth_token: 't0ken' })
  })

  it.each(['', 'http://a', 'ws://a', 'nats://', 'nats://a,', 'nats://a:port'])('refuses %j', (url) => {
    expect(() => serversOf(url)).toThrow('a NATS URL looks like')
  })
})

describe('credentialsAuthenticator', () => {
  it('asks for the credentials at each connection', () => {
    const seed = new TextDecoder().decode(nkeys.createUser().getSeed())
    let jwt = 'first'
    const authenticate = credentialsAuthenticator(() => ({ jwt, seed }))
    expect(authenticate('nonce')).toMatchObject({ jwt: 'first', nkey: expect.stringMatching(/^U/) })
    jwt = 'second'
    expect(authenticate('nonce')).toMatchObject({ jwt: 'second' })
  })
})
