// Ids and secrets, and the hashes under which secrets are stored.
import { hash, randomBytes } from 'node:crypto'

const alphabet = 'abcdefghijklmnopqrstuvwxyz234567'

/** 100 random bits; fits every id of the protocol, also with a prefix (`op-…`). */
export function newId(prefix?: string): string {
  const id = Array.from(randomBytes(20), (byte) => alphabet[byte & 31]).join('')
  return prefix === undefined ? id : `${prefix}-${id}`
}

/** 256 random bits; the prefix identifies the secret for people and secret scanners (`muster_admin_…`). */
export function newSecret(prefix: string): string {
  return `${prefix}_${randomBytes(32).toString('base64url')}`
}

export function sha256Hex(data: string | Uint8Array): string {
  return hash('sha256', data, 'hex')
}
