// Makes a finished tree durable. A large tree is synced with its whole file system in one call, where that call can be
// trusted; otherwise file by file, several at a time: the file system then commits once for many, which measured six times
// as fast as one after the other.
import { execFile } from 'node:child_process'
import { open, statfs } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { inLanes } from '@muster/host'
import { type DirectoryNode, walkNodes } from './tree-nodes.ts'

const atOnce = 16
/** With fewer entries, syncing the file system is not worth a process, nor waiting for the writes of others. */
const largeTree = 200

export interface TreeToSync {
  readonly directory: string
  readonly root: DirectoryNode
  readonly entries: number
}

export async function syncTree({ directory, root, entries }: TreeToSync, signal: AbortSignal): Promise<void> {
  if (entries >= largeTree && (await syncFileSystem(directory, signal))) return
  await inLanes(paths(directory, root, 'file'), { atOnce, signal }, syncPath)
  // A name is durable with its directory, so directories come last.
  await inLanes(paths(directory, root, 'directory'), { atOnce, signal }, syncPath)
  await syncPath(directory)
}

export async function syncPath(path: string): Promise<void> {
  await using file = await open(path, 'r')
  await file.sync()
}

function paths(directory: string, root: DirectoryNode, kind: 'file' | 'directory'): string[] {
  return [...walkNodes(root).filter(({ node }) => node.kind === kind)].map(({ path }) => join(directory, path))
}

// syncfs(2) writes everything that a file system has in memory to its disk. Node does not offer it; coreutils do
// (`sync -f`). With 9,600 files it measured five times as fast as syncing each.

/** File systems whose syncfs waits for data, names and the disk's own cache. Others (FUSE, NFS, overlays) may promise less. */
const trustedFileSystems: ReadonlySet<number> = new Set([
  0xef53, // ext4
  0x58465342, // XFS
  0x9123683e, // btrfs
  0xf2f52010, // F2FS
])

const run = promisify(execFile)

/** False when it is not certain that everything is on the disk. */
export async function syncFileSystem(directory: string, signal: AbortSignal): Promise<boolean> {
  // On other systems a program of this name may ignore its arguments and not wait.
  if (process.platform !== 'linux' || !trustedFileSystems.has((await statfs(directory)).type)) return false
  try {
    await run('sync', ['-f', directory], { signal, env: { PATH: '/usr/bin:/bin', LC_ALL: 'C' } })
    return true
  } catch {
    signal.throwIfAborted()
    return false
  }
}
