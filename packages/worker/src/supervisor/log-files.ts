// The logs of backends: one file per replica, which its process appends to directly. Bounded whatever the process writes: the
// newest 10 MB and two older files of that size, by copying the end to another file and truncating.
import { appendFile, open, rename, rm, stat, truncate, type FileHandle } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { createLoop, makeDirectory, type Clock, type Log } from '@muster/host'
import type { ReplicaId } from '@muster/protocol'

export interface LogFiles {
  path(id: ReplicaId): string
  size(id: ReplicaId): Promise<number>
  /** The last lines of output. Never rejects. */
  lastLines(id: ReplicaId): Promise<string[]>
  /** Adds a line of the worker to the output of the process. Never rejects. */
  append(id: ReplicaId, line: string): Promise<void>
  /** Keeps the log bounded until it is disposed of. */
  keepBounded(id: ReplicaId): Disposable
  remove(id: ReplicaId): Promise<void>
  /** Text; a header line names the replica when there are several. With `follow` until the signal aborts, new replicas included. */
  read(which: () => readonly ReplicaId[], options: { follow: boolean; signal: AbortSignal }): Readable
}

export type LogFilesOptions = Readonly<{ directory: string; clock: Clock; log: Log; limitBytes?: number }>

const keptFiles = 2
const lastLinesKept = 20
const lineCharacters = 1_000
const tailBytes = 64 * 1024
/** A reader starts this far from the end. */
const shownBytes = 1024 * 1024
const pieceBytes = 64 * 1024
const checkMs = 250
const floodCheckMs = 20
const followMs = 250

export async function openLogFiles({ directory, clock, log, limitBytes = 10 * 1024 ** 2 }: LogFilesOptions): Promise<LogFiles> {
  await makeDirectory(directory, { mode: 0o700 })
  const path = (id: ReplicaId): string => join(directory, `${id}.log`)
  const older = (id: ReplicaId, n: number): string => `${path(id)}.${n}`
  const size = async (id: ReplicaId): Promise<number> => (await stat(path(id)).catch(() => null))?.size ?? 0

  const rotate = async (id: ReplicaId, bytes: number): Promise<void> => {
    const aside = `${path(id)}.new`
    // In a flood only the end is kept: copying all of it would take longer than the process takes to write more. Never more than was
    // measured: the process goes on writing during the copy.
    const kept = bytes <= 2 * limitBytes ? bytes : limitBytes
    await copyPart(path(id), aside, { from: bytes - kept, bytes: kept })
    await truncate(path(id), 0)
    for (let n = keptFiles; n > 1; n -= 1) await rename(older(id, n - 1), older(id, n)).catch(() => undefined)
    await rename(aside, older(id, 1))
  }
  const checkSize = async (id: ReplicaId): Promise<number> => {
    const bytes = await size(id)
    if (bytes <= limitBytes) return checkMs
    await rotate(id, bytes)
    return floodCheckMs
  }
  const checkUntil = async (id: ReplicaId, signal: AbortSignal): Promise<void> => {
    const loop = createLoop({ what: 'cannot shorten a log; retrying', clock, log: log.child({ replica_id: id }), retryMs: floodCheckMs })
    await loop.run(() => checkSize(id), signal)
    // The last output of a process counts too.
    await checkSize(id).catch(() => undefined)
  }
  return {
    path,
    size,
    lastLines: (id) => lastLinesOf(path(id)).catch(() => []),
    append: (id, line) =>
      appendFile(path(id), `muster: ${line.slice(0, lineCharacters)}\n`, { mode: 0o600 }).catch((error: unknown) =>
        log.warn('cannot append to a log', { replica_id: id, error }),
      ),
    keepBounded(id) {
      const ended = new AbortController()
      void checkUntil(id, ended.signal)
      return { [Symbol.dispose]: () => ended.abort() }
    },
    async remove(id) {
      const files = [path(id), ...Array.from({ length: keptFiles }, (_, at) => older(id, at + 1))]
      await Promise.all(files.map((each) => rm(each, { force: true })))
    },
    read: (which, { follow, signal }) => Readable.from(readFollowed(which, { path, clock, follow, signal })),
  }
}

async function copyPart(source: string, target: string, { from, bytes }: { from: number; bytes: number }): Promise<void> {
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

/** A long line is cut to its end. */
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

type FollowOptions = Readonly<{ path: (id: ReplicaId) => string; clock: Clock; follow: boolean; signal: AbortSignal }>

async function* readFollowed(which: () => readonly ReplicaId[], { path, clock, follow, signal }: FollowOptions): AsyncGenerator<Buffer> {
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

/** The output since an offset: without one, the end of the file; after a truncation, all of it. */
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
