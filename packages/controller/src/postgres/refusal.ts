// Errors of the embedded database that the operator can fix.
import { errorCode } from '@muster/host'
import { type FailureCode, FleetError } from '@muster/protocol'

export function refusal(code: FailureCode, message: string, cause?: unknown): FleetError {
  return new FleetError({ code, retry: 'never', message }, { cause })
}

/** 60 MB for the programs, 40 MB for an empty cluster, the rest for writes at the start. */
const neededMegabytes = 150

/** Explains a full disk, in this process or in PostgreSQL's programs; returns other errors unchanged. */
export function explainFullDisk(error: unknown, directories: readonly string[]): unknown {
  const code = errorCode(error)
  const isFull = code === 'ENOSPC' || code === 'EDQUOT' || (error instanceof Error && error.message.includes('No space left on device'))
  if (!isFull) return error
  return refusal(
    'disk_full',
    `no space left for the embedded database (${directories.join(', ')}): it needs about ${neededMegabytes} MB. ` +
      'Free some space, choose another --data-dir, or give Muster a database elsewhere with --database-url',
    error,
  )
}
