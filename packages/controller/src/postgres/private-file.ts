// Small private files that are written atomically.
import { link, open, readFile, rm } from 'node:fs/promises'
import { dirname } from 'node:path'
import { errorCode, temporaryName, writeFileAtomic } from '@muster/host'
import type { z } from 'zod'
import { refusal } from './refusal.ts'

/** Null when the file does not exist. */
export async function readIfThere(path: string): Promise<string | null> {
  try {
    return await readFile(path, 'utf8')
  } catch (error) {
    if (errorCode(error) === 'ENOENT' || errorCode(error) === 'ENOTDIR') return null
    throw error
  }
}

/** Null when the file does not exist. A damaged file is refused with the remedy. */
export async function readRecord<T>(path: string, schema: z.ZodType<T>, remedy: () => Promise<string> | string): Promise<T | null> {
  const text = await readIfThere(path)
  if (text === null) return null
  try {
    return schema.parse(JSON.parse(text))
  } catch (error) {
    throw refusal('integrity', `${path} is damaged. ${await remedy()}`, error)
  }
}

/** Replaces an existing file. */
export async function writePrivateFile(path: string, text: string): Promise<void> {
  await writeFileAtomic(path, text, { mode: 0o600 })
}

/** False when the file already exists. */
export async function createPrivateFile(path: string, text: string): Promise<boolean> {
  const draft = temporaryName(path)
  try {
    await writePrivateFile(draft, text)
    await link(draft, path)
    await syncDirectory(dirname(path))
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
