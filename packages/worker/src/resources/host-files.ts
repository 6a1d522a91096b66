// Files through which the kernel describes the machine. Missing and unreadable both mean unknown.
import { access, readdir, readFile, readlink, statfs } from 'node:fs/promises'

export interface HostFiles {
  /** Null when missing or unreadable. */
  read(path: string): Promise<string | null>
  list(directory: string): Promise<readonly string[]>
  /** The target of a symbolic link. */
  link(path: string): Promise<string | null>
  exists(path: string): Promise<boolean>
  /** The file system that holds a path. */
  space(path: string): Promise<{ totalBytes: number; availableBytes: number } | null>
}

async function orNull<T>(promise: Promise<T>): Promise<T | null> {
  try {
    return await promise
  } catch {
    return null
  }
}

export const hostFiles: HostFiles = {
  read: (path) => orNull(readFile(path, 'utf8')),
  list: async (directory) => (await orNull(readdir(directory))) ?? [],
  link: (path) => orNull(readlink(path)),
  exists: async (path) => (await orNull(access(path).then(() => true))) !== null,
  space: async (path) => {
    const found = await orNull(statfs(path))
    // bavail, not bfree: blocks reserved for root are not available to other users.
    return found === null ? null : { totalBytes: found.bsize * found.blocks, availableBytes: found.bsize * found.bavail }
  },
}
