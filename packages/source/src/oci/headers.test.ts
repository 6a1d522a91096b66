// The headers that a stranger writes: challenges, ranges, times to wait.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { parseContentRange, parseUnsatisfiedRange } from '../outbound/open-at-offset.ts'
import { longestRetryAfterMs, retryAfterMs } from '../outbound/status-failure.ts'
import { checkRealm, parseChallenges, registrableHost } from './authenticate.ts'

describe('E11 WWW-Authenticate', () => {
  it.each([
    ['Basic realm="x"', [{ scheme: 'basic', parameters: { realm: 'x' } }]],
    ['BASIC', [{ scheme: 'basic', parameters: {} }]],
    [
      'Bearer realm="https://a.test/t",service="s",scope="repository:x:pull,push"',
      [{ scheme: 'bearer', parameters: { realm: 'https://a.test/t', service: 's', scope: 'repository:x:pull,push' } }],
    ],
    ['bearer REALM = "x" , service=s', [{ scheme: 'bearer', parameters: { realm: 'x', service: 's' } }]],
    [
      'Bearer realm="x", Basic realm="y"',
      [
        { scheme: 'bearer', parameters: { realm: 'x' } },
        { scheme: 'basic', parameters: { realm: 'y' } },
      ],
    ],
    [String.raw`Bearer realm="a\"b\\c"`, [{ scheme: 'bearer', parameters: { realm: 'a"b\\c' } }]],
    ['Bearer realm="first",realm="second"', [{ scheme: 'bearer', parameters: { realm: 'first' } }]],
    ['Bearer realm=""', [{ scheme: 'bearer', parameters: { realm: '' } }]],
    ['realm="x"', []],
    ['Bearer realm="unclosed', []],
    ['Bearer realm="x" garbage"', []],
    ['"', []],
    ['', []],
    [undefined, []],
    [`Bearer realm="${'x'.repeat(9000)}"`, []],
    ['a,'.repeat(100), []],
  ])('%j', (header, challenges) => {
    expect(parseChallenges(header)).toEqual(challenges)
  })

  it('ends for every text, and its names are no properties of other objects', () => {
    fc.assert(
      fc.property(fc.string({ maxLength: 200 }), (text) => {
        expect(parseChallenges(text).every(({ scheme }) => scheme.length > 0)).toBe(true)
      }),
      { numRuns: 2000 },
    )
    expect(parseChallenges('Bearer constructor=x')[0]?.parameters).toEqual({ constructor: 'x' })
  })

  it.each([
    ['registry-1.docker.io', 'docker.io'],
    ['auth.docker.io', 'docker.io'],
    ['ghcr.io', 'ghcr.io'],
    ['registry.gitlab.com', 'gitlab.com'],
    ['registry.example.co.uk', 'example.co.uk'],
    ['one.azurecr.io', 'one.azurecr.io'],
    ['1.dkr.ecr.eu-west-1.amazonaws.com', '1.dkr.ecr.eu-west-1.amazonaws.com'],
    ['localhost', 'localhost'],
    ['127.0.0.1', '127.0.0.1'],
    ['10.0.0.1', '10.0.0.1'],
    ['[::1]', '[::1]'],
  ])('%s was registered as %s', (host, registered) => {
    expect(registrableHost(host)).toBe(registered)
  })

  const realmOf = (realm: string | undefined, registry: string, listed = ''): string =>
    checkRealm(realm, { registry: new URL(registry), isListed: (url) => url.host === listed }).href

  it.each([
    ['https://auth.docker.io/token', 'https://registry-1.docker.io/'],
    ['https://ghcr.io/token', 'https://ghcr.io/'],
    ['https://gitlab.com/jwt/auth', 'https://registry.gitlab.com/'],
    ['https://a.test:8443/token', 'https://a.test/'],
    ['http://127.0.0.1:5001/token', 'http://127.0.0.1:5000/'],
    ['https://a.test/token', 'http://a.test/'],
  ])('a token may come from %s for %s', (realm, registry) => {
    expect(realmOf(realm, registry)).toBe(realm)
  })

  it('a token may come from another host that is listed', () => {
    expect(realmOf('https://ghcr.io/token', 'https://lscr.io/', 'ghcr.io')).toBe('https://ghcr.io/token')
  })

  it.each([
    [undefined, 'https://a.test/'],
    ['', 'https://a.test/'],
    ['/token', 'https://a.test/'],
    ['a.test/token', 'https://a.test/'],
    ['file:///etc/passwd', 'https://a.test/'],
    ['http://a.test/token', 'https://a.test/'],
    ['https://user:pass@a.test/token', 'https://a.test/'],
    ['https://evil.test/token', 'https://a.test/'],
    ['https://a.test.evil.test/token', 'https://a.test/'],
    ['https://evila.test/token', 'https://a.test/'],
    ['https://two.azurecr.io/token', 'https://one.azurecr.io/'],
    ['https://b.co.uk/token', 'https://a.co.uk/'],
    ['https://169.254.169.254/', 'https://a.test/'],
    ['https://127.0.0.2/token', 'https://127.0.0.1/'],
    ['https://10.9.0.1/token', 'https://10.0.0.1/'],
    [`https://a.test/${'x'.repeat(3000)}`, 'https://a.test/'],
  ])('a token may not come from %s for %s', (realm, registry) => {
    expect(() => realmOf(realm, registry)).toThrow(/^source_forbidden: /)
  })
})

describe('E13 Retry-After', () => {
  const now = Date.UTC(2026, 0, 1)
  it.each([
    ['0', 0],
    ['7', 7000],
    [' 7 ', 7000],
    ['120', 120_000],
    ['121', longestRetryAfterMs],
    ['1000000000', longestRetryAfterMs],
    ['999999999999999', longestRetryAfterMs],
    ['9999999999999999', null],
    ['1e9', null],
    ['-1', null],
    ['1.5', null],
    ['soon', null],
    ['', null],
    [undefined, null],
    ['Thu, 01 Jan 2026 00:00:30 GMT', 30_000],
    ['Thu, 01 Jan 2026 01:00:00 GMT', longestRetryAfterMs],
    ['Wed, 31 Dec 2025 00:00:00 GMT', 0],
    ['Thu, 99 Jan 2026 00:00:30 GMT', null],
    ['2027', longestRetryAfterMs],
    ['2026-01-01', null],
  ])('%j is %s ms', (header, wait) => {
    expect(retryAfterMs(header, now)).toBe(wait)
  })
})

describe('E7 Content-Range', () => {
  it.each([
    ['bytes 0-9/10', { from: 0, to: 9, size: 10 }],
    ['bytes 5-9/10', { from: 5, to: 9, size: 10 }],
    ['bytes 5-9/*', { from: 5, to: 9, size: null }],
    ['bytes 5-10/10', null],
    ['bytes 9-5/10', null],
    ['bytes -5/10', null],
    ['bytes */10', null],
    ['bytes 0-9', null],
    ['items 0-9/10', null],
    ['bytes 0-9/10, 20-29/30', null],
    ['bytes 0x0-9/10', null],
    [`bytes 0-${'9'.repeat(30)}/*`, null],
    ['', null],
    [undefined, null],
  ])('%j', (header, range) => {
    expect(parseContentRange(header)).toEqual(range)
  })

  it.each([
    ['bytes */10', 10],
    ['bytes */*', null],
    ['bytes 0-9/10', null],
    [undefined, null],
  ])('%j of a refusal', (header, size) => {
    expect(parseUnsatisfiedRange(header)).toBe(size)
  })
})
