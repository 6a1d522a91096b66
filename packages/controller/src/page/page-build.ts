// Builds the web UI once for all controllers of a clone (.cache/web, keyed by a hash of the sources), or in the data directory
// when the clone is read-only. The build runs in a separate process after the start.
import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdir, readdir, readFile, rename, rm, stat, utimes } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { errorCode, newId } from '@muster/host'

export interface PageBuildDeps {
  /** The clone: packages/web and packages/protocol are below it. */
  readonly root: string
  /** Directories of builds; the first writable one is used. A clone may belong to another user. */
  readonly caches: readonly string[]
}

/** Older builds are kept, because a controller of the previous version may still serve one. */
const keptBuilds = 3
const unfinishedPrefix = 'unfinished-'
const longestBuildMs = 600_000

/** Returns the directory of the build, and builds it first if necessary. */
export async function buildPage({ root, caches }: PageBuildDeps, signal: AbortSignal): Promise<string> {
  const name = await hashSources(root)
  for (const cache of caches) {
    const directory = join(cache, name)
    if (!(await isThere(directory))) continue
    // Marks it as used: old builds are removed by this time.
    await utimes(directory, new Date(), new Date()).catch(() => undefined)
    return directory
  }
  const problems: unknown[] = []
  for (const cache of caches) {
    const unfinished = join(cache, `${unfinishedPrefix}${newId()}`)
    try {
      await mkdir(unfinished, { recursive: true })
    } catch (error) {
      problems.push(error)
      continue
    }
    return await buildIn(cache, { root, name, unfinished, signal })
  }
  throw explain(problems.at(-1))
}

interface Build {
  readonly root: string
  readonly name: string
  readonly unfinished: string
  readonly signal: AbortSignal
}

async function buildIn(cache: string, { root, name, unfinished, signal }: Build): Promise<string> {
  const directory = join(cache, name)
  try {
    await promisify(execFile)(process.execPath, [join(root, 'packages/web/build.ts'), unfinished], { signal })
    await rename(unfinished, directory)
  } catch (error) {
    // Another controller finished the same build first.
    if (!(await isThere(directory))) throw explain(error)
  } finally {
    await rm(unfinished, { recursive: true, force: true })
  }
  await removeOld(cache)
  return directory
}

async function hashSources(root: string): Promise<string> {
  const hash = createHash('sha256')
  const packages = join(root, 'packages')
  const files = [join(root, 'package-lock.json')]
  for (const part of ['web/src', 'web/public', 'protocol/src']) files.push(...(await filesBelow(join(packages, part))))
  for (const name of ['index.html', 'build.ts', 'vite.config.ts', 'package.json']) files.push(join(packages, 'web', name))
  for (const file of files.toSorted())
    hash
      .update(`${file.slice(root.length)}\0`)
      .update(await readFile(file))
      .update('\0')
  return hash.digest('hex').slice(0, 32)
}

async function filesBelow(directory: string): Promise<string[]> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true })
  return entries.filter((entry) => entry.isFile() && !entry.name.includes('.test.')).map((entry) => join(entry.parentPath, entry.name))
}

const isThere = async (directory: string): Promise<boolean> =>
  (await stat(join(directory, 'index.html')).catch(() => null))?.isFile() ?? false

/** Removes the least recently used builds, and leftovers of killed ones. */
async function removeOld(cache: string): Promise<void> {
  const entries = await Promise.all(
    (await readdir(cache)).map(async (name) => {
      const path = join(cache, name)
      return { path, isFinished: !name.startsWith(unfinishedPrefix), at: (await stat(path).catch(() => null))?.mtimeMs ?? 0 }
    }),
  )
  const builds = entries.filter(({ isFinished }) => isFinished).toSorted((one, other) => other.at - one.at)
  const leftovers = entries.filter(({ isFinished, at }) => !isFinished && at < Date.now() - longestBuildMs)
  for (const { path } of [...builds.slice(keptBuilds), ...leftovers]) await rm(path, { recursive: true, force: true })
}

/** The compiler's message is on standard error. */
function explain(error: unknown): Error {
  const stderr = typeof error === 'object' && error !== null && 'stderr' in error ? String(error.stderr).trim() : ''
  return new Error(`cannot build the web UI (${errorCode(error) ?? 'failed'}): ${stderr.slice(-2_000) || String(error)}`, {
    cause: error,
  })
}
