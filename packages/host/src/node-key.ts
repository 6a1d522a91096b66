// The identity of a node: an nkey pair made on its own machine. The seed never leaves that machine.
import { createPrivateKey, sign } from 'node:crypto'
import { PublicKey, signatureHeaders, signedText } from '@muster/protocol'
import { createUser, fromSeed } from '@nats-io/nkeys'
import { sha256Hex } from './random-id.ts'
import { Secret } from './secret.ts'

export type NodeKey = Readonly<{ publicKey: PublicKey; seed: Secret }>

export interface RequestToSign {
  readonly method: string
  /** As in the request line. */
  readonly path: string
  readonly body: Uint8Array
  readonly now: Date
}

export function createNodeKey(): NodeKey {
  return nodeKeyFromSeed(new TextDecoder().decode(createUser().getSeed()))
}

export function nodeKeyFromSeed(seed: string | Secret): NodeKey {
  const text = (typeof seed === 'string' ? seed : seed.reveal()).trim()
  if (decodeUserSeed(text) === null)
    throw new Error('the seed of the node key is damaged: an nkey user seed begins with SU and has 58 characters')
  const pair = fromSeed(new TextEncoder().encode(text))
  return { publicKey: PublicKey.parse(pair.getPublicKey()), seed: new Secret(text) }
}

/** The headers that prove the sender of a request. */
export function signRequest(key: NodeKey, { method, path, body, now }: RequestToSign): Record<string, string> {
  const timestamp = now.toISOString()
  const text = signedText({ method, path, timestamp, bodySha256: sha256Hex(body) })
  return {
    [signatureHeaders.key]: key.publicKey,
    [signatureHeaders.timestamp]: timestamp,
    [signatureHeaders.signature]: sign(null, Buffer.from(text), privateKeyOf(key)).toString('base64url'),
  }
}

function privateKeyOf({ publicKey, seed }: NodeKey) {
  const [d, x] = [decodeUserSeed(seed.reveal()), decodeUserKey(publicKey)]
  if (d === null || x === null) throw new Error('not a node key')
  return createPrivateKey({ format: 'jwk', key: { kty: 'OKP', crv: 'Ed25519', d: base64url(d), x: base64url(x) } })
}

const base64url = (bytes: Uint8Array): string => Buffer.from(bytes).toString('base64url')

// The text form of an nkey: base32 of a prefix, 32 raw bytes and a CRC-16. The nkeys library does not export this codec,
// and its own signatures take milliseconds of JavaScript each.
const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'
const userPrefix = 20 << 3

/** The raw Ed25519 key in a *user* public key; null when the text is damaged or anything else. */
export function decodeUserKey(text: string): Uint8Array | null {
  const bytes = decodeChecked(text)
  return bytes !== null && bytes.length === 33 && bytes[0] === userPrefix ? bytes.subarray(1) : null
}

/** The raw Ed25519 seed in a *user* seed. */
export function decodeUserSeed(text: string): Uint8Array | null {
  const bytes = decodeChecked(text)
  return bytes !== null && bytes.length === 34 && text.startsWith('SU') ? bytes.subarray(2) : null
}

function decodeChecked(text: string): Uint8Array | null {
  const bytes = decodeBase32(text)
  if (bytes === null || bytes.length < 2) return null
  const body = bytes.subarray(0, -2)
  const checksum = (bytes.at(-2) ?? 0) | ((bytes.at(-1) ?? 0) << 8)
  return crc16(body) === checksum ? body : null
}

function decodeBase32(text: string): Uint8Array | null {
  const bytes = new Uint8Array(Math.floor((text.length * 5) / 8))
  let [pending, bits, length] = [0, 0, 0]
  for (const char of text) {
    const five = alphabet.indexOf(char)
    if (five === -1) return null
    pending = ((pending << 5) | five) & 0xfff
    bits += 5
    if (bits >= 8) {
      bits -= 8
      bytes[length++] = (pending >> bits) & 0xff
    }
  }
  return bytes
}

/** CRC-16/XMODEM. */
function crc16(bytes: Uint8Array): number {
  let crc = 0
  for (const byte of bytes) {
    crc ^= byte << 8
    for (let bit = 0; bit < 8; bit++) crc = ((crc & 0x8000) === 0 ? crc << 1 : (crc << 1) ^ 0x1021) & 0xffff
  }
  return crc
}
