// How the journal is written: one entry per line, each with a checksum of its own, so that a line that a
// crash tore, or a disk spoiled, is told from one that was meant. Pure.
import { crc32 } from 'node:zlib'
import { Failure, NodeId, OperationId } from '@muster/protocol'
import { z } from 'zod'
import { Order, Outcome } from './order.ts'

/** Raised when an older worker could no longer make sense of the file. New kinds of entries alone don't. */
const format = 1

const id = z.number().int().min(0)
const boot = z.number().int().min(0)

export const Entry = z.discriminatedUnion('type', [
  /** A start of the worker. */
  z.object({ type: z.literal('boot'), boot }),
  /** Whose generations these are. */
  z.object({ type: z.literal('node'), node: NodeId }),
  z.object({ type: z.literal('order'), id, order: Order }),
  z.object({ type: z.literal('join'), id, op_id: OperationId.optional(), epoch: z.number().int().min(0).optional() }),
  z.object({ type: z.literal('cancel'), id, failure: Failure }),
  z.object({ type: z.literal('end'), id, boot, outcome: Outcome }),
])
export type Entry = z.infer<typeof Entry>

export type ReadJournal =
  | Readonly<{ state: 'newer'; format: number }>
  /** `length`: where the next line goes; beyond it is only a line that was never finished. */
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

/** Undefined: not what was written. */
function valueOf(line: string): unknown {
  const json = line.slice(9)
  if (line.slice(0, 9) !== `${checksum(json)} `) return undefined
  try {
    return JSON.parse(json)
  } catch {
    return undefined
  }
}
