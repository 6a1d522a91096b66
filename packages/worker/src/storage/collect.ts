// Removes what nobody needs: trees that no record names, blobs that no kept tree was made of, downloads that nobody
// continues. Needed is what a record names (the current and the previous version of each backend), what an install that
// is not at its end wants (pulls.ts), and what is held, or was while this ran. It can stop anywhere: everything is removed
// by itself, in one step, and trees before their blobs.
import { renameSync } from 'node:fs'
import { readdir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { newId, type Clock, type Log } from '@muster/host'
import { Digest } from '@muster/protocol'
import type { Activations, Pulls } from './records.ts'
import type { Holds } from './locks.ts'
import { partialKeptMs, type Layout } from './layout.ts'
import { readTree } from './trees.ts'
import { syncPath } from './unpack/sync.ts'

export interface GcReport {
  readonly trees: number
  readonly blobs: number
  readonly incoming: number
  /** Of blobs and downloads; those of trees are not counted. */
  readonly bytes: number
}

export interface CollectDeps {
  readonly layout: Layout
  readonly activations: Activations
  readonly pulls: Pulls
  readonly holds: Holds
  readonly clock: Clock
  readonly log: Log
  readonly step: (name: string) => Promise<void> | void
}

export async function collect(deps: CollectDeps, signal: AbortSignal): Promise<GcReport> {
  const { layout, activations, holds, clock, step } = deps
  // Before the records are read: whoever is activated or unpacked from here on was held at some time, and stays.
  using held = holds.observe()
  const report = { trees: 0, blobs: 0, incoming: 0, bytes: 0 }
  const { found, isComplete } = await activations.all()
  if (!isComplete) return report
  const keptTrees = new Set(found.flatMap(({ current, previous }) => [current.digest, ...(previous === null ? [] : [previous.digest])]))
  /** Looks and takes away without a pause in between, so that whoever takes a hold finds the thing there, or gone for good. */
  const removeUnlessHeld = async (path: string, digest: Digest): Promise<boolean> => {
    signal.throwIfAborted()
    if (held.has(digest)) return false
    const gone = join(layout.staging, newId())
    renameSync(path, gone)
    await step('W.gc.mid')
    await rm(gone, { recursive: true, force: true })
    return true
  }

  for (const tree of await digestsIn(layout.trees)) {
    if (!keptTrees.has(tree) && (await removeUnlessHeld(layout.tree(tree), tree))) report.trees++
  }
  // Trees are gone for good before the blobs that they could be mended from.
  await syncPath(layout.trees)
  const keptBlobs = await findNeededBlobs(deps)
  if (keptBlobs === null) return report
  for (const directory of [layout.blobs, layout.incoming]) {
    for (const digest of await digestsIn(directory)) {
      const path = join(directory, digest.slice('sha256:'.length))
      const file = await stat(path).catch(() => null)
      if (file === null || (directory === layout.incoming ? clock.now() - file.mtimeMs < partialKeptMs : keptBlobs.has(digest))) continue
      if (!(await removeUnlessHeld(path, digest))) continue
      report[directory === layout.blobs ? 'blobs' : 'incoming']++
      report.bytes += file.size
    }
  }
  return report
}

/** Null when a tree does not say what it was made of: then all blobs stay, it will be mended from them. */
async function findNeededBlobs({ layout, pulls, log }: CollectDeps): Promise<ReadonlySet<Digest> | null> {
  const kept = new Set(await pulls.neededBlobs())
  for (const tree of await digestsIn(layout.trees)) {
    const summary = await readTree(layout, tree)
    if (summary === null) {
      log.warn('a tree has no readable manifest; blobs are not cleaned up', { tree })
      return null
    }
    for (const { digest } of summary.layers) kept.add(digest)
  }
  return kept
}

async function digestsIn(directory: string): Promise<Digest[]> {
  return (await readdir(directory)).flatMap((name) => Digest.safeParse(`sha256:${name}`).data ?? [])
}
