// A folder per model and revision: `files/` holds its files under their configured names, as further names of content in
// `blobs/`, and `record.json` says whose they are. Built aside and renamed, so that one that is there is whole.
import { constants } from 'node:fs'
import { chmod, copyFile, link, lstat, mkdir, readdir, readFile, rename, rm, stat, utimes, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { errorCode, makeDirectory, newId, type Clock } from '@muster/host'
import { Digest, ModelName } from '@muster/protocol'
import { z } from 'zod'
import { syncPath } from '../storage/unpack/sync.ts'
import type { ModelLayout } from './layout.ts'

export const FolderRecord = z.object({
  model: ModelName,
  revision: z.string(),
  files: z.array(z.object({ filename: z.string(), digest: Digest, size: z.number().int().min(0) })),
})
export type FolderRecord = z.infer<typeof FolderRecord>

export interface FoundFolder {
  readonly path: string
  readonly record: FolderRecord
  readonly usedAt: number
}

export interface ModelFolders {
  /** Null unless every file is there, of its size. It counts as used now. */
  find(model: ModelName, revision: string): Promise<FolderRecord | null>
  /** Its content has to be there, and held. */
  place(record: FolderRecord): Promise<void>
  /** Of this model, or of all. `isComplete` is false when one could not be read: then nobody knows what it names. */
  list(model?: ModelName): Promise<{ readonly found: readonly FoundFolder[]; readonly isComplete: boolean }>
  removeFolder(path: string): Promise<void>
  removeModel(model: ModelName): Promise<void>
}

const filesIn = 'files'
const recordIn = 'record.json'

export const filesOf = (folder: string): string => join(folder, filesIn)

export function createModelFolders({ layout, clock }: { readonly layout: ModelLayout; readonly clock: Clock }): ModelFolders {
  const setAside = async (path: string): Promise<void> => {
    const gone = join(layout.staging, newId())
    try {
      await rename(path, gone)
    } catch (error) {
      if (errorCode(error) === 'ENOENT') return
      throw error
    }
    await syncPath(dirname(path))
    await rm(gone, { recursive: true, force: true })
  }
  const list: ModelFolders['list'] = async (model) => {
    const models = model === undefined ? (await readdir(layout.byModel)).map((name) => join(layout.byModel, name)) : [layout.model(model)]
    const found: FoundFolder[] = []
    let isComplete = true
    for (const path of (await Promise.all(models.map(childrenOf))).flat()) {
      const folder = await read(path)
      if (folder !== null) found.push(folder)
      else if ((await statOf(path)) !== null) isComplete = false
    }
    return { found, isComplete }
  }
  return {
    list,
    async find(model, revision) {
      const path = layout.folder(model, revision)
      const folder = await read(path)
      if (folder === null || folder.record.model !== model || folder.record.revision !== revision) return null
      for (const { filename, size } of folder.record.files) {
        const file = await lstat(join(filesOf(path), filename)).catch(() => null)
        if (file === null || !file.isFile() || file.size !== size) return null
      }
      return (await markUsed(join(path, recordIn), clock.now() / 1000)) ? folder.record : null
    },
    async place(record) {
      const aside = join(layout.staging, newId())
      const target = layout.folder(record.model, record.revision)
      try {
        await build(layout, record, aside)
        await makeDirectory(dirname(target), { mode: 0o700 })
        await setAside(target)
        await rename(aside, target)
        await syncPath(dirname(target))
      } catch (error) {
        await rm(aside, { recursive: true, force: true })
        throw error
      }
    },
    removeFolder: setAside,
    removeModel: (model) => setAside(layout.model(model)),
  }
}

/** False when it was removed since it was read. */
async function markUsed(path: string, now: number): Promise<boolean> {
  try {
    await utimes(path, now, now)
    return true
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return false
    throw error
  }
}

async function build(layout: ModelLayout, record: FolderRecord, aside: string): Promise<void> {
  const files = filesOf(aside)
  const directories = new Set([aside, files])
  await mkdir(files, { recursive: true, mode: 0o700 })
  for (const { filename, digest } of record.files) {
    const path = join(files, filename)
    for (let at = dirname(path); at.length > files.length; at = dirname(at)) directories.add(at)
    await mkdir(dirname(path), { recursive: true, mode: 0o700 })
    await nameContent(layout.blob(digest), path)
  }
  const path = join(aside, recordIn)
  await writeFile(path, JSON.stringify(record), { mode: 0o600 })
  await syncPath(path)
  for (const directory of [...directories].toReversed()) await syncPath(directory)
}

/** A second name of the same file. Nobody writes through it: what a backend changes would be wrong for every model that has it. */
async function nameContent(blob: string, path: string): Promise<void> {
  await chmod(blob, 0o400)
  try {
    await link(blob, path)
  } catch (error) {
    if (!['EXDEV', 'EPERM', 'EMLINK', 'ENOTSUP', 'EOPNOTSUPP'].includes(String(errorCode(error)))) throw error
    await copyFile(blob, path, constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE)
    await syncPath(path)
  }
}

async function read(path: string): Promise<FoundFolder | null> {
  try {
    const { mtimeMs } = await stat(join(path, recordIn))
    const record = FolderRecord.safeParse(JSON.parse(await readFile(join(path, recordIn), 'utf8')))
    return record.success ? { path, record: record.data, usedAt: mtimeMs } : null
  } catch {
    return null
  }
}

const statOf = (path: string) => stat(path).catch(() => null)

async function childrenOf(directory: string): Promise<string[]> {
  try {
    return (await readdir(directory)).map((name) => join(directory, name))
  } catch (error) {
    if (errorCode(error) === 'ENOENT' || errorCode(error) === 'ENOTDIR') return []
    throw error
  }
}
