// What a node is: an nkey pair made on its own machine. The seed never leaves that machine.
import { createPrivateKey, sign } from 'node:crypto'
import { PublicKey, signatureHeaders, signedText } from '@muster/protocol'
import { createUser, fromSeed } from '@nats-io/nkeys'
import { decodeUserKey, decodeUserSeed } from './nkey-codec.ts'
import { sha256Hex } from './random-id.ts'
import { Secret } from './secret.ts'

export type NodeKey = Readonly<{ publicKey: PublicKey; seed: Secret }>

export interface RequestToSign {
  readonly method: string
  /** As it stands in the request line. */
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

/** The headers that prove that the request comes from this key. */
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
