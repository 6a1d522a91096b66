// Room for downloads, engines, models and the database, where the data directory is (or will be).
import { statfs } from 'node:fs/promises'
import { formatBytes } from '../output/amounts.ts'
import { nearestExisting } from './nearest-existing.ts'
import { type Check, fail, ok, type Verdict, warn } from './verdict.ts'

const failBelow = 1e9
const warnBelow = 5e9

export function judgeDiskSpace(freeBytes: number, path: string): Verdict {
  const found = `${formatBytes(freeBytes)} free at ${path}`
  if (freeBytes < failBelow)
    return fail(found, 'free at least 1 GB, or choose another --data-dir: databases stop and downloads fail on a full disk')
  if (freeBytes < warnBelow) return warn(found, 'engines and models take several GB each: make room, or choose another --data-dir')
  return ok(found)
}

export const diskSpaceCheck = (dataDir: string): Check => ({
  name: 'disk',
  run: async () => {
    const path = await nearestExisting(dataDir)
    const { bavail, bsize } = await statfs(path)
    return judgeDiskSpace(bavail * bsize, path)
  },
})
