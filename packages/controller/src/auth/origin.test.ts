import { describe, expect, it } from 'vitest'
import { doesCookieCount, isFromElsewhere, isHostAllowed, type Provenance } from './origin.ts'

describe('J10 the Host header on a loopback listener', () => {
  const listener = { isLoopback: true, publicHost: 'muster.example' }
  it.each([
    ['127.0.0.1:8080', true],
    ['localhost', true],
    ['LOCALHOST:1', true],
    ['app.localhost:8080', true],
    ['[::1]:8080', true],
    ['127.9.9.9', true],
    ['muster.example', true],
    ['evil.example:8080', false],
    ['127.0.0.1.evil.example', false],
    ['localhost.evil.example', false],
    ['0.0.0.0', false],
    ['169.254.169.254', false],
    ['', false],
    [undefined, false],
    ['127.0.0.1:8080@evil', false],
  ])('%s → %s', (host, allowed) => {
    expect(isHostAllowed(host, listener)).toBe(allowed)
  })
  it('is not checked where a key is required anyway', () => {
    expect(isHostAllowed('anything.example', { isLoopback: false, publicHost: null })).toBe(true)
  })
})

const from = (changes: Partial<Provenance>): Provenance => ({
  method: 'GET',
  host: '127.0.0.1:8080',
  origin: undefined,
  fetchSite: undefined,
  ...changes,
})
const own = 'http://127.0.0.1:8080'

describe('J10 where a request comes from', () => {
  it.each<[string, Partial<Provenance>, boolean]>([
    ['a program sends no Origin', {}, false],
    ['our own page', { origin: own }, false],
    ['a page of another host', { origin: 'http://evil.example' }, true],
    ['a page of another port', { origin: 'http://127.0.0.1:9090' }, true],
    ['a sandboxed page', { origin: 'null' }, true],
    ['an image of another site', { fetchSite: 'cross-site' }, true],
    ['typed into the address bar', { fetchSite: 'none' }, false],
  ])('%s', (_, request, elsewhere) => {
    expect(isFromElsewhere(from(request))).toBe(elsewhere)
  })
  it.each<[string, Partial<Provenance>, boolean]>([
    ['reading without an Origin', {}, true],
    ['reading from another site', { fetchSite: 'cross-site' }, false],
    ['reading from the same site but another origin', { fetchSite: 'same-site' }, false],
    ['writing from our page', { method: 'POST', origin: own }, true],
    ['writing without an Origin', { method: 'POST' }, false],
    ['writing from elsewhere', { method: 'DELETE', origin: 'http://evil.example' }, false],
  ])('a cookie counts: %s', (_, request, counts) => {
    expect(doesCookieCount(from(request))).toBe(counts)
  })
})
