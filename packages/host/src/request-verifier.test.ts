import { signatureHeaders, signedText } from '@muster/protocol'
import { createAccount, createUser } from '@nats-io/nkeys'
import { describe, expect, it } from 'vitest'
import { createNodeKey, signRequest } from './node-key.ts'
import { sha256Hex } from './random-id.ts'
import { createRequestVerifier, type SignedRequest } from './request-verifier.ts'

const key = createNodeKey()
const verifyRequest = createRequestVerifier()
const now = new Date('2025-01-02T03:04:05.006Z')
const body = new TextEncoder().encode('{"name":"gpu-1"}')
const request = { method: 'POST', path: '/api/node/register', body, now }
const good: SignedRequest = { ...request, headers: signRequest(key, request) }
const later = (ms: number): Date => new Date(now.getTime() + ms)
const withHeader = (name: keyof typeof signatureHeaders, value: string | string[] | undefined): SignedRequest => ({
  ...good,
  headers: { ...good.headers, [signatureHeaders[name]]: value },
})

it('SEC3 knows the sender by its signature', () => {
  expect(verifyRequest(good)).toEqual({ ok: true, publicKey: key.publicKey, signedAt: now })
})

it('accepts a signature of the nkeys library', () => {
  const pair = createUser()
  const timestamp = '2025-01-02T04:04:05+01:00'
  const text = signedText({ ...request, timestamp, bodySha256: sha256Hex(body) })
  const signature = Buffer.from(pair.sign(new TextEncoder().encode(text))).toString('base64url')
  const headers = { 'x-muster-key': pair.getPublicKey(), 'x-muster-timestamp': timestamp, 'x-muster-signature': `${signature}==` }
  expect(verifyRequest({ ...request, headers })).toEqual({ ok: true, publicKey: pair.getPublicKey(), signedAt: new Date(timestamp) })
})

it('accepts an empty body', () => {
  const empty = { ...request, body: new Uint8Array() }
  expect(verifyRequest({ ...empty, headers: signRequest(key, empty) }).ok).toBe(true)
})

const flip = (text: string, at: number): string => text.slice(0, at) + (text[at] === 'A' ? 'B' : 'A') + text.slice(at + 1)
const signature = String(good.headers[signatureHeaders.signature])

describe('refuses as bad_signature', () => {
  it.each<[string, SignedRequest]>([
    ['another body', { ...good, body: new TextEncoder().encode('{"name":"gpu-2"}') }],
    ['another path', { ...good, path: '/api/node/other/session' }],
    ['another method', { ...good, method: 'PUT' }],
    ['another timestamp', withHeader('timestamp', later(1).toISOString())],
    ['the key of somebody else', withHeader('key', createNodeKey().publicKey)],
    ['a key with a wrong checksum', withHeader('key', flip(key.publicKey, 55))],
    ['a key with a wrong letter', withHeader('key', flip(key.publicKey, 20))],
    ['an account key', withHeader('key', createAccount().getPublicKey())],
    ['a key in lower case', withHeader('key', key.publicKey.toLowerCase())],
    ['no key', withHeader('key', undefined)],
    ['no timestamp', withHeader('timestamp', undefined)],
    ['no signature', withHeader('signature', undefined)],
    ['no headers', { ...good, headers: {} }],
    ['a header twice', withHeader('signature', [signature, signature])],
    ['a changed signature', withHeader('signature', flip(signature, 10))],
    ['a signature that is not base64url', withHeader('signature', '!'.repeat(86))],
    ['a short signature', withHeader('signature', signature.slice(0, 80))],
    ['an empty signature', withHeader('signature', '')],
    ['a signature with something behind it', withHeader('signature', `${signature}\n`)],
  ])('%s', (_what, changed) => {
    expect(verifyRequest(changed)).toMatchObject({ ok: false, code: 'bad_signature' })
  })

  it.each(['yesterday', '2025', '2025-01-02', '2025-13-40T99:99:99Z', '2025-01-02T03:04:05'])('the signed timestamp "%s"', (timestamp) => {
    const forged = { ...request, now: Object.assign(new Date(now), { toISOString: () => timestamp }) }
    expect(verifyRequest({ ...request, headers: signRequest(key, forged) })).toMatchObject({
      code: 'bad_signature',
      message: expect.stringContaining('RFC 3339'),
    })
  })
})

describe('clocks', () => {
  const fiveMinutes = 5 * 60_000

  it.each([
    ['5 min behind', fiveMinutes],
    ['5 min ahead', -fiveMinutes],
  ])('may be %s', (_what, ms) => {
    expect(verifyRequest({ ...good, now: later(ms) }).ok).toBe(true)
  })

  it.each([
    ['behind', fiveMinutes + 1],
    ['ahead', -fiveMinutes - 1],
  ])('may not be further %s, which is told to the owner of the key', (_what, ms) => {
    expect(verifyRequest({ ...good, now: later(ms) })).toMatchObject({
      ok: false,
      code: 'clock_skew',
      message: expect.stringContaining(later(ms).toISOString()),
    })
  })

  it('are not shown to other callers', () => {
    expect(verifyRequest({ ...good, path: '/other', now: later(3_600_000) })).toMatchObject({ code: 'bad_signature' })
  })
})

it('keeps few keys and still knows all of them', () => {
  const verifyWithTwo = createRequestVerifier({ maxKeys: 2 })
  const requests = [1, 2, 3].map(() => ({ ...request, headers: signRequest(createNodeKey(), request) }))
  for (const each of [...requests, ...requests]) expect(verifyWithTwo(each).ok).toBe(true)
})
