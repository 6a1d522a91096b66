// Small private files that are either the old or the new whole, also after a crash.
import { link, open, readFile, rename, rm } from 'node:fs/promises'
import { dirname } from 'node:path'
import { newId } from '@muster/host'

/** Null when it is not there. */
export async function readIfThere(path: string): Promise<string | null> {
  try {
    return await readFile(path, 'utf8')
  } catch (error) {
    if (error instanceof Error && 'code' in error && (error.code === 'ENOENT' || error.code === 'ENOTDIR')) return null
    throw error
  }
}

/** Replaces what is there. */
export async function writePrivateFile(path: string, text: string): Promise<void> {
  await withDraft(path, text, (draft) => rename(draft, path))
}

/** With its content or not at all; false when somebody else was first. */
export async function createPrivateFile(path: string, text: string): Promise<boolean> {
  try {
    await withDraft(path, text, (draft) => link(draft, path))
    return true
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EEXIST') return false
    throw error
  }
}

async function withDraft(path: string, text: string, publish: (draft: string) => Promise<void>): Promise<void> {
  const draft = `${path}.partial-${newId()}`
  const file = await open(draft, 'wx', 0o600)
  try {
    await file.writeFile(text)
    await file.sync()
    await publish(draft)
  } finally {
    await file.close()
    await rm(draft, { force: true })
  }
  await syncDirectory(dirname(path))
}

export async function syncDirectory(path: string): Promise<void> {
  const directory = await open(path, 'r')
  try {
    await directory.sync()
  } finally {
    await directory.close()
  }
}
