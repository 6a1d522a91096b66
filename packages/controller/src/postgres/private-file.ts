// Small private files that are there whole or not at all.
import { link, open, readFile, rm } from 'node:fs/promises'
import { errorCode, temporaryName, writeFileAtomic } from '@muster/host'

/** Null when it is not there. */
export async function readIfThere(path: string): Promise<string | null> {
  try {
    return await readFile(path, 'utf8')
  } catch (error) {
    if (errorCode(error) === 'ENOENT' || errorCode(error) === 'ENOTDIR') return null
    throw error
  }
}

/** Replaces what is there. */
export async function writePrivateFile(path: string, text: string): Promise<void> {
  await writeFileAtomic(path, text, { mode: 0o600 })
}

/** False when somebody else was first. */
export async function createPrivateFile(path: string, text: string): Promise<boolean> {
  const draft = temporaryName(path)
  try {
    await writePrivateFile(draft, text)
    await link(draft, path)
    return true
  } catch (error) {
    if (errorCode(error) === 'EEXIST') return false
    throw error
  } finally {
    await rm(draft, { force: true })
  }
}

export async function syncDirectory(path: string): Promise<void> {
  await using directory = await open(path, 'r')
  await directory.sync()
}
