// What the disk says, as failures. `disk_full` is worth another try: space comes back without anybody asking for it.
import { statfsSync } from 'node:fs'
import { statfs } from 'node:fs/promises'
import { errorCode } from '@muster/host'
import { FleetError } from '@muster/protocol'

export function diskFull({ needed, free }: { readonly needed: number; readonly free: number }, options?: ErrorOptions): FleetError {
  const message = `too little disk space: ${megabytes(needed)} needed, ${megabytes(free)} free in the data directory`
  return new FleetError({ code: 'disk_full', retry: 'backoff', message }, options)
}

export async function freeBytes(root: string): Promise<number> {
  const { bavail, bsize } = await statfs(root)
  return bavail * bsize
}

/** Throws when so many more bytes would leave less than `keepFreeBytes` to everybody else. */
export function createSpaceCheck(root: string, keepFreeBytes: number): (bytes: number) => Promise<void> {
  return async (bytes) => {
    const free = await freeBytes(root)
    if (free < bytes + keepFreeBytes) throw diskFull({ needed: bytes + keepFreeBytes, free })
  }
}

export async function withStorageFailures<Result>(work: Promise<Result>): Promise<Result> {
  try {
    return await work
  } catch (error) {
    throw storageFailureOf(error)
  }
}

/** Errors of the file system as failures; everything else as it is. */
export function storageFailureOf(error: unknown): unknown {
  const code = errorCode(error)
  if (!(error instanceof Error) || typeof code !== 'string') return error
  if (code === 'ENOSPC' || code === 'EDQUOT')
    return new FleetError(
      { code: 'disk_full', retry: 'backoff', message: `the disk of the data directory is full (${code})` },
      { cause: error },
    )
  if (['EIO', 'EROFS', 'EACCES', 'EPERM', 'EMFILE', 'ENFILE'].includes(code))
    return new FleetError(
      { code: 'unavailable', retry: 'backoff', message: `the data directory can't be used: ${error.message}` },
      { cause: error },
    )
  return error
}

function megabytes(bytes: number): string {
  return `${Math.ceil(bytes / 1e6)} MB`
}

// Stops writing before the disk is full: others on this machine need some of it, and a database that finds none left dies.

const everyBytes = 32 * 1024 ** 2

export interface SpaceGuard {
  spend(bytes: number): void
}

export function createSpaceGuard(directory: string, keepFreeBytes: number): SpaceGuard {
  let untilCheck = 0
  return {
    spend: (bytes) => {
      untilCheck -= bytes
      if (untilCheck > 0) return
      untilCheck = everyBytes
      const { bavail, bsize } = statfsSync(directory)
      if (bavail * bsize < keepFreeBytes) throw diskFull({ needed: keepFreeBytes, free: bavail * bsize })
    },
  }
}
