// The disk ran full while the embedded database was made or started, here or in one of PostgreSQL's own programs.
import { errorCode } from '@muster/host'
import { refusal } from './refusal.ts'

/** The programs take 60 MB, an empty cluster 40; the rest is for what it writes as it starts. */
const neededMegabytes = 150

/** Everything else as it is. */
export function explainFullDisk(error: unknown, directories: readonly string[]): unknown {
  const code = errorCode(error)
  const isFull = code === 'ENOSPC' || code === 'EDQUOT' || (error instanceof Error && error.message.includes('No space left on device'))
  if (!isFull) return error
  return refusal(
    'disk_full',
    `there is no space left for the embedded database (${directories.join(', ')}): it needs about ${neededMegabytes} MB to begin with. ` +
      'Free some there, choose another --data-dir, or give Muster a database elsewhere with --database-url',
    error,
  )
}
