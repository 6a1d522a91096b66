// The end of building a tree, wherever it came from: links that stay inside, something that can be started, a manifest,
// and all of it on the disk.
import { join } from 'node:path'
import { checkArtifact } from '../unpack/artifact.ts'
import { checkLinks } from '../unpack/resolve-links.ts'
import { syncPath, syncTree } from '../unpack/sync-tree.ts'
import { writeManifest, type TreeLayer, type TreeSummary } from '../unpack/tree-manifest.ts'
import { findCollisions, walkNodes, type DirectoryNode } from '../unpack/tree-node.ts'
import { withSigns } from '../while-waiting.ts'
import type { JobContext } from './job.ts'

const collisionsShown = 20

interface BuiltTree {
  readonly staging: string
  readonly root: DirectoryNode
  readonly bytes: number
  readonly layers: readonly TreeLayer[]
}

export async function finishTree({ staging, root, bytes, layers }: BuiltTree, { signal, sign }: JobContext): Promise<TreeSummary> {
  const directory = join(staging, 'root')
  checkLinks(root)
  const backend = checkArtifact(root, directory)
  const entries = walkNodes(root).reduce((count) => count + 1, 0)
  const summary: TreeSummary = { format: 1, layers: [...layers], entries, bytes, backend, collisions: findCollisions(root, collisionsShown) }
  writeManifest(join(staging, 'manifest'), summary, root)
  await withSigns(sign, () => syncTree({ directory, root, entries }, signal))
  await syncPath(staging)
  return summary
}
