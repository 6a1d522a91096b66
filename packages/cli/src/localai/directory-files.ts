// Reads files of a foreign directory: bounded in size and number, never through a link that leads out of it, and never a pipe or
// a device.
import { constants } from 'node:fs'
import { open, readdir, realpath, stat } from 'node:fs/promises'
import { join, resolve, sep } from 'node:path'
import { errorCode, errorMessage } from '@muster/host'
import { CliError } from '../cli-error.ts'

/** Larger configurations do not exist; the index of LocalAI's gallery has 2.4 MB. */
export const maxTextBytes = 4 * 2 ** 20
const maxEntries = 100_000
const maxDepth = 12

export interface DirectoryFiles {
  readonly root: string
  hasFolder(path: string): Promise<boolean>
  /** Names in a folder, sorted; empty when there is none. */
  list(folder: string): Promise<readonly string[]>
  /** Null when there is no such file. Throws when it is too large, or not a file inside the directory. */
  readText(path: string): Promise<string | null>
  /** The sizes of all files below a folder, by their path from there. `isSkipped` decides by name. */
  walk(folder: string, isSkipped: (name: string) => boolean): Promise<Readonly<{ sizes: Map<string, number>; refused: string[] }>>
  /** The real path of a file; throws when it is not inside the directory. */
  locate(path: string): Promise<string>
}

export async function openDirectory(path: string): Promise<DirectoryFiles> {
  const root = await realpath(resolve(path)).catch((error: unknown) => {
    const reason = errorCode(error) === 'ENOENT' ? 'no such directory' : errorMessage(error)
    throw new CliError(`cannot read ${path}: ${reason}`, { exitCode: 2, cause: error })
  })
  if (!(await stat(root)).isDirectory()) throw new CliError(`${path} is not a directory`, { exitCode: 2 })
  const list = async (folder: string): Promise<readonly string[]> => {
    const inside = await locateIn(root, folder).catch(() => null)
    const names = inside === null ? [] : await readdir(inside).catch(() => [])
    return names.slice(0, maxEntries).toSorted()
  }
  return {
    root,
    hasFolder: async (folder) => {
      const inside = await locateIn(root, folder).catch(() => null)
      return inside !== null && (await stat(inside)).isDirectory()
    },
    list,
    readText: (file) => readTextIn(root, file),
    walk: (folder, isSkipped) => walkFolder({ root, folder, list, isSkipped }),
    locate: (file) => locateIn(root, file),
  }
}

/** Follows links only to targets inside of the directory. */
async function locateIn(root: string, path: string): Promise<string> {
  const real = await realpath(join(root, path))
  if (real !== root && !real.startsWith(root + sep)) throw new Error('it is a link out of the directory, which is not followed')
  return real
}

async function readTextIn(root: string, path: string): Promise<string | null> {
  const real = await locateIn(root, path).catch((error: unknown) => {
    if (errorCode(error) === 'ENOENT' || errorCode(error) === 'ENOTDIR') return null
    throw error
  })
  if (real === null) return null
  // Without waiting: opening a pipe would block until somebody writes to it.
  await using file = await open(real, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW)
  const { size, isFile } = await file.stat().then((found) => ({ size: found.size, isFile: found.isFile() }))
  if (!isFile) throw new Error('it is not a file')
  if (size > maxTextBytes) throw new Error(`it has ${size} bytes; at most ${maxTextBytes} are read`)
  const buffer = Buffer.alloc(size)
  const { bytesRead } = await file.read(buffer, 0, size, 0)
  return new TextDecoder('utf-8', { fatal: true }).decode(buffer.subarray(0, bytesRead))
}

interface Walk {
  readonly root: string
  readonly folder: string
  readonly list: DirectoryFiles['list']
  readonly isSkipped: (name: string) => boolean
}

async function walkFolder({ root, folder, list, isSkipped }: Walk): Promise<{ sizes: Map<string, number>; refused: string[] }> {
  const sizes = new Map<string, number>()
  const refused: string[] = []
  let seen = 0
  async function visit(below: string, depth: number): Promise<void> {
    for (const name of await list(join(folder, below))) {
      seen += 1
      if (seen > maxEntries || depth > maxDepth || isSkipped(name)) continue
      const path = below === '' ? name : `${below}/${name}`
      const real = await locateIn(root, join(folder, path)).catch(() => null)
      const found = real === null ? null : await stat(real).catch(() => null)
      if (found === null) refused.push(path)
      else if (found.isDirectory()) await visit(path, depth + 1)
      else if (found.isFile()) sizes.set(path, found.size)
    }
  }
  await visit('', 0)
  return { sizes, refused }
}
