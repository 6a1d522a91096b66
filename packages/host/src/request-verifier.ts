// Verifies the signature of requests to /api/node. Uses native Ed25519: 0.15 ms per signature, against about 10 ms of
// JavaScript in the nkeys library.
import { createPublicKey, verify, type KeyObject } from 'node:crypto'
import { maxClockSkewMs, PublicKey, signatureHeaders, signedText } from '@muster/protocol'
import { decodeUserKey, type RequestToSign } from './node-key.ts'
import { sha256Hex } from './random-id.ts'

export interface SignedRequest extends RequestToSign {
  /** By lower-case name. */
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>
}

export type VerificationResult =
  | { ok: true; publicKey: PublicKey; signedAt: Date }
  | { ok: false; code: 'bad_signature' | 'clock_skew'; message: string }

/** Checks the signature before the time, so that clock details are shown to the owner of the key only. */
export function createRequestVerifier({ maxKeys = 4096 }: { readonly maxKeys?: number } = {}): (
  request: SignedRequest,
) => VerificationResult {
  const keyOf = createKeyCache(maxKeys)
  return ({ method, path, body, headers, now }) => {
    const [key, timestamp, signature] = [
      headers[signatureHeaders.key],
      headers[signatureHeaders.timestamp],
      headers[signatureHeaders.signature],
    ]
    if (typeof key !== 'string' || typeof timestamp !== 'string' || typeof signature !== 'string') {
      return bad(`a worker's request needs the headers ${Object.values(signatureHeaders).join(', ')}, each once`)
    }
    const publicKey = PublicKey.safeParse(key)
    const keyObject = publicKey.success ? keyOf(publicKey.data) : null
    if (!publicKey.success || keyObject === null) return bad(`${signatureHeaders.key} is not an nkey user public key`)
    if (!/^[A-Za-z0-9_-]{86}(?:==)?$/.test(signature)) return bad(`${signatureHeaders.signature} is not a base64url Ed25519 signature`)

    const text = signedText({ method, path, timestamp, bodySha256: sha256Hex(body) })
    if (!verify(null, Buffer.from(text), keyObject, Buffer.from(signature, 'base64url'))) {
      return bad('the signature does not match this method, path, timestamp and body')
    }
    return judgeTime(timestamp, now, publicKey.data)
  }
}

const rfc3339 = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)$/i

function judgeTime(timestamp: string, now: Date, publicKey: PublicKey): VerificationResult {
  const signedAt = rfc3339.test(timestamp) ? Date.parse(timestamp) : Number.NaN
  if (Number.isNaN(signedAt)) return bad(`${signatureHeaders.timestamp} is not an RFC 3339 time`)
  if (Math.abs(signedAt - now.getTime()) <= maxClockSkewMs) return { ok: true, publicKey, signedAt: new Date(signedAt) }
  return {
    ok: false,
    code: 'clock_skew',
    message: `signed at ${timestamp}, but the controller's time is ${now.toISOString()}: the clocks differ by more than 5 minutes`,
  }
}

function bad(message: string): VerificationResult {
  return { ok: false, code: 'bad_signature', message }
}

/** Drops the least recently used keys first. */
function createKeyCache(maxKeys: number): (publicKey: PublicKey) => KeyObject | null {
  const kept = new Map<PublicKey, KeyObject>()
  return (publicKey) => {
    const keyObject = kept.get(publicKey) ?? importKey(publicKey)
    if (keyObject === null) return null
    kept.delete(publicKey)
    kept.set(publicKey, keyObject)
    const [oldest] = kept.keys()
    if (kept.size > maxKeys && oldest !== undefined) kept.delete(oldest)
    return keyObject
  }
}

function importKey(publicKey: PublicKey): KeyObject | null {
  const raw = decodeUserKey(publicKey)
  if (raw === null) return null
  return createPublicKey({ format: 'jwk', key: { kty: 'OKP', crv: 'Ed25519', x: Buffer.from(raw).toString('base64url') } })
}
