// Carries a failure inside a process. Free of zod, so that a worker thread which imports it starts in a tenth of the time.
import type { Failure } from './failure.ts'

export class FleetError extends Error {
  readonly failure: Failure

  constructor(failure: Failure, options?: ErrorOptions) {
    super(failure.message, options)
    this.name = 'FleetError'
    this.failure = failure
  }
}

/** The failure of anything thrown; an error that is not a FleetError is a bug and becomes `internal`. */
export function failureOf(error: unknown): Failure {
  if (error instanceof FleetError) return error.failure
  const message = error instanceof Error ? error.message : String(error)
  return { code: 'internal', retry: 'backoff', message: message.slice(0, 8192) }
}

export function unreachable(value: never): never {
  throw new Error(`unreachable: ${JSON.stringify(value)}`)
}
