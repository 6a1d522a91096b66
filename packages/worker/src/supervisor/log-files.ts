// What backends write: one file per replica, which its process appends to by itself. Kept small whatever it writes: the
// newest 10 MB and two files of that size before it, by copying the end aside and cutting the file.
import { copyFile, open, rename, rm, stat, truncate, type FileHandle } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { makeDirectory, type Clock, type Log } from '@muster/host'
import type { ReplicaId } from '@muster/protocol'

export interface LogFiles {
  path(id: ReplicaId): string
  size(id: ReplicaId): Promise<number>
  /** The end of what it wrote. Never rejects. */
  lastLines(id: ReplicaId): Promise<string[]>
  /** Keeps it small until it is disposed of. */
  tend(id: ReplicaId): Disposable
  remove(id: ReplicaId): Promise<void>
  /** Text, each log under a line with its replica once there are several. With `follow` until the signal, and with those that come. */
  read(which: () => readonly ReplicaId[], options: { follow: boolean; signal: AbortSignal }): Readable
}

export type LogFilesOptions = Readonly<{ directory: string; clock: Clock; log: Log; limitBytes?: number }>

const keptFiles = 2
const lastLinesKept = 20
const lineCharacters = 1_000
const tailBytes = 64 * 1024
/** Of a log that is read, where reading begins. */
const shownBytes = 1024 * 1024
const pieceBytes = 64 * 1024
const tendMs = 250
const hastyTendMs = 20
const followMs = 250

export async function openLogFiles({ directory, clock, log, limitBytes = 10 * 1024 ** 2 }: LogFilesOptions): Promise<LogFiles> {
  await makeDirectory(directory, { mode: 0o700 })
  const path = (id: ReplicaId): string => join(directory, `${id}.log`)
  const older = (id: ReplicaId, n: number): string => `${path(id)}.${n}`
  const size = async (id: ReplicaId): Promise<number> => (await stat(path(id)).catch(() => null))?.size ?? 0

  const rotate = async (id: ReplicaId, bytes: number): Promise<void> => {
    const aside = `${path(id)}.new`
    // Of a flood only the end is kept: copying all of it would take longer than it takes to write more.
    if (bytes <= 2 * limitBytes) await copyFile(path(id), aside)
    else await copyEnd(path(id), aside, { from: bytes - limitBytes, bytes: limitBytes })
    await truncate(path(id), 0)
    for (let n = keptFiles; n > 1; n -= 1) await rename(older(id, n - 1), older(id, n)).catch(() => undefined)
    await rename(aside, older(id, 1))
  }
  const tendOn = async (id: ReplicaId, signal: AbortSignal): Promise<void> => {
    let isFlood = false
    while (!signal.aborted) {
      await clock.sleep(isFlood ? hastyTendMs : tendMs, signal).catch(() => undefined)
      const bytes = await size(id)
      isFlood = bytes > limitBytes
      if (isFlood) await rotate(id, bytes).catch((error: unknown) => log.warn('a log was not shortened', { replica_id: id, error }))
    }
  }
  return {
    path,
    size,
    lastLines: (id) => lastLinesOf(path(id)).catch(() => []),
    tend(id) {
      const ended = new AbortController()
      void tendOn(id, ended.signal)
      return { [Symbol.dispose]: () => ended.abort() }
    },
    async remove(id) {
      const files = [path(id), ...Array.from({ length: keptFiles }, (_, at) => older(id, at + 1))]
      await Promise.all(files.map((each) => rm(each, { force: true })))
    },
    read: (which, { follow, signal }) => Readable.from(followed(which, { path, clock, follow, signal })),
  }
}

async function copyEnd(source: string, target: string, { from, bytes }: { from: number; bytes: number }): Promise<void> {
  await using input = await open(source, 'r')
  await using output = await open(target, 'w', 0o600)
  const piece = Buffer.alloc(pieceBytes)
  for (let done = 0; done < bytes;) {
    const { bytesRead } = await input.read(piece, 0, Math.min(pieceBytes, bytes - done), from + done)
    if (bytesRead === 0) return
    await output.write(piece, 0, bytesRead)
    done += bytesRead
  }
}

/** A line without an end, however long, is its own end. */
async function lastLinesOf(path: string): Promise<string[]> {
  await using file = await open(path, 'r')
  const { size } = await file.stat()
  const bytes = Buffer.alloc(Math.min(size, tailBytes))
  const { bytesRead } = await file.read(bytes, 0, bytes.length, size - bytes.length)
  const lines = bytes.toString('utf8', 0, bytesRead).split(/\r?\n/)
  return lines
    .filter((line) => line.trim() !== '')
    .slice(-lastLinesKept)
    .map((line) => (line.length > lineCharacters ? `…${line.slice(1 - lineCharacters)}` : line))
}

type Following = Readonly<{ path: (id: ReplicaId) => string; clock: Clock; follow: boolean; signal: AbortSignal }>

async function* followed(which: () => readonly ReplicaId[], { path, clock, follow, signal }: Following): AsyncGenerator<Buffer> {
  const offsets = new Map<ReplicaId, number>()
  let shown: ReplicaId | null = null
  do {
    for (const id of which()) {
      for await (const piece of since(path(id), offsets.get(id))) {
        if (signal.aborted) return
        offsets.set(id, piece.offset)
        if (shown !== id && (shown !== null || which().length > 1)) yield Buffer.from(`==> replica ${id} <==\n`)
        shown = id
        yield piece.bytes
      }
    }
    if (follow) await clock.sleep(followMs, signal).catch(() => undefined)
  } while (follow && !signal.aborted)
}

/** What came since an offset; from the end's beginning when there is none, from the start when the file was cut. */
async function* since(path: string, offset: number | undefined): AsyncGenerator<{ bytes: Buffer; offset: number }> {
  const file: FileHandle | null = await open(path, 'r').catch(() => null)
  if (file === null) return
  try {
    const { size } = await file.stat()
    let at = offset === undefined ? Math.max(0, size - shownBytes) : offset > size ? 0 : offset
    while (at < size) {
      const bytes = Buffer.alloc(Math.min(pieceBytes, size - at))
      const { bytesRead } = await file.read(bytes, 0, bytes.length, at)
      if (bytesRead === 0) return
      at += bytesRead
      yield { bytes: bytes.subarray(0, bytesRead), offset: at }
    }
  } finally {
    await file.close()
  }
}
