// Writes one new file at a time and hashes it on the way. Synchronous on purpose: it runs in a thread of its own, where
// waiting for one small write after the other through a queue costs more than the writes.
import { createHash, type Hash } from 'node:crypto'
import { closeSync, constants, fchmodSync, futimesSync, openSync, writeSync } from 'node:fs'

export interface NewFile {
  readonly path: string
  readonly mode: number
  readonly mtime: number
  readonly onHash: (sha256: string) => void
}

export interface FileWriter {
  open(file: NewFile): void
  write(chunk: Buffer): void
  /** Nothing when no file is open: links and directories end too. */
  close(): void
  abandon(): void
}

const { O_CREAT, O_EXCL, O_NOFOLLOW, O_WRONLY } = constants

export function createFileWriter(): FileWriter {
  let current: { readonly file: NewFile; readonly fd: number; readonly hash: Hash } | null = null
  return {
    open: (file) => {
      const fd = openSync(file.path, O_CREAT | O_EXCL | O_NOFOLLOW | O_WRONLY, 0o600)
      current = { file, fd, hash: createHash('sha256') }
    },
    write: (chunk) => {
      if (current === null) throw new Error('no file is open')
      current.hash.update(chunk)
      for (let at = 0; at < chunk.length;) at += writeSync(current.fd, chunk, at)
    },
    close: () => {
      if (current === null) return
      const { file, fd, hash } = current
      fchmodSync(fd, file.mode)
      // Interpreters that keep compiled files beside their sources compare times.
      futimesSync(fd, file.mtime, file.mtime)
      closeSync(fd)
      current = null
      file.onHash(hash.digest('hex'))
    },
    abandon: () => {
      if (current !== null) closeSync(current.fd)
      current = null
    },
  }
}
