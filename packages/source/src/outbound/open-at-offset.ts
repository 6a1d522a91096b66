// A stream that begins where an earlier attempt ended, from a server that may or may not know ranges.
import { Readable } from 'node:stream'
import { FleetError } from '@muster/protocol'
import type { OutboundResponse } from './outbound.ts'

export type OpenedStream = Readonly<{
  stream: Readable
  /** Where the stream really begins. */
  offset: number
  /** Of the whole, as far as the server says. */
  size: number | null
  /** Tells this content from another one under the same name; null when the server has no way to. */
  validator: string | null
}>

export interface ResumeRequest {
  /** One request with these headers; any status that is not fine throws. */
  readonly ask: (headers: Readonly<Record<string, string>>, fine: readonly number[]) => Promise<OutboundResponse>
  /** For a person. */
  readonly what: string
  /** Of what is here already; what has another one is sent from its beginning. */
  readonly validator?: string | null
}

export async function openAtOffset(offset: number, asked: ResumeRequest): Promise<OpenedStream> {
  // Another part than the one that was asked for is of no use; then it is fetched from its beginning.
  const opened = (await tryOpen(offset, asked)) ?? (await tryOpen(0, asked))
  if (opened !== null) return opened
  throw new FleetError({ code: 'unavailable', retry: 'backoff', message: `${asked.what} comes in parts that nobody asked for` })
}

async function tryOpen(offset: number, { ask, validator = null }: ResumeRequest): Promise<OpenedStream | null> {
  if (offset === 0) return begin(await ask({}, [200]), offset)
  const ifSame: Record<string, string> = validator === null ? {} : { 'if-range': validator }
  return begin(await ask({ range: `bytes=${offset}-`, ...ifSame }, [200, 206, 416]), offset)
}

function begin({ status, headers, body }: OutboundResponse, offset: number): OpenedStream | null {
  const validator = validatorOf(headers)
  if (status === 200) return { stream: body, offset: 0, size: sizeOf(headers['content-length']), validator }
  const range = status === 206 ? parseContentRange(headers['content-range']) : null
  if (range?.from === offset) return { stream: body, offset, size: range.size, validator }
  body.destroy()
  // Nothing is left to send of what is there to its last byte.
  const isWhole = status === 416 && parseUnsatisfiedRange(headers['content-range']) === offset
  return isWhole ? { stream: Readable.from([]), offset, size: offset, validator } : null
}

/** A weak tag means the same to people, not the same bytes; a date is worth what a minute's distance to now makes it. */
function validatorOf(headers: OutboundResponse['headers']): string | null {
  const tag = headers['etag']
  if (tag !== undefined && /^"[\x21\x23-\x7e]{1,500}"$/.test(tag)) return tag
  const modified = headers['last-modified'] ?? ''
  return Date.parse(headers['date'] ?? '') - Date.parse(modified) >= 60_000 ? modified : null
}

const sizeOf = (header: string | undefined): number | null => (header !== undefined && /^\d{1,15}$/.test(header) ? Number(header) : null)

// Content-Range: which part of a blob an answer is.
export type ContentRange = Readonly<{ from: number; to: number; size: number | null }>

/** Null for everything that is not one well-formed range of bytes. */
export function parseContentRange(header: string | undefined): ContentRange | null {
  const [, from, to, size] = /^bytes (\d{1,15})-(\d{1,15})\/(\d{1,15}|\*)$/.exec(header?.trim() ?? '') ?? []
  if (from === undefined || to === undefined) return null
  const range = { from: Number(from), to: Number(to), size: size === '*' ? null : Number(size) }
  return range.from <= range.to && (range.size === null || range.to < range.size) ? range : null
}

/** Of a 416, which says how large the blob is: `bytes` and a star for the part. */
export function parseUnsatisfiedRange(header: string | undefined): number | null {
  const [, size] = /^bytes \*\/(\d{1,15})$/.exec(header?.trim() ?? '') ?? []
  return size === undefined ? null : Number(size)
}
