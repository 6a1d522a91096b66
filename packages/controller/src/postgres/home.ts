// Where the embedded server lives. As an ordinary user: in <data-dir>/postgres. As root the server's user is another one, which can
// search neither the data directory (0700) nor, perhaps, what is above it: then everything is below a root-owned directory of the
// system that it can search, and <data-dir>/postgres/location.json says which. The names there are random, so that a data directory
// that was deleted and made anew never meets the database of the old one.
import { chmod, lstat, mkdir, readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { newId, type Log } from '@muster/host'
import { z } from 'zod'
import { createPrivateFile, readRecord, writePrivateFile } from './private-file.ts'
import { refusal } from './refusal.ts'
import { serverUser, type ServerUser } from './server-user.ts'

export type ServerHome = Readonly<{
  /** Below <data-dir>: what only Muster reads (the password, the log). */
  privateDir: string
  /** The programs, the cluster and the socket; searchable for the server's user. */
  dir: string
  /** Null: the same as Muster's. */
  user: ServerUser | null
}>

export const defaultSystemBase = '/var/lib/muster-postgres'

const Location = z.object({ id: z.string().regex(/^[a-z0-9]{8,64}$/) })
const Owner = z.object({ data_dir: z.string() })

/** `dataDir` is there and free of symbolic links. */
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
  if (owner !== null)
    throw refusal('conflict', `the database in ${privateDir} belongs to the user with the number ${owner}: start Muster as that user`)
  return { privateDir, dir: await makeNew({ dataDir, systemBase, log }), user }
}

async function readLocation({ dataDir, systemBase }: { dataDir: string; systemBase: string }): Promise<z.infer<typeof Location> | null> {
  const privateDir = join(dataDir, 'postgres')
  return await readRecord(join(privateDir, 'location.json'), Location, async () => {
    const ids = await idsOwnedBy(dataDir, systemBase)
    const write = ids.map((id) => `write ${JSON.stringify({ id })} into it if ${join(systemBase, id)} is it`)
    return `It says which directory below ${systemBase} holds the database: ${[...write, `remove ${privateDir} to begin with an empty database`].join(', or ')}`
  })
}

/** Databases that were made for this data directory, as far as that can be read. */
async function idsOwnedBy(dataDir: string, systemBase: string): Promise<string[]> {
  const owned: string[] = []
  for (const id of await readdir(systemBase).catch(() => [])) {
    if ((await readOwner(join(systemBase, id)).catch(() => null)) === dataDir) owned.push(id)
  }
  return owned
}

async function makeNew({ dataDir, systemBase, log }: { dataDir: string; systemBase: string; log: Log }): Promise<string> {
  await makeBase(systemBase)
  // Never removed without being asked: the data directory may be on a disk that is not mounted at the moment.
  for (const path of (await readdir(systemBase)).map((id) => join(systemBase, id))) {
    const owner = await readOwner(path).catch((error: unknown) => {
      log.warn('can not tell which data directory a database belongs to; it is left alone', { path, error })
      return null
    })
    if (owner === dataDir)
      log.warn('an earlier data directory of this name left its database behind; remove it if nobody needs it', { path })
    else if (owner !== null && (await ownerOf(owner)) === null)
      log.info('a database was left behind by a data directory that is gone', { path, dataDir: owner })
  }
  const id = newId()
  const dir = join(systemBase, id)
  await makeSearchable(dir)
  await writeOwner(dir, dataDir)
  if (await createPrivateFile(join(dataDir, 'postgres', 'location.json'), JSON.stringify({ id }))) return dir
  // Another process that starts on the same data directory was first.
  await rm(dir, { recursive: true })
  return (await openHome({ dataDir, systemBase, log })).dir
}

async function reopen({ dataDir, systemBase, id }: { dataDir: string; systemBase: string; id: string }): Promise<string> {
  const dir = join(systemBase, id)
  const owner = await readOwner(dir, dataDir)
  // An empty database here would look like a loss of everything: in a container only the data directory may have been kept.
  if (owner === null) {
    throw refusal(
      'not_found',
      `the database of ${dataDir} was in ${dir}, which is gone. Bring that directory back (in a container: keep ${systemBase} on a volume, ` +
        `or run Muster as an ordinary user), or remove ${join(dataDir, 'postgres')} to begin with an empty database`,
    )
  }
  if (owner === dataDir) return dir
  const other = await readLocation({ dataDir: owner, systemBase })
  if (other?.id === id) {
    throw refusal(
      'conflict',
      `${dataDir} is a copy of ${owner}, and both would use the database in ${dir}. Remove ${join(dataDir, 'postgres')} to begin with an ` +
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
      throw new Error('it must be a directory that belongs to root and that nobody else can write to')
    }
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    throw refusal(
      'unavailable',
      `the embedded database can't use ${systemBase}: ${reason}. Make that directory writable for root, start Muster as an ordinary user, ` +
        'or give it a database with --database-url',
      error,
    )
  }
}

/** Everybody may go through it, only root may list or change it, whatever the umask is. */
async function makeSearchable(dir: string): Promise<void> {
  const made = await mkdir(dir, { recursive: true, mode: 0o711 })
  if (made !== undefined) await chmod(dir, 0o711)
}

async function readOwner(dir: string, dataDir = '<data-dir>'): Promise<string | null> {
  const owner = await readRecord(
    join(dir, 'owner.json'),
    Owner,
    () =>
      `It says which data directory the database beside it belongs to; if that is yours, write ${JSON.stringify({ data_dir: dataDir })} into it`,
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
