// The embedded server's home. For an ordinary user: <data-dir>/postgres. Under root the server runs as another user, which may
// not be able to search the data directory (0700) or its parents: then the home is below a root-owned system directory, and
// <data-dir>/postgres/location.json names it. Names there are random, so that a recreated data directory never gets the
// database of the old one.
import { chmod, chown, lstat, mkdir, mkdtemp, readdir, readlink, rm, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { z } from 'zod'
import { type Log, newId } from '@muster/host'
import { createPrivateFile, readRecord, writePrivateFile } from './private-file.ts'
import { refusal } from './refusal.ts'
import { serverUser, type ServerUser } from './server-process.ts'

export type ServerHome = Readonly<{
  /** Below <data-dir>: files that only Muster reads (the password, the log). */
  privateDir: string
  /** The programs, the cluster and the socket; searchable for the server's user. */
  dir: string
  /** Null: the same as Muster's. */
  user: ServerUser | null
}>

export const defaultSystemBase = '/var/lib/muster-postgres'

const Location = z.object({ id: z.string().regex(/^[a-z0-9]{8,64}$/) })
const Owner = z.object({ data_dir: z.string() })

/** `dataDir` exists and contains no symbolic links. */
export async function openHome({ dataDir, systemBase, log }: { dataDir: string; systemBase: string; log: Log }): Promise<ServerHome> {
  const privateDir = join(dataDir, 'postgres')
  await mkdir(privateDir, { recursive: true, mode: 0o700 })
  const location = await readLocation({ dataDir, systemBase })
  const user = serverUser()
  if (user === null) {
    if (location !== null) throw refusal('conflict', `the data directory ${dataDir} was made by root and can only be used by root`)
    return { privateDir, dir: privateDir, user }
  }
  if (location !== null) return { privateDir, dir: await reopen({ dataDir, systemBase, id: location.id }), user }

  const owner = await ownerOf(join(privateDir, 'data'))
  if (owner !== null) throw refusal('conflict', `the database in ${privateDir} belongs to uid ${owner}: start Muster as that user`)
  return { privateDir, dir: await makeNew({ dataDir, systemBase, log }), user }
}

async function readLocation({ dataDir, systemBase }: { dataDir: string; systemBase: string }): Promise<z.infer<typeof Location> | null> {
  const privateDir = join(dataDir, 'postgres')
  return await readRecord(join(privateDir, 'location.json'), Location, async () => {
    const ids = await idsOwnedBy(dataDir, systemBase)
    const write = ids.map((id) => `write ${JSON.stringify({ id })} into it if ${join(systemBase, id)} is it`)
    return `It names the directory below ${systemBase} that holds the database: ${[...write, `remove ${privateDir} to start with an empty database`].join(', or ')}`
  })
}

/** Databases created for this data directory. */
async function idsOwnedBy(dataDir: string, systemBase: string): Promise<string[]> {
  const owned: string[] = []
  for (const id of await readdir(systemBase).catch(() => [])) {
    if ((await readOwner(join(systemBase, id)).catch(() => null)) === dataDir) owned.push(id)
  }
  return owned
}

async function makeNew({ dataDir, systemBase, log }: { dataDir: string; systemBase: string; log: Log }): Promise<string> {
  await makeBase(systemBase)
  // Never removed automatically: the data directory may be on a disk that is not mounted now.
  const orphans: string[] = []
  for (const path of (await readdir(systemBase)).toSorted().map((id) => join(systemBase, id))) {
    const owner = await readOwner(path).catch((error: unknown) => {
      log.warn('cannot read the data directory of a database; leaving it alone', { path, error })
      return null
    })
    if (owner === dataDir) log.warn('database of an earlier data directory found; remove it if it is not needed', { path })
    else if (owner !== null && (await ownerOf(owner)) === null) orphans.push(path)
  }
  const [first] = orphans
  if (first !== undefined) log.info('databases of removed data directories found', { count: orphans.length, first })
  const id = newId()
  const dir = join(systemBase, id)
  await makeSearchable(dir)
  await writeOwner(dir, dataDir)
  if (await createPrivateFile(join(dataDir, 'postgres', 'location.json'), JSON.stringify({ id }))) return dir
  // Another process started on the same data directory first.
  await rm(dir, { recursive: true })
  return (await openHome({ dataDir, systemBase, log })).dir
}

async function reopen({ dataDir, systemBase, id }: { dataDir: string; systemBase: string; id: string }): Promise<string> {
  const dir = join(systemBase, id)
  const owner = await readOwner(dir, dataDir)
  // An empty database would look like data loss: in a container only the data directory may have been kept.
  if (owner === null) {
    throw refusal(
      'not_found',
      `the database of ${dataDir} was in ${dir}, which is missing. Restore that directory (in a container: keep ${systemBase} on a volume, ` +
        `or run Muster as an ordinary user), or remove ${join(dataDir, 'postgres')} to start with an empty database`,
    )
  }
  if (owner === dataDir) return dir
  const other = await readLocation({ dataDir: owner, systemBase })
  if (other?.id === id) {
    throw refusal(
      'conflict',
      `${dataDir} is a copy of ${owner}, and both would use the database in ${dir}. Remove ${join(dataDir, 'postgres')} to start with an ` +
        `empty database, or remove ${join(owner, 'postgres')} if ${owner} is no longer used`,
    )
  }
  await writeOwner(dir, dataDir)
  return dir
}

async function makeBase(systemBase: string): Promise<void> {
  try {
    await makeSearchable(systemBase)
    const base = await lstat(systemBase)
    if (!base.isDirectory() || base.uid !== 0 || (base.mode & 0o022) !== 0) {
      throw new Error('it must be a directory that is owned by root and writable only by root')
    }
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    throw refusal(
      'unavailable',
      `the embedded database cannot use ${systemBase}: ${reason}. Make that directory writable for root, start Muster as an ordinary user, ` +
        'or give it a database with --database-url',
      error,
    )
  }
}

/** Searchable by all users, listed and changed only by root, whatever the umask. */
async function makeSearchable(dir: string): Promise<void> {
  const made = await mkdir(dir, { recursive: true, mode: 0o711 })
  if (made !== undefined) await chmod(dir, 0o711)
}

async function readOwner(dir: string, dataDir = '<data-dir>'): Promise<string | null> {
  const owner = await readRecord(
    join(dir, 'owner.json'),
    Owner,
    () => `It names the data directory of the database beside it; if that is yours, write ${JSON.stringify({ data_dir: dataDir })} into it`,
  )
  return owner?.data_dir ?? null
}

async function writeOwner(dir: string, dataDir: string): Promise<void> {
  await writePrivateFile(join(dir, 'owner.json'), JSON.stringify({ data_dir: dataDir }))
}

async function ownerOf(path: string): Promise<number | null> {
  return lstat(path).then(
    (stats) => stats.uid,
    () => null,
  )
}

export const port = 5432
const maxPathBytes = 103
const prefix = 'muster-postgres-'

interface SocketDir {
  readonly path: string
  remove(): Promise<void>
}

/**
 * The directory of the unix socket, for the server's user and root only. Its path is limited to 104 bytes on some systems;
 * with a longer home, `socket` is a symbolic link to a directory with a short path.
 */
export async function makeSocketDir(dir: string, user: ServerUser | null): Promise<SocketDir> {
  const link = join(dir, 'socket')
  await removeOld(link)
  const isShort = fits(link)
  const path = isShort ? link : await mkdtemp(join(shortParent(), prefix))
  if (isShort) await mkdir(path)
  else await symlink(path, link)
  await chmod(path, 0o700)
  if (user !== null) await chown(path, user.uid, user.gid)
  return { path, remove: () => removeOld(link) }
}

function fits(directory: string): boolean {
  return Buffer.byteLength(join(directory, `.s.PGSQL.${port}`)) <= maxPathBytes
}

// Not XDG_RUNTIME_DIR, which is removed when the user logs out. `mkdtemp` creates a new directory, so no other user can have
// prepared it.
function shortParent(): string {
  return [tmpdir(), '/tmp'].find((parent) => fits(join(parent, `${prefix}XXXXXX`))) ?? '/tmp'
}

async function removeOld(link: string): Promise<void> {
  const found = await lstat(link).catch(() => null)
  if (found?.isSymbolicLink() === true) {
    const target = await readlink(link)
    if (basename(target).startsWith(prefix)) await rm(target, { recursive: true, force: true })
  }
  await rm(link, { recursive: true, force: true })
}
