// Removes what no model needs any more: folders of earlier revisions, content that no folder names, downloads that nobody
// continues. What is held, or was while this ran, stays; so does what was fetched or uploaded within the last day, since
// the folder that names it may still be to come. It can stop anywhere: everything is removed by itself, in one step.
import { renameSync } from 'node:fs'
import { readdir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { type Clock, errorCode, type Log, newId, type Step } from '@muster/host'
import { Digest } from '@muster/protocol'
import type { Holds } from '../storage/locks.ts'
import { partialKeptMs } from '../storage/layout.ts'
import type { FoundFolder, ModelFolders } from './folders.ts'
import { modelUploadsPrefix, type ModelLayout } from './layout.ts'

export interface CollectContentDeps {
  readonly layout: ModelLayout
  readonly folders: ModelFolders
  readonly holds: Holds
  /** Whether files are used from this folder. */
  readonly isFolderUsed: (path: string) => boolean
  readonly clock: Clock
  readonly log: Log
  readonly step: Step
}

const unnamedKeptMs = 24 * 3600_000

/** `freed`: what a model named that is removed. It goes now, however new it is. */
export async function collectContent(deps: CollectContentDeps, freed: ReadonlySet<Digest> = new Set()): Promise<void> {
  const { layout, folders, holds, clock, log, step } = deps
  // Before the folders are read: whoever places one from here on held its content at some time, and it stays.
  using held = holds.observe()
  const going = new Set(freed)
  for (const folder of outdated(await readAll(deps), deps)) {
    await folders.removeFolder(folder.path)
    for (const { digest } of folder.record.files) going.add(digest)
  }
  const left = await folders.list()
  if (!left.isComplete) return log.warn('a folder of a model has no readable record; content is not cleaned up', { root: layout.root })
  const named = new Set(left.found.flatMap(({ record }) => record.files.map(({ digest }) => digest)))
  /** What is gone meanwhile is as good as new: it is nothing to be removed. */
  const age = async (path: string): Promise<number> => clock.now() - ((await stat(path).catch(() => null))?.mtimeMs ?? Infinity)
  /** Looks and takes away without a pause in between, so that whoever takes a hold finds it there, or gone for good. */
  const remove = async (path: string, digest: Digest | null): Promise<void> => {
    if (digest !== null && held.has(digest)) return
    const gone = join(layout.staging, newId())
    try {
      renameSync(path, gone)
    } catch (error) {
      // Somebody else has just made something of it: a download that is whole, say.
      if (errorCode(error) === 'ENOENT') return
      throw error
    }
    await step('W.gc.mid')
    await rm(gone, { force: true })
  }
  for (const digest of await digestsIn(layout.uploads))
    if ((await age(layout.upload(digest))) > unnamedKeptMs) await remove(layout.upload(digest), null)
  const uploaded = new Set([...(await digestsIn(layout.uploads)), ...(await uploadedForModels(layout))])
  for (const digest of await digestsIn(layout.blobs)) {
    if (named.has(digest) || uploaded.has(digest)) continue
    if (going.has(digest) || (await age(layout.blob(digest))) > unnamedKeptMs) await remove(layout.blob(digest), digest)
  }
  for (const name of await readdir(layout.incoming)) {
    const path = join(layout.incoming, name)
    if ((await age(path)) > partialKeptMs) await remove(path, Digest.safeParse(`sha256:${name}`).data ?? null)
  }
}

const readAll = async ({ folders }: CollectContentDeps): Promise<readonly FoundFolder[]> => (await folders.list()).found

/** Of each model the revision that was used last stays; the others while they are used, and for a day in case it goes back. */
function outdated(found: readonly FoundFolder[], { isFolderUsed, clock }: CollectContentDeps): readonly FoundFolder[] {
  const latest = new Map<string, FoundFolder>()
  for (const folder of found) {
    const { model } = folder.record
    if (folder.usedAt >= (latest.get(model)?.usedAt ?? -Infinity)) latest.set(model, folder)
  }
  return found.filter(
    (folder) => latest.get(folder.record.model) !== folder && !isFolderUsed(folder.path) && clock.now() - folder.usedAt > unnamedKeptMs,
  )
}

async function uploadedForModels({ uploads }: ModelLayout): Promise<Digest[]> {
  const directories = (await readdir(uploads)).filter((name) => name.startsWith(modelUploadsPrefix))
  return (await Promise.all(directories.map((name) => digestsIn(join(uploads, name))))).flat()
}

export async function digestsIn(directory: string): Promise<Digest[]> {
  return (await readdir(directory)).flatMap((name) => Digest.safeParse(`sha256:${name}`).data ?? [])
}
