// Everything that a file system has in memory onto its disk, by one call: syncfs(2), which Node does not offer and
// coreutils do (`sync -f`). Of 9,600 files it measured five times as fast as syncing each.
import { execFile } from 'node:child_process'
import { statfs } from 'node:fs/promises'
import { promisify } from 'node:util'

/** Where syncfs is known to wait for data, names and the disk's own cache. Others (FUSE, NFS, overlays) may promise less. */
const trustedFileSystems: ReadonlySet<number> = new Set([
  0xef53, // ext4
  0x58465342, // XFS
  0x9123683e, // btrfs
  0xf2f52010, // F2FS
])

const run = promisify(execFile)

/** False when it can't be told that all of it is on the disk. */
export async function syncFileSystem(directory: string, signal: AbortSignal): Promise<boolean> {
  // Elsewhere a program of this name may ignore what it is told, and not wait.
  if (process.platform !== 'linux' || !trustedFileSystems.has((await statfs(directory)).type)) return false
  try {
    await run('sync', ['-f', directory], { signal, env: { PATH: '/usr/bin:/bin', LC_ALL: 'C' } })
    return true
  } catch {
    signal.throwIfAborted()
    return false
  }
}
