// A file that is on this machine already: under the one directory that models may name files of (`--model-dir`), or on a
// volume that machines share. Links are followed first and judged by where they end.
import { constants } from 'node:fs'
import { open, realpath } from 'node:fs/promises'
import { sep } from 'node:path'
import { errorCode } from '@muster/host'
import { FleetError } from '@muster/protocol'
import type { OpenedStream } from '@muster/source'

export interface LocalFile {
  readonly path: string
  readonly size: number
  /** Another one when the file was replaced or written to. */
  readonly validator: string
}

/** Null when there is nothing; throws when it is somewhere else, or no file. */
export async function findLocalFile(path: string, root: string): Promise<LocalFile | null> {
  const [real, base] = await Promise.all([realPath(path), realPath(root)])
  if (real === null || base === null) return null
  if (!real.startsWith(base.endsWith(sep) ? base : base + sep)) throw outside(path, root)
  await using file = await openPlain(real)
  const stats = await file.stat()
  // A device or a pipe may have no end.
  if (!stats.isFile()) throw new FleetError({ code: 'invalid', retry: 'never', message: `${path} is not a file` })
  return { path: real, size: stats.size, validator: `${stats.dev}-${stats.ino}-${stats.size}-${stats.mtimeMs}` }
}

export async function openLocalFile({ path, size, validator }: LocalFile, offset: number): Promise<OpenedStream> {
  const file = await openPlain(path)
  return { stream: file.createReadStream({ start: offset }), offset, size, validator }
}

/** Not through a link that was put there since, and without waiting for the other end of a pipe. */
const openPlain = (path: string) => open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)

async function realPath(path: string): Promise<string | null> {
  try {
    return await realpath(path)
  } catch (error) {
    if (['ENOENT', 'ENOTDIR'].includes(String(errorCode(error)))) return null
    throw error
  }
}

const outside = (path: string, root: string): FleetError =>
  new FleetError({
    code: 'invalid',
    retry: 'never',
    message: `source_forbidden: ${path} is not in ${root}, the --model-dir of this worker`,
  })
