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
})
export type Failure = z.infer<typeof Failure>

export { failureOf, FleetError, unreachable } from './fleet-error.ts'
