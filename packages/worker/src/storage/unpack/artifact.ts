// Checks that a tree is a backend: it has a `backend.json` that states how to start it, or a `run.sh`. The program is a
// regular, executable file inside the tree, or the worker's own Node.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseJson } from '@muster/host'
import { defaultUnpackLimits } from '@muster/protocol'
import { z } from 'zod'
import { quote, refusal } from './refusal.ts'
import { parseEntryPath } from './entry-path.ts'
import type { DirectoryNode, TreeNode } from './tree-nodes.ts'

const largestDescriptionBytes = 64 * 1024

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

/** Null for a LocalAI backend, which has only a `run.sh`. */
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
