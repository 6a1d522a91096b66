// Chooses the addresses that processes listen on: a free loopback port that no process of this worker had lately, or a unix
// socket in a private directory. The path of a socket has at most 108 bytes; when the data directory's path is too long, `run`
// in it is a symbolic link to a directory with a short path, which stays as long as processes may listen in it.
import { createHash } from 'node:crypto'
import { chmod, lstat, mkdir, mkdtemp, readlink, rm, stat, symlink } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { ReplicaId } from '@muster/protocol'
import type { BackendAddress } from '../drivers/driver.ts'

export type Addresses = Awaited<ReturnType<typeof openAddresses>>

/** The smallest limit of all supported systems, without the terminating zero. */
const longestPath = 103
const rememberedPorts = 256

export async function openAddresses({ place }: { place: string }) {
  const directory = await socketDirectory(place)
  const lately: number[] = []
  return {
    async choose(kind: BackendAddress['kind'], id: ReplicaId): Promise<BackendAddress> {
      if (kind === 'unix') {
        const path = join(directory, socketName(id))
        await rm(path, { force: true })
        return { kind, path }
      }
      let port = await freePort()
      while (lately.includes(port)) port = await freePort()
      lately.push(port)
      if (lately.length > rememberedPorts) lately.shift()
      return { kind, host: '127.0.0.1', port }
    },
    /** Removes the socket of a process. */
    async release(address: BackendAddress): Promise<void> {
      if (address.kind === 'unix') await rm(address.path, { force: true })
    },
  }
}

/** Short, and unique per replica. */
const socketName = (id: ReplicaId): string => `${createHash('sha256').update(id).digest('hex').slice(0, 16)}.sock`

async function socketDirectory(place: string): Promise<string> {
  if (Buffer.byteLength(join(place, socketName('any' as ReplicaId))) <= longestPath) {
    await mkdir(place, { recursive: true, mode: 0o700 })
    await chmod(place, 0o700)
    return place
  }
  const found = await lstat(place).catch(() => null)
  if (found?.isSymbolicLink() === true) {
    const target = await readlink(place)
    if (await isPrivate(target)) return target
  }
  await rm(place, { recursive: true, force: true })
  const made = await mkdtemp(join(shortParent(), 'muster-run-'))
  await symlink(made, place)
  return made
}

/** Owned by this user and closed to others: /tmp is shared. */
async function isPrivate(directory: string): Promise<boolean> {
  const found = await stat(directory).catch(() => null)
  return found?.isDirectory() === true && found.uid === process.getuid?.() && (found.mode & 0o777) === 0o700
}

const shortParent = (): string => (Buffer.byteLength(tmpdir()) <= 48 ? tmpdir() : '/tmp')

async function freePort(): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve, reject) => server.once('error', reject).listen(0, '127.0.0.1', resolve))
  const bound = server.address()
  await new Promise((resolve) => server.close(resolve))
  if (bound === null || typeof bound === 'string') throw new Error('a TCP server has an address with a port')
  return bound.port
}
