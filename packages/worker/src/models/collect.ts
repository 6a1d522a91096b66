// Garbage collection of model files: removes folders of earlier revisions, content that no folder names, and downloads that
// no stage continues. Content held at any time during the collection stays, and so does content fetched or uploaded within
// the last day, because its folder may not be placed yet. It may be killed at any point: each removal is one rename.
import { renameSync } from 'node:fs'
import { readdir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { ifMissing, newId, type Clock, type Log, type Step } from '@muster/host'
import { Digest } from '@muster/protocol'
import type { Holds } from '../storage/locks.ts'
import { digestsIn, partialKeptMs } from '../storage/records.ts'
import type { ModelFolder, ModelFolders } from './folders.ts'
import { modelUploadsPrefix, type ModelLayout } from './layout.ts'

export interface CollectContentDeps {
  readonly layout: ModelLayout
  readonly folders: ModelFolders
  readonly holds: Holds
  /** True while a replica uses files of this folder. */
  readonly isFolderUsed: (path: string) => boolean
  readonly clock: Clock
  readonly log: Log
  readonly step: Step
}

const unnamedKeptMs = 24 * 3600_000

/** `freed` is the content of a removed model, which is removed however new it is. */
export async function collectContent(deps: CollectContentDeps, freed: ReadonlySet<Digest> = new Set()): Promise<void> {
  const { layout, folders, holds, clock, log, step } = deps
  // Observe holds before reading folders: the content of a folder placed from here on is held at some time, and stays.
  using held = holds.observe()
  const unnamed = new Set(freed)
  for (const folder of findOutdated((await folders.list()).found, deps)) {
    await folders.removeFolder(folder.path)
    for (const { digest } of folder.record.files) unnamed.add(digest)
  }
  const remaining = await folders.list()
  if (!remaining.isComplete) return log.warn('cannot read the record of a model folder; content is not collected', { root: layout.root })
  const named = new Set(remaining.found.flatMap(({ record }) => record.files.map(({ digest }) => digest)))
  /** A file that is gone meanwhile counts as new, so that it is not removed. */
  const age = async (path: string): Promise<number> => clock.now() - ((await stat(path).catch(() => null))?.mtimeMs ?? Infinity)
  /** Checks and renames without awaiting in between, so that the taker of a new hold finds the content present or gone for good. */
  const remove = async (path: string, digest: Digest | null): Promise<void> => {
    if (digest !== null && held.has(digest)) return
    const removed = join(layout.staging, newId())
    try {
      renameSync(path, removed)
    } catch (error) {
      // The file was moved meanwhile, for example a finished download.
      return ifMissing(undefined)(error)
    }
    await step('W.gc.mid')
    await rm(removed, { force: true })
  }
  for (const digest of await digestsIn(layout.uploads))
    if ((await age(layout.upload(digest))) > unnamedKeptMs) await remove(layout.upload(digest), null)
  const uploaded = new Set([...(await digestsIn(layout.uploads)), ...(await uploadedForModels(layout))])
  for (const digest of await digestsIn(layout.blobs)) {
    if (named.has(digest) || uploaded.has(digest)) continue
    if (unnamed.has(digest) || (await age(layout.blob(digest))) > unnamedKeptMs) await remove(layout.blob(digest), digest)
  }
  for (const name of await readdir(layout.incoming)) {
    const path = join(layout.incoming, name)
    if ((await age(path)) > partialKeptMs) await remove(path, Digest.safeParse(`sha256:${name}`).data ?? null)
  }
}

/** Keeps the last used revision of each model; other revisions while they are used, and for a day in case of a rollback. */
function findOutdated(found: readonly ModelFolder[], { isFolderUsed, clock }: CollectContentDeps): readonly ModelFolder[] {
  const latest = new Map<string, ModelFolder>()
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
