// Why nothing can be planned from a source, as the API says it.
import { FleetError } from '@muster/protocol'

/** It did not answer, now. */
export class SourceUnavailable extends FleetError {
  constructor(message: string, options?: ErrorOptions) {
    super({ code: 'unavailable', retry: 'backoff', message: message.slice(0, 8192) }, options)
    this.name = 'SourceUnavailable'
  }
}

export const notOffered = (message: string): FleetError => new FleetError({ code: 'not_found', retry: 'never', message })
export const invalidSource = (message: string): FleetError => new FleetError({ code: 'invalid', retry: 'never', message })

/** What was thrown while a source was asked. */
export function toSourceError(error: unknown): unknown {
  if (!(error instanceof FleetError)) return error
  const { code, message } = error.failure
  return code === 'unavailable' || code === 'timeout' ? new SourceUnavailable(message, { cause: error }) : error
}
