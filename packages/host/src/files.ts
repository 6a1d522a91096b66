// Writes a file so that after a crash at any moment it holds either all of the old or all of the new,
// and once this resolves, the new.
import { mkdir, open, rename, rm } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { newId } from './random-id.ts'

export async function writeFileAtomic(path: string, data: string | Uint8Array, { mode }: { readonly mode: number }): Promise<void> {
  const temporary = temporaryName(path)
  try {
    await using file = await open(temporary, 'wx', mode)
    await file.writeFile(data)
    await file.sync()
    await rename(temporary, path)
  } catch (error) {
    await rm(temporary, { force: true })
    throw error
  }
  // The new name is durable only with its directory.
  await using directory = await open(dirname(path), 'r')
  await directory.sync()
}

/** What a crash leaves behind under such a name is nobody's; see `isTemporary`. */
export function temporaryName(path: string): string {
  return `${path}.${newId()}.tmp`
}

export function isTemporary(name: string): boolean {
  return /\.[a-z2-7]{20}\.tmp$/.test(name)
}

// Directories that are still there after a power cut: the name of each that is made is synced with the one it is in.
/** With those above it that are missing; one that is there is left as it is. */
export async function makeDirectory(path: string, { mode }: { readonly mode: number }): Promise<void> {
  const whole = resolve(path)
  const first = await mkdir(whole, { recursive: true, mode })
  if (first === undefined) return
  for (let at = whole; at.length >= first.length; at = dirname(at)) {
    await using parent = await open(dirname(at), 'r')
    await parent.sync()
  }
}
