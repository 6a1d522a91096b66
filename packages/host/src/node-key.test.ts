import { signatureHeaders, signedText } from '@muster/protocol'
import { createAccount, fromPublic, fromSeed } from '@nats-io/nkeys'
import { describe, expect, it } from 'vitest'
import { createNodeKey, nodeKeyFromSeed, signRequest } from './node-key.ts'
import { sha256Hex } from './random-id.ts'

const body = new TextEncoder().encode('{"name":"gpu-1"}')
const now = new Date('2025-01-02T03:04:05.006Z')

describe('a node key', () => {
  it('is an nkey user pair, and the same again from its seed', () => {
    const key = createNodeKey()
    expect(key.publicKey).toMatch(/^U[A-Z2-7]{55}$/)
    expect(key.seed.reveal()).toMatch(/^SU[A-Z2-7]{56}$/)
    expect(nodeKeyFromSeed(key.seed).publicKey).toBe(key.publicKey)
    expect(nodeKeyFromSeed(`${key.seed.reveal()}\n`).publicKey).toBe(key.publicKey)
    expect(createNodeKey().publicKey).not.toBe(key.publicKey)
  })

  it('SEC26 does not show its seed', () => {
    const key = createNodeKey()
    expect(JSON.stringify(key)).not.toContain(key.seed.reveal())
  })

  it.each([
    ['empty', ''],
    ['not base32', 'SU'.padEnd(58, '1')],
    ['cut', createNodeKey().seed.reveal().slice(0, -1)],
    [
      'with one wrong letter',
      createNodeKey()
        .seed.reveal()
        .replace(/.(?=.{20}$)/, (letter) => (letter === 'A' ? 'B' : 'A')),
    ],
    ['of an account', new TextDecoder().decode(createAccount().getSeed())],
    ['a public key', createNodeKey().publicKey],
  ])('is not made from a seed that is %s', (_what, seed) => {
    expect(() => nodeKeyFromSeed(seed)).toThrow(/seed of the node key is damaged/)
  })
})

describe('signRequest', () => {
  const key = createNodeKey()
  const headers = signRequest(key, { method: 'POST', path: '/api/node/register', body, now })
  const text = `POST\n/api/node/register\n2025-01-02T03:04:05.006Z\n${sha256Hex(body)}`

  it('carries key, time and signature', () => {
    expect(headers).toEqual({
      'x-muster-key': key.publicKey,
      'x-muster-timestamp': '2025-01-02T03:04:05.006Z',
      'x-muster-signature': expect.stringMatching(/^[A-Za-z0-9_-]{86}$/),
    })
    expect(signedText({ method: 'POST', path: '/api/node/register', timestamp: now.toISOString(), bodySha256: sha256Hex(body) })).toBe(text)
  })

  it('makes the signature that the nkeys library makes and accepts', () => {
    const signature = Buffer.from(headers[signatureHeaders.signature] ?? '', 'base64url')
    const input = new TextEncoder().encode(text)
    expect(fromPublic(key.publicKey).verify(input, signature)).toBe(true)
    expect(Buffer.from(fromSeed(new TextEncoder().encode(key.seed.reveal())).sign(input)).equals(signature)).toBe(true)
  })
})
