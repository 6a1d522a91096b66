// Opens a stream at the end of an earlier attempt, from a server that may or may not support ranges.
import { Readable } from 'node:stream'
import { FleetError } from '@muster/protocol'
import type { OutboundResponse } from './outbound.ts'

export type OpenedStream = Readonly<{
  stream: Readable
  /** The actual start of the stream. */
  offset: number
  /** The total size, if the server reports it. */
  size: number | null
  /** Its name in errors. */
  what?: string
  /** Identifies this content among others under the same name; null when the server sends no tag. */
  validator: string | null
}>

export interface ResumeRequest {
  /** One request with these headers; throws on an unexpected status. */
  readonly request: (headers: Readonly<Record<string, string>>, okStatuses: readonly number[]) => Promise<OutboundResponse>
  /** Its name in errors. */
  readonly what: string
  /** The tag of the partial content; other content is sent from its beginning. */
  readonly validator?: string | null
}

export async function openAtOffset(offset: number, resume: ResumeRequest): Promise<OpenedStream> {
  // Another range than the requested one is useless: fetch from the beginning.
  const opened = (await tryOpen(offset, resume)) ?? (await tryOpen(0, resume))
  if (opened !== null) return { ...opened, what: resume.what }
  throw new FleetError({
    code: 'unavailable',
    retry: 'backoff',
    message: `${resume.what} was answered with a range that was not requested`,
  })
}

async function tryOpen(offset: number, { request, validator = null }: ResumeRequest): Promise<OpenedStream | null> {
  if (offset === 0) return begin(await request({}, [200]), offset)
  const ifSame: Record<string, string> = validator === null ? {} : { 'if-range': validator }
  return begin(await request({ range: `bytes=${offset}-`, ...ifSame }, [200, 206, 416]), offset)
}

function begin({ status, headers, body }: OutboundResponse, offset: number): OpenedStream | null {
  const validator = validatorOf(headers)
  if (status === 200) return { stream: body, offset: 0, size: sizeOf(headers['content-length']), validator }
  const range = status === 206 ? parseContentRange(headers['content-range']) : null
  if (range?.from === offset) return { stream: body, offset, size: range.size, validator }
  body.destroy()
  // The content is already complete.
  const isWhole = status === 416 && parseUnsatisfiedRange(headers['content-range']) === offset
  return isWhole ? { stream: Readable.from([]), offset, size: offset, validator } : null
}

/** A weak tag does not promise the same bytes; a date only counts when it is at least a minute old. */
function validatorOf(headers: OutboundResponse['headers']): string | null {
  const tag = headers['etag']
  if (tag !== undefined && /^"[\x21\x23-\x7e]{1,500}"$/.test(tag)) return tag
  const modified = headers['last-modified'] ?? ''
  return Date.parse(headers['date'] ?? '') - Date.parse(modified) >= 60_000 ? modified : null
}

const sizeOf = (header: string | undefined): number | null => (header !== undefined && /^\d{1,15}$/.test(header) ? Number(header) : null)

// Parses Content-Range.
export type ContentRange = Readonly<{ from: number; to: number; size: number | null }>

/** Null unless it is one well-formed range of bytes. */
export function parseContentRange(header: string | undefined): ContentRange | null {
  const [, from, to, size] = /^bytes (\d{1,15})-(\d{1,15})\/(\d{1,15}|\*)$/.exec(header?.trim() ?? '') ?? []
  if (from === undefined || to === undefined) return null
  const range = { from: Number(from), to: Number(to), size: size === '*' ? null : Number(size) }
  return range.from <= range.to && (range.size === null || range.to < range.size) ? range : null
}

/** The total size in a 416: `bytes` with a star for the range. */
export function parseUnsatisfiedRange(header: string | undefined): number | null {
  const [, size] = /^bytes \*\/(\d{1,15})$/.exec(header?.trim() ?? '') ?? []
  return size === undefined ? null : Number(size)
}
