// The one shape of a failure that crosses a boundary: stored, sent and shown unchanged. FleetError carries it inside a process.
// Decide on `code` and `retry`; `message` is for people.
import { z } from 'zod'
import { storableText } from './ids.ts'

export const FailureCode = z.enum([
  'invalid',
  'not_found',
  'conflict',
  'superseded',
  'incompatible',
  'unavailable',
  'timeout',
  'no_capacity',
  'disk_full',
  'integrity',
  'cancelled',
  'internal',
])
export type FailureCode = z.infer<typeof FailureCode>

export const Failure = z.object({
  code: FailureCode,
  /** The sender knows whether a retry can help; receivers do not guess. */
  retry: z.enum(['never', 'backoff']),
  /** The failure, its cause and the remedy, in this order. */
  message: storableText(8192),
  /** The source of this content failed, so another node would fail in the same way. Older workers do not report it. */
  source: z.enum(['backend', 'files']).optional(),
})
export type Failure = z.infer<typeof Failure>

const sourceCodes: readonly FailureCode[] = ['unavailable', 'not_found', 'invalid', 'integrity']

/** For a failure to fetch this content. A full disk, for example, is a failure of the node and stays one. */
export const ofSource = (failure: Failure, source: NonNullable<Failure['source']>): Failure =>
  sourceCodes.includes(failure.code) ? { ...failure, source } : failure

export { failureOf, FleetError, unreachable } from './fleet-error.ts'
