// The one shape of a failure that crosses a boundary: stored, sent and shown unchanged.
// Decide on `code` and `retry`; `message` is for a person.
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
  /** The sender knows whether trying again can help; receivers do not guess. */
  retry: z.enum(['never', 'backoff']),
  /** What happened, to what, and what to do. */
  message: storableText(8192),
})
export type Failure = z.infer<typeof Failure>

/** How a failure travels inside a process. */
export class FleetError extends Error {
  readonly failure: Failure

  constructor(failure: Failure, options?: ErrorOptions) {
    super(failure.message, options)
    this.name = 'FleetError'
    this.failure = failure
  }
}

/** The failure inside anything thrown; what is not a FleetError is a bug and says so. */
export function failureOf(error: unknown): Failure {
  if (error instanceof FleetError) return error.failure
  const message = error instanceof Error ? error.message : String(error)
  return { code: 'internal', retry: 'backoff', message: message.slice(0, 8192) }
}

export function unreachable(value: never): never {
  throw new Error(`unreachable: ${JSON.stringify(value)}`)
}
