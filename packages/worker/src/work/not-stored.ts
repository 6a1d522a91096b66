import { errorCode, errorMessage } from '@muster/host'
import { FleetError } from '@muster/protocol'

/** A record that could not be written. `what`: `the command`. */
export function notStored(what: string, error: unknown): FleetError {
  const isFull = errorCode(error) === 'ENOSPC' || errorCode(error) === 'EDQUOT'
  const reason = errorMessage(error)
  const message = isFull
    ? `cannot store ${what}: the disk is full; free space in the data directory of this worker`
    : `cannot store ${what} in the data directory of this worker: ${reason}`
  return new FleetError({ code: isFull ? 'disk_full' : 'unavailable', retry: 'backoff', message }, { cause: error })
}
