// `Idempotency-Key` makes a POST safe to repeat: the same key with the same request gets the same answer, and nothing
// is done twice; with another request it is a mistake, and told so.
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

/** What was answered before; null when this is the first time. */
export async function answeredBefore(
  wishes: Pick<SubmissionStore, 'remembered'>,
  key: IdempotencyKey | null,
): Promise<Answer<never> | null> {
  const before = key === null ? null : await wishes.remembered(key)
  if (key === null || before === null) return null
  if (before.requestSha256 !== key.requestSha256) {
    throw new HttpError(422, 'idempotency_mismatch', `the Idempotency-Key ${key.key} was used for another request; use a new one for each`)
  }
  return new Answer(before.status, before.response as never)
}
