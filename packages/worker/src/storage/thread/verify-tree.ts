// Compares a tree with its manifest, and mends it from a fresh copy. Mending replaces only what differs, each by one
// rename: a process that runs from the tree keeps the files it has open, and a crash leaves a tree that is no worse.
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { chmod, lstat, mkdir, readdir, readlink, rename } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { errorCode } from '@muster/host'
import { syncPath } from '../unpack/sync.ts'
import { readManifest, type ManifestEntry } from '../unpack/tree-manifest.ts'
import type { JobContext } from './jobs.ts'

const mostProblems = 20

/**
 * What is wrong with the tree, the first few; nothing when it is intact. What lies beside the files of the manifest is
 * not: backends keep compiled files and the like there (`__pycache__`), and one that runs would be mended for ever.
 */
export async function verifyTree({ directory }: { readonly directory: string }, { signal, sign }: JobContext): Promise<readonly string[]> {
  const problems: string[] = []
  try {
    for await (const entry of readManifest(join(directory, 'manifest'))) {
      signal.throwIfAborted()
      const problem = await findDifference(join(directory, 'root'), entry, sign)
      if (problem !== null) problems.push(`${entry.path} ${problem}`)
      if (problems.length >= mostProblems) return problems
    }
  } catch (error) {
    signal.throwIfAborted()
    problems.push(`the manifest or the tree can't be read: ${error instanceof Error ? error.message : String(error)}`)
  }
  return problems
}

/** What was mended. Also what lies beside goes: whoever mends wants the tree as it was fetched. */
export async function mendTree(
  { fresh, directory }: { readonly fresh: string; readonly directory: string },
  { signal, sign }: JobContext,
): Promise<readonly string[]> {
  const root = join(directory, 'root')
  const gone = join(fresh, 'gone')
  await mkdir(gone)
  await replaceEntry(await isDirectory(root), { from: join(fresh, 'root'), to: root, gone: join(gone, 'root') })
  const mended: string[] = []
  const known = new Set<string>()
  for await (const entry of readManifest(join(fresh, 'manifest'))) {
    signal.throwIfAborted()
    known.add(entry.path)
    if ((await findDifference(root, entry, sign)) === null) continue
    const to = join(root, entry.path)
    if (entry.kind === 'directory' && (await isDirectory(to))) await chmod(to, entry.mode)
    else await replaceEntry(false, { from: join(fresh, 'root', entry.path), to, gone: join(gone, String(mended.length)) })
    mended.push(entry.path)
  }
  for await (const path of walk(root)) {
    if (known.has(path)) continue
    await rename(join(root, path), join(gone, `extra-${mended.length}`))
    mended.push(path)
  }
  await rename(join(fresh, 'manifest'), join(directory, 'manifest'))
  await syncPath(directory)
  return mended.slice(0, mostProblems)
}

async function replaceEntry(isFine: boolean, { from, to, gone }: { from: string; to: string; gone: string }): Promise<void> {
  if (isFine) return
  // A file takes the place of a file in one step; only what rename can't replace is moved away before.
  await rename(from, to).catch(async (error: unknown) => {
    if (!['EISDIR', 'ENOTDIR', 'ENOTEMPTY', 'EEXIST'].includes(String(errorCode(error)))) throw error
    await rename(to, gone)
    await rename(from, to)
  })
  await syncPath(dirname(to))
}

async function isDirectory(path: string): Promise<boolean> {
  const found = await lstat(path).catch(() => null)
  return found?.isDirectory() ?? false
}

async function findDifference(root: string, entry: ManifestEntry, sign: () => void): Promise<string | null> {
  sign()
  const path = join(root, entry.path)
  const found = await lstat(path).catch(() => null)
  if (found === null) return 'is missing'
  switch (entry.kind) {
    case 'directory':
      if (!found.isDirectory()) return 'is no directory'
      return (found.mode & 0o7777) === entry.mode ? null : 'has another mode'
    case 'link':
      return found.isSymbolicLink() && (await readlink(path)) === entry.target ? null : 'is another link'
    case 'file':
      if (!found.isFile()) return 'is no file'
      if ((found.mode & 0o7777) !== entry.mode) return 'has another mode'
      return found.size === entry.size && (await sha256Of(path, sign)) === entry.sha256 ? null : 'has other content'
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

/** Without following links; a directory that is not known is named itself and not looked into twice. */
async function* walk(root: string, prefix = ''): AsyncGenerator<string> {
  for (const found of await readdir(join(root, prefix), { withFileTypes: true })) {
    const path = prefix + found.name
    yield path
    if (found.isDirectory() && (await isDirectory(join(root, path)))) yield* walk(root, `${path}/`)
  }
}
