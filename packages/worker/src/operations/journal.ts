// The file in which a worker keeps what it was told to do and what came of it. What `append` resolved
// for survives a crash; several appends share one fsync. Not finished: nothing is ever half there.
import { open, readFile, type FileHandle } from 'node:fs/promises'
import { dirname } from 'node:path'
import { errorCode, makeDirectory, writeFileAtomic, type Log } from '@muster/host'
import { FleetError } from '@muster/protocol'
import { entryLine, headerLine, readJournal, type Entry } from './journal-format.ts'

export interface Journal {
  /** Durable when it resolves; throws FleetError (`disk_full`, `unavailable`) and leaves no trace. */
  append(entry: Entry): Promise<void>
  /** Replaces everything at once, with what `entries` says when its turn has come. */
  rewrite(entries: () => readonly Entry[]): Promise<void>
  lines(): number
  close(): Promise<void>
}

export type OpenedJournal =
  | Readonly<{ state: 'open'; journal: Journal; entries: readonly Entry[] }>
  /** Written by a newer Muster; left as it is. */
  | Readonly<{ state: 'newer'; format: number; path: string }>

type Waiting = { readonly line: string; readonly resolve: () => void; readonly reject: (error: Error) => void }

export async function openJournal({ path, log }: { path: string; log: Log }): Promise<OpenedJournal> {
  await makeDirectory(dirname(path), { mode: 0o700 })
  const bytes = await readFile(path).catch(async (error: unknown) => {
    if (errorCode(error) !== 'ENOENT') throw error
    await writeFileAtomic(path, headerLine, { mode: 0o600 })
    return Buffer.from(headerLine)
  })
  const read = readJournal(bytes)
  if (read.state === 'newer') {
    log.error('the journal of operations was written by a newer version; commands are refused until that version runs again', {
      path,
      format: read.format,
    })
    return { state: 'newer', format: read.format, path }
  }
  if (read.damagedLines > 0) log.error('lines of the journal of operations are damaged and left out', { path, lines: read.damagedLines })
  const file = await open(path, 'r+')
  if (read.length < bytes.length) await file.truncate(read.length)
  const journal = writeOn({ path, file, length: read.length, lines: read.entries.length, log })
  return { state: 'open', journal, entries: read.entries }
}

type Start = { path: string; file: FileHandle; length: number; lines: number; log: Log }

function writeOn({ path, file, length, lines, log }: Start): Journal {
  const waiting: Waiting[] = []
  let turns: Promise<void> = Promise.resolve()

  const flush = async (): Promise<void> => {
    const batch = waiting.splice(0)
    if (batch.length === 0) return
    try {
      const bytes = Buffer.from(batch.map(({ line }) => line).join(''))
      await writeAll(file, bytes, length)
      await file.datasync()
      length += bytes.length
      lines += batch.length
      for (const { resolve } of batch) resolve()
    } catch (error) {
      // Without the half of it that may be there: it was refused, so it must not come back after a restart.
      await file.truncate(length).catch((reason: unknown) => log.warn('the journal of operations could not be cut', { error: reason }))
      const failure = notWritten(error)
      for (const { reject } of batch) reject(failure)
    }
  }
  const replace = async (entries: readonly Entry[]): Promise<void> => {
    const bytes = Buffer.from(headerLine + entries.map(entryLine).join(''))
    await writeFileAtomic(path, bytes, { mode: 0o600 })
    const old = file
    file = await open(path, 'r+')
    length = bytes.length
    lines = entries.length
    await old.close()
  }
  const inTurn = (work: () => Promise<void>): Promise<void> => {
    const done = turns.then(work)
    turns = done.catch(() => undefined)
    return done
  }
  return {
    append: (entry) =>
      new Promise((resolve, reject) => {
        waiting.push({ line: entryLine(entry), resolve, reject })
        if (waiting.length === 1) void inTurn(flush)
      }),
    rewrite: (entries) =>
      inTurn(async () => {
        // Whoever waited for the lines before this has had its turn.
        await new Promise(setImmediate)
        await replace(entries()).catch((error: unknown) => Promise.reject(notWritten(error)))
      }),
    lines: () => lines,
    close: () => inTurn(() => file.close()),
  }
}

async function writeAll(file: FileHandle, bytes: Buffer, position: number): Promise<void> {
  for (let done = 0; done < bytes.length;) {
    const { bytesWritten } = await file.write(bytes, done, bytes.length - done, position + done)
    done += bytesWritten
  }
}

function notWritten(error: unknown): FleetError {
  const isFull = errorCode(error) === 'ENOSPC' || errorCode(error) === 'EDQUOT'
  const reason = error instanceof Error ? error.message : String(error)
  const message = isFull
    ? 'there is no disk space left to note the command: free some in the data directory of this worker'
    : `the command could not be noted in the journal of this worker: ${reason}`
  return new FleetError({ code: isFull ? 'disk_full' : 'unavailable', retry: 'backoff', message }, { cause: error })
}
