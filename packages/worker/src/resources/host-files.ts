// The files by which a kernel describes its machine. Absent and unreadable are the same: unknown.
import { access, readdir, readFile, readlink, statfs } from 'node:fs/promises'

export interface HostFiles {
  /** Null when there is none, or it can't be read. */
  read(path: string): Promise<string | null>
  list(directory: string): Promise<readonly string[]>
  /** Where a symbolic link points to. */
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
    // bavail, not bfree: what is kept back for root is not there for backends that run as somebody else.
    return found === null ? null : { totalBytes: found.bsize * found.blocks, availableBytes: found.bsize * found.bavail }
  },
}
