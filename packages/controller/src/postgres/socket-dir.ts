// Where the server's unix socket is. Its path must fit into the 104 bytes (with the closing zero) that the smallest of our systems
// allows; when the home's path is too long, `socket` there is a symbolic link to a directory with a short one.
import { chmod, chown, lstat, mkdir, mkdtemp, readlink, rm, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import type { ServerUser } from './server-user.ts'

export const port = 5432
const maxPathBytes = 103
const prefix = 'muster-postgres-'

export interface SocketDir {
  readonly path: string
  remove(): Promise<void>
}

/** Nobody but the server's user and root can enter it. */
export async function makeSocketDir(dir: string, user: ServerUser | null): Promise<SocketDir> {
  const place = join(dir, 'socket')
  await removeOld(place)
  const isShort = fits(place)
  const path = isShort ? place : await mkdtemp(join(shortParent(), prefix))
  if (isShort) await mkdir(path)
  else await symlink(path, place)
  await chmod(path, 0o700)
  if (user !== null) await chown(path, user.uid, user.gid)
  return { path, remove: () => removeOld(place) }
}

function fits(directory: string): boolean {
  return Buffer.byteLength(join(directory, `.s.PGSQL.${port}`)) <= maxPathBytes
}

// Not XDG_RUNTIME_DIR: it goes when the user logs out, and the server may have to stay. `mkdtemp` makes a new directory
// that belongs to us, so nobody can have prepared it.
function shortParent(): string {
  return [tmpdir(), '/tmp'].find((parent) => fits(join(parent, `${prefix}XXXXXX`))) ?? '/tmp'
}

async function removeOld(place: string): Promise<void> {
  const found = await lstat(place).catch(() => null)
  if (found?.isSymbolicLink() === true) {
    const target = await readlink(place)
    if (basename(target).startsWith(prefix)) await rm(target, { recursive: true, force: true })
  }
  await rm(place, { recursive: true, force: true })
}
