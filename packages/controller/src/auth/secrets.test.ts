import { newId } from '@muster/host'
import { expect, it } from 'vitest'
import { sessionCookieOf, setSessionCookie } from '../http/endpoint.ts'
import { keyOfSession, newSessionSecret } from './secrets.ts'

it.each([[null], ['a'], ['key-1'], [newId()], ['x'.repeat(64)]])('the cookie of a session created with the key %s names it', (key) => {
  const secret = newSessionSecret(key)
  const cookie = setSessionCookie(secret, { maxAgeSeconds: 1, isSecure: false }).split(';')[0]
  expect(sessionCookieOf(cookie)).toBe(secret)
  expect(keyOfSession(secret)).toBe(key)
})
