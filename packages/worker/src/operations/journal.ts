// The journal of a worker: the commands it accepted and their outcomes. An entry survives a crash once its `append` has
// resolved; several appends share one fsync. Each line has a checksum of its own, so that a line torn by a crash or damaged on
// disk is recognized and dropped.
import { type FileHandle, open, readFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import { crc32 } from 'node:zlib'
import { z } from 'zod'
import { errorCode, type Log, makeDirectory, parseJson, writeFileAtomic } from '@muster/host'
import { BackendName, Digest, Failure, NodeId, OperationId } from '@muster/protocol'
import { notStored } from '../work/work-registry.ts'
import type { BackendIntent } from './admission.pure.ts'

export interface Journal {
  /** Durable when it resolves; throws FleetError (`disk_full`, `unavailable`) and then leaves no trace. */
  append(entry: Entry): Promise<void>
  /** Replaces all entries at once; `entries` is called when earlier appends are done. */
  rewrite(entries: () => readonly Entry[]): Promise<void>
  lines(): number
  close(): Promise<void>
}

export type OpenedJournal =
  | Readonly<{ state: 'open'; journal: Journal; entries: readonly Entry[] }>
  /** Written by a newer Muster; left untouched. */
  | Readonly<{ state: 'newer'; format: number; path: string }>

type PendingLine = { readonly line: string; readonly resolve: () => void; readonly reject: (error: Error) => void }

export async function openJournal({ path, log }: { path: string; log: Log }): Promise<OpenedJournal> {
  await makeDirectory(dirname(path), { mode: 0o700 })
  const bytes = await readFile(path).catch(async (error: unknown) => {
    if (errorCode(error) !== 'ENOENT') throw error
    await writeFileAtomic(path, headerLine, { mode: 0o600 })
    return Buffer.from(headerLine)
  })
  const read = readJournal(bytes)
  if (read.state === 'newer') {
    log.error('journal written by a newer version; commands are refused until that version runs again', {
      path,
      format: read.format,
    })
    return { state: 'newer', format: read.format, path }
  }
  if (read.damagedLines > 0) log.error('damaged journal lines skipped', { path, lines: read.damagedLines })
  const file = await open(path, 'r+')
  if (read.length < bytes.length) await file.truncate(read.length)
  const journal = writeOn({ path, file, length: read.length, lines: read.entries.length, log })
  return { state: 'open', journal, entries: read.entries }
}

type Start = { path: string; file: FileHandle; length: number; lines: number; log: Log }

function writeOn({ path, file, length, lines, log }: Start): Journal {
  const pending: PendingLine[] = []
  let turns: Promise<void> = Promise.resolve()

  const flush = async (): Promise<void> => {
    const batch = pending.splice(0)
    if (batch.length === 0) return
    try {
      const bytes = Buffer.from(batch.map(({ line }) => line).join(''))
      await writeAll(file, bytes, length)
      await file.datasync()
      length += bytes.length
      lines += batch.length
      for (const { resolve } of batch) resolve()
    } catch (error) {
      // A partly written batch was refused, so it must not reappear after a restart.
      await file.truncate(length).catch((reason: unknown) => log.warn('cannot truncate the journal of operations', { error: reason }))
      const failure = notStored('the command', error)
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
        pending.push({ line: entryLine(entry), resolve, reject })
        if (pending.length === 1) void inTurn(flush)
      }),
    rewrite: (entries) =>
      inTurn(async () => {
        // Callers that wait for the lines before this run first.
        await new Promise(setImmediate)
        await replace(entries()).catch((error: unknown) => Promise.reject(notStored('the command', error)))
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

const counter = z.number().int().min(0)

/** A command as the worker stores it: without `async`, galleries from the wire and replicas to start. */
export const BackendCommand = z.object({
  kind: z.enum(['install', 'upgrade', 'delete']),
  backend: BackendName,
  op_id: OperationId.optional(),
  /** A command without one counts as newest. */
  generation: counter.optional(),
  epoch: counter.optional(),
  uri: z.string().max(2048).optional(),
  digest: Digest.optional(),
  name: BackendName.optional(),
  alias: BackendName.optional(),
  mirrors: z.array(z.string().max(2048)).max(64).optional(),
  version: z.string().max(256).optional(),
  gallery_url: z.string().max(2048).optional(),
  exact: z.boolean().optional(),
  force: z.boolean().optional(),
  strategy: z.enum(['rolling', 'recreate']).optional(),
})
export type BackendCommand = z.infer<typeof BackendCommand>

export const Outcome = z.discriminatedUnion('state', [
  z.object({
    state: z.literal('succeeded'),
    digest: Digest.optional(),
    /** As in `op.status`. */
    source_digest: Digest.optional(),
    version: z.string().max(256).optional(),
  }),
  z.object({ state: z.literal('failed'), failure: Failure }),
  /** By `op.cancel`, by a newer intent (`superseded`), or with the node's membership. */
  z.object({ state: z.literal('cancelled'), failure: Failure }),
])
export type Outcome = z.infer<typeof Outcome>

/** Every name that may lead to the directory of this backend. */
export function namesIn({ backend, name, alias }: BackendCommand): BackendName[] {
  return [backend, name, alias].filter((each) => each !== undefined)
}

export function intentOf(command: BackendCommand): BackendIntent {
  const { kind, uri, digest, name, alias, exact = false, force = false } = command
  return {
    direction: kind === 'delete' ? 'absent' : 'present',
    digest: digest ?? null,
    content: JSON.stringify([kind, uri, digest, name, alias, exact, force]),
    generation: command.generation ?? null,
    epoch: command.epoch ?? null,
  }
}

/** Incremented when an older worker could no longer read the file. A new kind of entry alone is no reason. */
const format = 1

const id = z.number().int().min(0)
const boot = z.number().int().min(0)

export const Entry = z.discriminatedUnion('type', [
  /** A start of the worker. */
  z.object({ type: z.literal('boot'), boot }),
  /** The node whose generations these are. */
  z.object({ type: z.literal('node'), node: NodeId }),
  z.object({ type: z.literal('order'), id, order: BackendCommand }),
  z.object({ type: z.literal('join'), id, op_id: OperationId.optional(), epoch: z.number().int().min(0).optional() }),
  z.object({ type: z.literal('cancel'), id, failure: Failure }),
  z.object({ type: z.literal('end'), id, boot, outcome: Outcome }),
])
export type Entry = z.infer<typeof Entry>

type ReadJournal =
  | Readonly<{ state: 'newer'; format: number }>
  /** `length`: the offset of the next line; beyond it there is only an unfinished line. */
  | Readonly<{ state: 'readable'; entries: readonly Entry[]; damagedLines: number; length: number }>

const Header = z.object({ format: z.number().int().min(1) })
export const headerLine = lineOf({ format })

export const entryLine = (entry: Entry): string => lineOf(entry)

function lineOf(value: unknown): string {
  const json = JSON.stringify(value)
  return `${checksum(json)} ${json}\n`
}

function checksum(text: string): string {
  return crc32(text).toString(16).padStart(8, '0')
}

export function readJournal(bytes: Buffer): ReadJournal {
  const length = bytes.lastIndexOf(0x0a) + 1
  const lines = bytes.toString('utf8', 0, length).split('\n').slice(0, -1)
  const values = lines.map(valueOf)
  const header = Header.safeParse(values[0])
  if (header.success && header.data.format > format) return { state: 'newer', format: header.data.format }
  const entries: Entry[] = []
  let damagedLines = 0
  for (const value of header.success ? values.slice(1) : values) {
    const entry = Entry.safeParse(value)
    if (entry.success) entries.push(entry.data)
    else damagedLines += 1
  }
  return { state: 'readable', entries, damagedLines, length }
}

/** Undefined: the line is damaged. */
function valueOf(line: string): unknown {
  const json = line.slice(9)
  return line.slice(0, 9) === `${checksum(json)} ` ? parseJson(json) : undefined
}
