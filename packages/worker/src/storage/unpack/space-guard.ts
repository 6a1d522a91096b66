// Stops writing before the disk is full: others on this machine need some of it, and a database that finds none left dies.
import { statfsSync } from 'node:fs'
import { diskFull } from '../disk-full.ts'

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
