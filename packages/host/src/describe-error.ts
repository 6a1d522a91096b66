// The loggable part of an error: message, code, stack and cause. Errors of HTTP clients and databases also carry headers,
// passwords and rows, which must not be logged.
import { FleetError } from '@muster/protocol'
import { errorCode } from './error-code.ts'

export interface DescribedError {
  readonly message: string
  readonly code?: string | number
  readonly stack?: string
  readonly cause?: DescribedError
}

/** A chain of causes can be a cycle. */
const maxCauses = 5

export function describeError(error: Error, causesLeft = maxCauses): DescribedError {
  const code = error instanceof FleetError ? error.failure.code : errorCode(error)
  return {
    message: messageOf(error),
    ...(code === undefined ? {} : { code }),
    ...(error.stack === undefined ? {} : { stack: error.stack }),
    ...(error.cause instanceof Error && causesLeft > 0 ? { cause: describeError(error.cause, causesLeft - 1) } : {}),
  }
}

/** A connection tried over several addresses fails with an empty message and one error for each. */
function messageOf(error: Error): string {
  if (error.message !== '') return error.message
  if (error instanceof AggregateError)
    return error.errors.map((each: unknown) => (each instanceof Error ? messageOf(each) : String(each))).join('; ')
  return error.name
}
