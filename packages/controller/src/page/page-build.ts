// The web page as files. It is built once for all controllers of a clone (.cache/web, by what goes in), or in the data
// directory where the clone can't be written to; in a process of its own and after the start, which it would hold up.
import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdir, readdir, readFile, rename, rm, stat, utimes } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { errorCode, newId } from '@muster/host'

export interface PageBuildDeps {
  /** The clone: packages/web and packages/protocol are below it. */
  readonly root: string
  /** Where builds are; it is built in the first that can be written to. A clone may belong to somebody else. */
  readonly caches: readonly string[]
}

/** Older builds that are kept: a controller of the version before may still serve one. */
const keptBuilds = 3
const unfinishedPrefix = 'unfinished-'
const longestBuildMs = 600_000

/** Where the page is, built now unless it was before. */
export async function buildPage({ root, caches }: PageBuildDeps, signal: AbortSignal): Promise<string> {
  const name = await hashSources(root)
  for (const cache of caches) {
    const directory = join(cache, name)
    if (!(await isThere(directory))) continue
    // Used last: others forget those that are not.
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
    // Another controller was quicker, and what it made is the same.
    if (!(await isThere(directory))) throw explain(error)
  } finally {
    await rm(unfinished, { recursive: true, force: true })
  }
  await forgetOld(cache)
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

/** Those of other versions, but the last used; and what a killed build left, which no build takes so long to finish. */
async function forgetOld(cache: string): Promise<void> {
  const entries = await Promise.all(
    (await readdir(cache)).map(async (name) => {
      const path = join(cache, name)
      return { path, isFinished: !name.startsWith(unfinishedPrefix), at: (await stat(path).catch(() => null))?.mtimeMs ?? 0 }
    }),
  )
  const builds = entries.filter(({ isFinished }) => isFinished).toSorted((one, other) => other.at - one.at)
  const left = entries.filter(({ isFinished, at }) => !isFinished && at < Date.now() - longestBuildMs)
  for (const { path } of [...builds.slice(keptBuilds), ...left]) await rm(path, { recursive: true, force: true })
}

/** A compiler's words are on its standard error; that the program ended with 1 helps nobody. */
function explain(error: unknown): Error {
  const said = typeof error === 'object' && error !== null && 'stderr' in error ? String(error.stderr).trim() : ''
  return new Error(`the web page could not be built (${errorCode(error) ?? 'failed'}): ${said.slice(-2_000) || String(error)}`, {
    cause: error,
  })
}
