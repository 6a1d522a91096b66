// Free disk space, and errors of the file system as failures. `disk_full` is retried with backoff: space may return
// without an administrator's action.
import { statfsSync } from 'node:fs'
import { statfs } from 'node:fs/promises'
import { errorCode, type Log } from '@muster/host'
import { type Failure, failureOf, FleetError, ofSource } from '@muster/protocol'

export async function freeBytes(root: string): Promise<number> {
  const { bavail, bsize } = await statfs(root)
  return bavail * bsize
}

export type SpaceCheckOptions = Readonly<{
  keepFreeBytes: number
  /** True: a download begins although it does not seem to fit. The disk is still not filled beyond the limit. */
  isWarning: () => boolean
  log: Log
}>

/** The check throws when so many more bytes would leave less than `keepFreeBytes` for the rest of the machine. */
export function createSpaceCheck(root: string, { keepFreeBytes, isWarning, log }: SpaceCheckOptions): (bytes: number) => Promise<void> {
  return async (bytes) => {
    const free = await freeBytes(root)
    const needed = bytes + keepFreeBytes
    if (free >= needed) return
    if (free < keepFreeBytes || !isWarning()) throw diskFull({ needed, free })
    log.warn('download begins on a disk that looks too small', { path: root, needed_bytes: needed, free_bytes: free })
  }
}

const checkEveryBytes = 32 * 1024 ** 2

/** The same limit for a thread that writes: called with the bytes of each write, because other programs fill the disk too. */
export function createSpaceGuard(directory: string, keepFreeBytes: number): (bytes: number) => void {
  let untilCheck = 0
  return (bytes) => {
    untilCheck -= bytes
    if (untilCheck > 0) return
    untilCheck = checkEveryBytes
    const { bavail, bsize } = statfsSync(directory)
    if (bavail * bsize < keepFreeBytes) throw diskFull({ needed: keepFreeBytes, free: bavail * bsize })
  }
}

function diskFull({ needed, free }: { readonly needed: number; readonly free: number }): FleetError {
  const message = `too little disk space: ${megabytes(needed)} needed, ${megabytes(free)} free in the data directory`
  return new FleetError({ code: 'disk_full', retry: 'backoff', message })
}

export async function withStorageFailures<Result>(work: Promise<Result>): Promise<Result> {
  try {
    return await work
  } catch (error) {
    throw storageFailureOf(error)
  }
}

/** A failure of this machine's file system. */
class StorageError extends FleetError {}

/** The failure of fetching content: that of its source, unless the file system of this machine failed. */
export function fetchFailureOf(error: unknown, source: NonNullable<Failure['source']>): Failure {
  return error instanceof StorageError ? error.failure : ofSource(failureOf(error), source)
}

/** Turns errors of the file system into failures and returns every other error unchanged. */
export function storageFailureOf(error: unknown): unknown {
  const code = errorCode(error)
  if (!(error instanceof Error) || typeof code !== 'string') return error
  if (code === 'ENOSPC' || code === 'EDQUOT')
    return new StorageError(
      { code: 'disk_full', retry: 'backoff', message: `the disk of the data directory is full (${code}): free space on it` },
      { cause: error },
    )
  if (['EIO', 'EROFS', 'EACCES', 'EPERM', 'EMFILE', 'ENFILE'].includes(code))
    return new StorageError(
      { code: 'unavailable', retry: 'backoff', message: `cannot use the data directory: ${error.message}` },
      { cause: error },
    )
  return error
}

function megabytes(bytes: number): string {
  return `${Math.ceil(bytes / 1e6)} MB`
}
