// A stream that begins where an earlier attempt ended, from a server that may or may not know ranges.
import { Readable } from 'node:stream'
import { FleetError } from '@muster/protocol'
import { parseContentRange, parseUnsatisfiedRange } from './content-range.ts'
import type { OutboundResponse } from './outbound.ts'

/** `offset` is where the stream really begins; `size` is that of the whole, as far as the server says. */
export type OpenedStream = Readonly<{ stream: Readable; offset: number; size: number | null }>

/** One request with these headers; any status that is not fine throws. */
type Ask = (headers: Readonly<Record<string, string>>, fine: readonly number[]) => Promise<OutboundResponse>

export async function openFrom(offset: number, ask: Ask, what: string): Promise<OpenedStream> {
  // Another part than the one that was asked for is of no use; then it is fetched from its beginning.
  const opened = (await tryOpen(offset, ask)) ?? (await tryOpen(0, ask))
  if (opened !== null) return opened
  throw new FleetError({ code: 'unavailable', retry: 'backoff', message: `${what} comes in parts that nobody asked for` })
}

async function tryOpen(offset: number, ask: Ask): Promise<OpenedStream | null> {
  if (offset === 0) return begin(await ask({}, [200]), offset)
  return begin(await ask({ range: `bytes=${offset}-` }, [200, 206, 416]), offset)
}

function begin({ status, headers, body }: OutboundResponse, offset: number): OpenedStream | null {
  if (status === 200) return { stream: body, offset: 0, size: sizeOf(headers['content-length']) }
  const range = status === 206 ? parseContentRange(headers['content-range']) : null
  if (range?.from === offset) return { stream: body, offset, size: range.size }
  body.destroy()
  // Nothing is left to send of what is there to its last byte.
  const isWhole = status === 416 && parseUnsatisfiedRange(headers['content-range']) === offset
  return isWhole ? { stream: Readable.from([]), offset, size: offset } : null
}

const sizeOf = (header: string | undefined): number | null => (header !== undefined && /^\d{1,15}$/.test(header) ? Number(header) : null)
