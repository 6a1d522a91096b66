// Which PostgreSQL programs a home uses: its own copy. The newest that can read its cluster, from the installed package or from an
// earlier copy: a Muster whose package is of another major version, or that has none, still opens what an older one made.
import { readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Log } from '@muster/host'
import { copyServer, removePartialCopies } from './copy-server.ts'
import { readIfThere } from './private-file.ts'
import { refusal } from './refusal.ts'
import { embeddedPackageName, majorOf, type ServerPackage } from './server-package.ts'

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
    log.info('the database keeps the server that made it', { version: kept })
    return { dir: join(home, prefix + kept), major: cluster }
  }
  throw refusal(
    'incompatible',
    available === null
      ? `there is no embedded database for ${process.platform} on ${process.arch} (the npm package ${embeddedPackageName} is not installed): ` +
          'give Muster a PostgreSQL 15 to 18 with --database-url'
      : `the database in ${home} was made by PostgreSQL ${cluster}, whose programs are gone; this Muster brings PostgreSQL ${available.major}`,
  )
}

/** Copies that the running server has replaced. */
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
