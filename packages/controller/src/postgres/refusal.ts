// Why there is no embedded database: for the person who started Muster, not a bug.
import { FleetError, type FailureCode } from '@muster/protocol'

export function refusal(code: FailureCode, message: string, cause?: unknown): FleetError {
  return new FleetError({ code, retry: 'never', message }, { cause })
}
