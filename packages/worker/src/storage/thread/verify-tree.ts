// Compares a tree with its manifest, and repairs it from a fresh copy. Repairing replaces only entries that differ, each by one
// rename: a process that runs from the tree keeps its open files, and a crash leaves the tree no worse than before.
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { chmod, lstat, mkdir, readdir, readlink, rename } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { errorCode, errorMessage } from '@muster/host'
import { syncPath } from '../unpack/sync.ts'
import { readManifest, type ManifestEntry } from '../unpack/tree-manifest.ts'
import type { JobContext, VerifyJob } from './jobs.ts'

const mostProblems = 20

/**
 * Returns the first problems, or none when the tree is intact. Extra files are no problem: backends keep compiled files
 * (`__pycache__`) beside their own, and a running one would be repaired forever.
 */
export async function verifyTree({ directory, depth }: VerifyJob, { signal, sign }: JobContext): Promise<readonly string[]> {
  const problems: string[] = []
  try {
    for await (const entry of readManifest(join(directory, 'manifest'))) {
      signal.throwIfAborted()
      const problem = await findDifference({ root: join(directory, 'root'), entry, depth }, sign)
      if (problem !== null) problems.push(`${entry.path} ${problem}`)
      if (problems.length >= mostProblems) return problems
    }
  } catch (error) {
    signal.throwIfAborted()
    problems.push(`cannot read the manifest or the tree: ${errorMessage(error)}`)
  }
  return problems
}

/** Returns the first repaired paths. Extra files are removed too, so that the tree is as it was fetched. */
export async function repairTree(
  { fresh, directory }: { readonly fresh: string; readonly directory: string },
  { signal, sign }: JobContext,
): Promise<readonly string[]> {
  const root = join(directory, 'root')
  const removed = join(fresh, 'removed')
  await mkdir(removed)
  if (!(await isDirectory(root))) await replaceEntry({ from: join(fresh, 'root'), to: root, removed: join(removed, 'root') })
  const repaired: string[] = []
  const known = new Set<string>()
  for await (const entry of readManifest(join(fresh, 'manifest'))) {
    signal.throwIfAborted()
    known.add(entry.path)
    if ((await findDifference({ root, entry, depth: 'content' }, sign)) === null) continue
    const to = join(root, entry.path)
    if (entry.kind === 'directory' && (await isDirectory(to))) await chmod(to, entry.mode)
    else await replaceEntry({ from: join(fresh, 'root', entry.path), to, removed: join(removed, String(repaired.length)) })
    repaired.push(entry.path)
  }
  for await (const path of walk(root)) {
    if (known.has(path)) continue
    await rename(join(root, path), join(removed, `extra-${repaired.length}`))
    repaired.push(path)
  }
  await rename(join(fresh, 'manifest'), join(directory, 'manifest'))
  await syncPath(directory)
  return repaired.slice(0, mostProblems)
}

async function replaceEntry({ from, to, removed }: { from: string; to: string; removed: string }): Promise<void> {
  // A file replaces a file in one rename; only an entry that rename cannot replace is moved away first.
  await rename(from, to).catch(async (error: unknown) => {
    if (!['EISDIR', 'ENOTDIR', 'ENOTEMPTY', 'EEXIST'].includes(String(errorCode(error)))) throw error
    await rename(to, removed)
    await rename(from, to)
  })
  await syncPath(dirname(to))
}

async function isDirectory(path: string): Promise<boolean> {
  const found = await lstat(path).catch(() => null)
  return found?.isDirectory() ?? false
}

type Comparison = Readonly<{ root: string; entry: ManifestEntry; depth: VerifyJob['depth'] }>

async function findDifference({ root, entry, depth }: Comparison, sign: () => void): Promise<string | null> {
  sign()
  const path = join(root, entry.path)
  const found = await lstat(path).catch(() => null)
  if (found === null) return 'is missing'
  switch (entry.kind) {
    case 'directory':
      if (!found.isDirectory()) return 'is not a directory'
      return (found.mode & 0o7777) === entry.mode ? null : 'has another mode'
    case 'link':
      return found.isSymbolicLink() && (await readlink(path)) === entry.target ? null : 'is another link'
    case 'file':
      if (!found.isFile()) return 'is not a file'
      if ((found.mode & 0o7777) !== entry.mode) return 'has another mode'
      if (found.size !== entry.size) return 'has another size'
      return depth === 'entries' || (await sha256Of(path, sign)) === entry.sha256 ? null : 'has other content'
  }
}

async function sha256Of(path: string, sign: () => void): Promise<string | null> {
  const hash = createHash('sha256')
  try {
    for await (const chunk of createReadStream(path, { highWaterMark: 1024 * 1024 })) {
      hash.update(chunk as Buffer)
      sign()
    }
  } catch {
    return null
  }
  return hash.digest('hex')
}

/** Does not follow links. An extra directory that the caller moved away meanwhile is not entered. */
async function* walk(root: string, prefix = ''): AsyncGenerator<string> {
  for (const found of await readdir(join(root, prefix), { withFileTypes: true })) {
    const path = prefix + found.name
    yield path
    if (found.isDirectory() && (await isDirectory(join(root, path)))) yield* walk(root, `${path}/`)
  }
}
