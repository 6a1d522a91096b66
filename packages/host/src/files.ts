// Durable files and directories.
import { mkdir, open, rename, rm } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { newId } from './random-id.ts'

/** After a crash at any moment, the file holds either the old or the new content; once this resolves, the new. */
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

/** After a crash, files with such a name can be removed; see `isTemporary`. */
export function temporaryName(path: string): string {
  return `${path}.${newId()}.tmp`
}

export function isTemporary(name: string): boolean {
  return /\.[a-z2-7]{20}\.tmp$/.test(name)
}

/** Creates a directory and its missing parents, and syncs each name, so that they survive a power cut. */
export async function makeDirectory(path: string, { mode }: { readonly mode: number }): Promise<void> {
  const whole = resolve(path)
  const first = await mkdir(whole, { recursive: true, mode })
  if (first === undefined) return
  for (let at = whole; at.length >= first.length; at = dirname(at)) {
    await using parent = await open(dirname(at), 'r')
    await parent.sync()
  }
}
