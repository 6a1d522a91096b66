// The path itself, or the closest directory above it that is there.
import { access } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'

export async function nearestExisting(path: string): Promise<string> {
  const full = resolve(path)
  const there = await access(full).then(
    () => true,
    () => false,
  )
  return there || dirname(full) === full ? full : nearestExisting(dirname(full))
}
