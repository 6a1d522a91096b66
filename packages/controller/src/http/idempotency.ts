// `Idempotency-Key` makes a POST safe to repeat: the same key with the same request gets the stored answer; with another
// request it is refused.
import { createHash } from 'node:crypto'
import type { Principal } from '../auth/principal.ts'
import type { IdempotencyKey, SubmissionStore } from '../store/submissions.ts'
import { Answer } from './endpoint.ts'
import { HttpError } from './http-error.ts'

export function idempotencyKeyOf(call: { headers: Headers; principal: Principal }, request: unknown): IdempotencyKey | null {
  const key = call.headers.get('idempotency-key')
  if (key === null) return null
  if (!/^[\x21-\x7e]{1,255}$/.test(key))
    throw new HttpError(400, 'invalid', 'an Idempotency-Key is 1–255 printable characters without spaces')
  const { principal } = call
  const caller = principal.kind === 'key' ? `key ${principal.id}` : principal.kind
  return { key, caller, requestSha256: createHash('sha256').update(JSON.stringify(request)).digest('hex') }
}

/** The answer stored for this key; null at its first use. */
export async function findStoredAnswer(
  store: Pick<SubmissionStore, 'remembered'>,
  key: IdempotencyKey | null,
): Promise<Answer<never> | null> {
  const before = key === null ? null : await store.remembered(key)
  if (key === null || before === null) return null
  if (before.requestSha256 !== key.requestSha256) {
    throw new HttpError(422, 'idempotency_mismatch', `the Idempotency-Key ${key.key} was used for another request; use a new one for each`)
  }
  return new Answer(before.status, before.response as never)
}
