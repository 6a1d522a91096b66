// The manifest of a tree: one line of JSON with a summary, then one line per entry. It lies beside the tree and is placed
// and removed with it.
import { closeSync, createReadStream, fsyncSync, openSync, writeFileSync } from 'node:fs'
import { Digest } from '@muster/protocol'
import { z } from 'zod'
import { BackendDescription } from './artifact.ts'
import { walkNodes, type DirectoryNode, type PlacedNode } from './tree-nodes.ts'

export const TreeLayer = z.object({ digest: Digest, mediaType: z.string(), diffId: Digest.nullable() })
export type TreeLayer = z.infer<typeof TreeLayer>

export const TreeSummary = z.object({
  format: z.literal(1),
  /** Empty for an imported directory, which can be mended only from its source. */
  layers: z.array(TreeLayer),
  entries: z.number(),
  bytes: z.number(),
  backend: BackendDescription.nullable(),
  /** Names that differ only in case or composition. */
  collisions: z.array(z.string()),
})
export type TreeSummary = z.infer<typeof TreeSummary>

export const ManifestEntry = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('directory'), path: z.string(), mode: z.number() }),
  z.object({ kind: z.literal('file'), path: z.string(), mode: z.number(), size: z.number(), sha256: z.string() }),
  z.object({ kind: z.literal('link'), path: z.string(), target: z.string() }),
])
export type ManifestEntry = z.infer<typeof ManifestEntry>

const batchCharacters = 512 * 1024

export function writeManifest(path: string, summary: TreeSummary, root: DirectoryNode): void {
  const fd = openSync(path, 'wx', 0o600)
  try {
    let batch = `${JSON.stringify(summary)}\n`
    for (const placed of walkNodes(root)) {
      batch += `${JSON.stringify(entryOf(placed))}\n`
      if (batch.length < batchCharacters) continue
      writeFileSync(fd, batch)
      batch = ''
    }
    if (batch !== '') writeFileSync(fd, batch)
    fsyncSync(fd)
  } finally {
    closeSync(fd)
  }
}

function entryOf({ path, node }: PlacedNode): ManifestEntry {
  switch (node.kind) {
    case 'directory':
      return { kind: 'directory', path, mode: node.mode }
    case 'file':
      return { kind: 'file', path, mode: node.mode, size: node.size, sha256: node.sha256 }
    case 'link':
      return { kind: 'link', path, target: node.target }
  }
}

/** Throws when the file is not a complete manifest. */
export async function* readManifest(path: string): AsyncGenerator<ManifestEntry> {
  let expected: number | null = null
  for await (const line of linesOf(path)) {
    const json: unknown = JSON.parse(line)
    if (expected === null) expected = TreeSummary.parse(json).entries
    else {
      expected--
      yield ManifestEntry.parse(json)
    }
  }
  if (expected !== 0) throw new Error(`${path} is not complete`)
}

export async function readSummary(path: string): Promise<TreeSummary> {
  for await (const line of linesOf(path)) return TreeSummary.parse(JSON.parse(line))
  throw new Error(`${path} is empty`)
}

/** Not node:readline, which also ends lines at characters that a name may contain (U+2028). */
async function* linesOf(path: string): AsyncGenerator<string> {
  let rest = ''
  for await (const text of createReadStream(path, { encoding: 'utf8', highWaterMark: 256 * 1024 })) {
    const lines = (rest + String(text)).split('\n')
    rest = lines.pop() ?? ''
    yield* lines
  }
  if (rest !== '') throw new Error(`${path} ends within a line`)
}
