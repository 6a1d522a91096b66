// Garbage collection of the backend store: removes trees that no record names, blobs that no kept tree was made of, and
// downloads that no install continues. Kept are:
//   1. the current and the previous version of each backend (records.ts)
//   2. the blobs of unfinished installs (pulls in records.ts)
//   3. every digest that was held at any time during the collection (locks.ts)
// It may be killed at any point: each removal is one rename, and trees go before their blobs.
import { renameSync } from 'node:fs'
import { rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { newId, type Clock, type Log, type Step } from '@muster/host'
import type { Digest } from '@muster/protocol'
import { type Activations, digestHex, digestsIn, type Layout, partialKeptMs, type Pulls } from './records.ts'
import type { Holds } from './locks.ts'
import { readTree } from './trees.ts'
import { syncPath } from './unpack/sync.ts'

export interface GcReport {
  readonly trees: number
  readonly blobs: number
  readonly incoming: number
  /** Size of the removed blobs and downloads; trees are not counted. */
  readonly bytes: number
}

export interface CollectDeps {
  readonly layout: Layout
  readonly activations: Activations
  readonly pulls: Pulls
  readonly holds: Holds
  readonly clock: Clock
  readonly log: Log
  readonly step: Step
}

export async function collect(deps: CollectDeps, signal: AbortSignal): Promise<GcReport> {
  const { layout, activations, holds, clock, step } = deps
  // Observe holds before reading records: a version activated or unpacked from here on is held at some time, and stays.
  using held = holds.observe()
  const report = { trees: 0, blobs: 0, incoming: 0, bytes: 0 }
  const { found, isComplete } = await activations.all()
  if (!isComplete) return report
  const keptTrees = new Set(found.flatMap(({ current, previous }) => [current.digest, ...(previous === null ? [] : [previous.digest])]))
  /** Checks and renames without awaiting in between, so that the taker of a new hold finds the digest present or gone for good. */
  const removeUnlessHeld = async (path: string, digest: Digest): Promise<boolean> => {
    signal.throwIfAborted()
    if (held.has(digest)) return false
    const removed = join(layout.staging, newId())
    renameSync(path, removed)
    await step('W.gc.mid')
    await rm(removed, { recursive: true, force: true })
    return true
  }

  for (const tree of await digestsIn(layout.trees)) {
    if (!keptTrees.has(tree) && (await removeUnlessHeld(layout.tree(tree), tree))) report.trees++
  }
  // The removal of trees is durable before the blobs go that they could be repaired from.
  await syncPath(layout.trees)
  const keptBlobs = await findNeededBlobs(deps)
  if (keptBlobs === null) return report
  for (const directory of [layout.blobs, layout.incoming]) {
    for (const digest of await digestsIn(directory)) {
      const path = join(directory, digestHex(digest))
      const file = await stat(path).catch(() => null)
      if (file === null || (directory === layout.incoming ? clock.now() - file.mtimeMs < partialKeptMs : keptBlobs.has(digest))) continue
      if (!(await removeUnlessHeld(path, digest))) continue
      report[directory === layout.blobs ? 'blobs' : 'incoming']++
      report.bytes += file.size
    }
  }
  return report
}

/** Null when the manifest of a tree is unreadable: then all blobs stay, because the tree will be repaired from them. */
async function findNeededBlobs({ layout, pulls, log }: CollectDeps): Promise<ReadonlySet<Digest> | null> {
  const kept = new Set(await pulls.neededBlobs())
  for (const tree of await digestsIn(layout.trees)) {
    const summary = await readTree(layout, tree)
    if (summary === null) {
      log.warn('cannot read the manifest of a tree; blobs are not collected', { tree })
      return null
    }
    for (const { digest } of summary.layers) kept.add(digest)
  }
  return kept
}
