// Whether it is our process that listens on a port. A port says nothing by itself: it may have been taken by another
// program before ours came to it, or been given to another one since.
import { readdir, readFile, readlink } from 'node:fs/promises'
import { findProcesses } from './find-processes.ts'

export type Listener = 'ours' | 'foreign' | 'nobody'
export type Owner = Readonly<{ group: number; replicaId: string; workerId: string }>

const listening = '0A'

export async function whoListens(port: number, owner: Owner): Promise<Listener> {
  if (process.platform !== 'linux') return 'ours'
  const inodes = await listeningInodes(port)
  if (inodes.size === 0) return 'nobody'
  // Nearly always it is the process that was started; the whole table is read only when it is not.
  if (await holdsOne(owner.group, inodes)) return 'ours'
  const { processes } = await findProcesses(owner.workerId, owner.group)
  const own = processes.filter(({ replicaId, group }) => replicaId === owner.replicaId || group === owner.group)
  for (const { identity } of own) if (await holdsOne(identity.pid, inodes)) return 'ours'
  return 'foreign'
}

/** On any address of this machine: whoever has the port on all of them has it on loopback too. */
async function listeningInodes(port: number): Promise<Set<string>> {
  const wanted = `:${port.toString(16).toUpperCase().padStart(4, '0')}`
  const tables = await Promise.all(['/proc/net/tcp', '/proc/net/tcp6'].map((path) => readFile(path, 'utf8').catch(() => '')))
  const sockets = tables.flatMap((table) => table.split('\n').slice(1)).map((line) => line.trim().split(/\s+/))
  return new Set(
    sockets.filter(([, local, , state]) => state === listening && local?.endsWith(wanted)).map((fields) => `socket:[${fields[9] ?? ''}]`),
  )
}

async function holdsOne(pid: number, inodes: ReadonlySet<string>): Promise<boolean> {
  const descriptors = await readdir(`/proc/${pid}/fd`).catch(() => [])
  for (const descriptor of descriptors) {
    const target = await readlink(`/proc/${pid}/fd/${descriptor}`).catch(() => '')
    if (inodes.has(target)) return true
  }
  return false
}
