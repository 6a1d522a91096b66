// A folder per model and revision: `files/` has its files under their configured names, hard links to content in `blobs/`,
// and `record.json` names model, revision and digests. Built in staging and renamed, so that an existing folder is complete.
import { constants } from 'node:fs'
import { chmod, copyFile, link, lstat, mkdir, readdir, readFile, rename, rm, stat, utimes, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { errorCode, ifMissing, makeDirectory, newId, type Clock } from '@muster/host'
import { Digest, FleetError, ModelName } from '@muster/protocol'
import { z } from 'zod'
import { fileSize } from '../storage/blobs.ts'
import { syncPath } from '../storage/unpack/sync.ts'
import type { ModelLayout } from './layout.ts'

export const FolderRecord = z.object({
  model: ModelName,
  revision: z.string(),
  files: z.array(z.object({ filename: z.string(), digest: Digest, size: z.number().int().min(0) })),
  /** Files that came out of archives; links have the size 0. */
  unpacked: z.array(z.object({ filename: z.string(), size: z.number().int().min(0) })).default([]),
})
export type FolderRecord = z.infer<typeof FolderRecord>

/** A directory in staging, and the folder of the model that its content is moved to. */
export interface UnpackedTree {
  readonly archive: string
  readonly root: string
  /** Empty for the top. */
  readonly folder: string
}

export interface ModelFolder {
  readonly path: string
  readonly record: FolderRecord
  readonly usedAt: number
}

export interface ModelFolders {
  /** Null unless every file exists with its size; content of another size is removed. Marks the folder as used now. */
  find(model: ModelName, revision: string): Promise<FolderRecord | null>
  /** The content must exist and be held. Trees are moved into the folder. */
  place(record: FolderRecord, trees: readonly UnpackedTree[]): Promise<void>
  /** Lists the folders of one model or of all. `isComplete` is false when a record is unreadable: then its content is unknown. */
  list(model?: ModelName): Promise<{ readonly found: readonly ModelFolder[]; readonly isComplete: boolean }>
  removeFolder(path: string): Promise<void>
  removeModel(model: ModelName): Promise<void>
}

const filesIn = 'files'
const recordIn = 'record.json'

export const filesOf = (folder: string): string => join(folder, filesIn)

export function createModelFolders({ layout, clock }: { readonly layout: ModelLayout; readonly clock: Clock }): ModelFolders {
  const removeFolder = async (path: string): Promise<void> => {
    const removed = join(layout.staging, newId())
    const isRenamed = await rename(path, removed).then(() => true, ifMissing(false))
    if (!isRenamed) return
    await syncPath(dirname(path))
    await rm(removed, { recursive: true, force: true })
  }
  const list: ModelFolders['list'] = async (model) => {
    const models = model === undefined ? (await readdir(layout.byModel)).map((name) => join(layout.byModel, name)) : [layout.model(model)]
    const found: ModelFolder[] = []
    let isComplete = true
    for (const path of (await Promise.all(models.map(childrenOf))).flat()) {
      const folder = await readFolder(path)
      if (folder !== null) found.push(folder)
      else if ((await stat(path).catch(() => null)) !== null) isComplete = false
    }
    return { found, isComplete }
  }
  return {
    list,
    async find(model, revision) {
      const path = layout.folder(model, revision)
      const folder = await readFolder(path)
      if (folder === null || folder.record.model !== model || folder.record.revision !== revision) return null
      let isComplete = true
      for (const { filename, digest, size } of folder.record.files) {
        const file = await lstat(join(filesOf(path), filename)).catch(() => null)
        if (file !== null && file.isFile() && file.size === size) continue
        isComplete = false
        // A damaged link is a damaged blob: both are names of one file. It must be fetched again.
        if (((await fileSize(layout.blob(digest))) ?? size) !== size) await rm(layout.blob(digest), { force: true })
      }
      for (const { filename, size } of folder.record.unpacked) {
        const file = await lstat(join(filesOf(path), filename)).catch(() => null)
        isComplete &&= file !== null && (file.isSymbolicLink() || (file.isFile() && file.size === size))
      }
      if (!isComplete) return null
      const now = clock.now() / 1000
      // Null when the folder was removed meanwhile.
      return await utimes(join(path, recordIn), now, now).then(() => folder.record, ifMissing(null))
    },
    async place(record, trees) {
      const staged = join(layout.staging, newId())
      const target = layout.folder(record.model, record.revision)
      try {
        await build(layout, record, { staged, trees })
        await makeDirectory(dirname(target), { mode: 0o700 })
        await removeFolder(target)
        await rename(staged, target)
        await syncPath(dirname(target))
      } catch (error) {
        await rm(staged, { recursive: true, force: true })
        throw error
      }
    },
    removeFolder,
    removeModel: (model) => removeFolder(layout.model(model)),
  }
}

type NewFolder = Readonly<{ staged: string; trees: readonly UnpackedTree[] }>

async function build(layout: ModelLayout, record: FolderRecord, { staged, trees }: NewFolder): Promise<void> {
  const files = filesOf(staged)
  const directories = new Set([staged, files])
  await mkdir(files, { recursive: true, mode: 0o700 })
  for (const { filename, digest } of record.files) {
    const path = join(files, filename)
    for (let at = dirname(path); at.length > files.length; at = dirname(at)) directories.add(at)
    await mkdir(dirname(path), { recursive: true, mode: 0o700 })
    await linkContent(layout.blob(digest), path)
  }
  for (const { archive, root, folder } of trees) {
    const into = join(files, folder)
    for (let at = into; at.length > files.length; at = dirname(at)) directories.add(at)
    await mkdir(into, { recursive: true, mode: 0o700 })
    for (const directory of await moveTree({ from: root, into, archive })) directories.add(directory)
  }
  const path = join(staged, recordIn)
  await writeFile(path, JSON.stringify(record), { mode: 0o600 })
  await syncPath(path)
  for (const directory of [...directories].toReversed()) await syncPath(directory)
}

/** Moves the entries of a directory into another one, where none of them may exist except as a directory. Returns all directories. */
async function moveTree({ from, into, archive }: { from: string; into: string; archive: string }): Promise<string[]> {
  const directories = [into]
  for (const entry of await readdir(from, { withFileTypes: true })) {
    const [source, target] = [join(from, entry.name), join(into, entry.name)]
    const existing = await lstat(target).catch(ifMissing(null))
    if (existing !== null && !(entry.isDirectory() && existing.isDirectory()))
      throw new FleetError({
        code: 'integrity',
        retry: 'never',
        message: `${archive} contains ${JSON.stringify(entry.name)}, which another file of the model is named`,
      })
    if (!entry.isDirectory()) await rename(source, target)
    else {
      if (existing === null) await mkdir(target, { mode: 0o700 })
      directories.push(...(await moveTree({ from: source, into: target, archive })))
    }
  }
  return directories
}

/** Links content under a second name, read-only: a backend's write would damage it for every model that uses it. */
async function linkContent(blob: string, path: string): Promise<void> {
  await chmod(blob, 0o400)
  try {
    await link(blob, path)
  } catch (error) {
    if (!['EXDEV', 'EPERM', 'EMLINK', 'ENOTSUP', 'EOPNOTSUPP'].includes(String(errorCode(error)))) throw error
    await copyFile(blob, path, constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE)
    await syncPath(path)
  }
}

async function readFolder(path: string): Promise<ModelFolder | null> {
  try {
    const { mtimeMs } = await stat(join(path, recordIn))
    const record = FolderRecord.safeParse(JSON.parse(await readFile(join(path, recordIn), 'utf8')))
    return record.success ? { path, record: record.data, usedAt: mtimeMs } : null
  } catch {
    return null
  }
}

async function childrenOf(directory: string): Promise<string[]> {
  try {
    return (await readdir(directory)).map((name) => join(directory, name))
  } catch (error) {
    if (errorCode(error) === 'ENOENT' || errorCode(error) === 'ENOTDIR') return []
    throw error
  }
}
