// The manifest of a tree: one line of JSON with a summary, then one line per entry. It lies beside the tree and is placed
// and removed with it. The summary has the description of the backend, for which the tree is checked.
import { closeSync, createReadStream, fsyncSync, openSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { z } from 'zod'
import { parseJson } from '@muster/host'
import { defaultUnpackLimits, Digest } from '@muster/protocol'
import { quote, refusal } from './refusal.ts'
import { type DirectoryNode, parseEntryPath, type PlacedNode, type TreeNode, walkNodes } from './tree-nodes.ts'

/** `backend.json`. */
export const BackendDescription = z.object({
  name: z.string().min(1).max(128),
  version: z.string().max(256).default(''),
  driver: z.enum(['openai-http', 'localai-grpc']),
  command: z.array(z.string().min(1).max(4096)).min(1).max(256),
  health_path: z.string().startsWith('/').max(1024).default('/health'),
  env: z.record(z.string().regex(/^[A-Za-z_][A-Za-z0-9_]{0,127}$/), z.string().max(32_768)).default({}),
})
export type BackendDescription = z.infer<typeof BackendDescription>

export const TreeLayer = z.object({ digest: Digest, mediaType: z.string(), diffId: Digest.nullable() })
export type TreeLayer = z.infer<typeof TreeLayer>

export const TreeSummary = z.object({
  format: z.literal(1),
  /** Empty for an imported directory, which can be repaired only from its source. */
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

const largestDescriptionBytes = 64 * 1024

/**
 * Checks that a tree is a backend: it has a `backend.json` that states how to start it, or a `run.sh`. The program is a regular,
 * executable file inside the tree, or the worker's own Node. Null for a LocalAI backend, which has only a `run.sh`.
 */
export function checkArtifact(root: DirectoryNode, directory: string): BackendDescription | null {
  const found = root.children.get('backend.json')
  if (found === undefined) {
    checkExecutable(root, 'run.sh', 'it has neither backend.json nor')
    return null
  }
  if (found.kind !== 'file' || found.size > largestDescriptionBytes) throw refusal('artifact', 'backend.json is not a file, or too large')
  const description = parse(readFileSync(join(directory, 'backend.json'), 'utf8'))
  const program = description.command[0] ?? ''
  if (program !== '{node}') checkExecutable(root, program, 'backend.json names')
  return description
}

function parse(text: string): BackendDescription {
  const json = parseJson(text)
  if (json === undefined) throw refusal('artifact', 'backend.json is not JSON')
  const parsed = BackendDescription.safeParse(json)
  if (!parsed.success) throw refusal('artifact', `backend.json is not valid: ${z.prettifyError(parsed.error).slice(0, 1000)}`)
  return parsed.data
}

function checkExecutable(root: DirectoryNode, program: string, why: string): void {
  const { parts } = parseEntryPath(program, defaultUnpackLimits)
  let at: TreeNode | undefined = root
  for (const part of parts) at = at?.kind === 'directory' ? at.children.get(part) : undefined
  if (at?.kind !== 'file') throw refusal('artifact', `${why} ${quote(program)} as a regular file inside the tree`)
  if ((at.mode & 0o111) === 0) throw refusal('artifact', `${quote(program)} is not executable`)
}
