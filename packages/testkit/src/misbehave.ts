// How a registry fixture sends a body: right, or wrong in one way.
import type { IncomingMessage, ServerResponse } from 'node:http'
import { setTimeout as delay } from 'node:timers/promises'

/** A change to the right answer, or a replacement of it. */
export type Behaviour =
  | {
      readonly do: 'answer'
      readonly status: number
      readonly headers?: Readonly<Record<string, string>>
      readonly body?: string | Uint8Array
    }
  | { readonly do: 'redirect'; readonly to: string; readonly status?: number }
  /** Accepts the request and never answers. */
  | { readonly do: 'hang' }
  /** Closes the connection without a word. */
  | { readonly do: 'reset' }
  /** Other headers on the right answer. */
  | { readonly do: 'lie'; readonly headers: Readonly<Record<string, string>> }
  | { readonly do: 'ignore ranges' }
  /** The headers promise everything, the connection ends after so many bytes. */
  | { readonly do: 'truncate'; readonly atBytes: number }
  /** Sends so many bytes and then nothing, for as long as the client waits. */
  | { readonly do: 'stall'; readonly atBytes: number }
  /** One bit of this byte is another. */
  | { readonly do: 'corrupt'; readonly byte: number }
  /** Other content under the same name. */
  | { readonly do: 'replace'; readonly bytes: Uint8Array }
  | { readonly do: 'slow'; readonly chunkBytes: number; readonly everyMs: number }
  /** No length, no end: the client can only count. */
  | { readonly do: 'endless' }

interface Sending {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly bytes: Buffer
  readonly mediaType: string
  /** Its name in the registry. */
  readonly key?: string
  readonly etag?: string
  readonly tally: { from: number; bytes: number }
  readonly behaviour?: Behaviour
}

const chunkBytes = 64 * 1024

export function sendBytes(sending: Sending): void {
  const { request, response, behaviour, tally } = sending
  const bytes = altered(sending.bytes, behaviour)
  const ifRange = request.headers['if-range']
  const isOther = ifRange !== undefined && ifRange !== sending.etag
  const range = behaviour?.do === 'ignore ranges' || isOther ? null : rangeOf(request.headers.range)
  const headers: Record<string, string> = { 'content-type': sending.mediaType }
  if (sending.key !== undefined) headers['docker-content-digest'] = sending.key
  if (sending.etag !== undefined) headers['etag'] = sending.etag
  const lies = behaviour?.do === 'lie' ? behaviour.headers : {}
  if (range !== null && range.from >= bytes.length)
    return void response.writeHead(416, { 'content-range': `bytes */${bytes.length}`, ...lies }).end()
  const from = range?.from ?? 0
  const part = bytes.subarray(from, Math.min(range?.to ?? bytes.length, bytes.length))
  tally.from = from
  if (range !== null) headers['content-range'] = `bytes ${from}-${from + part.length - 1}/${bytes.length}`
  if (behaviour?.do !== 'endless') headers['content-length'] = String(part.length)
  response.writeHead(range === null ? 200 : 206, { ...headers, ...lies })
  if (request.method === 'HEAD') return void response.end()
  send(part, sending).catch(() => response.destroy())
}

async function send(part: Buffer, { response, behaviour, tally }: Sending): Promise<void> {
  const cut = behaviour?.do === 'truncate' || behaviour?.do === 'stall' ? behaviour.atBytes : part.length
  const step = behaviour?.do === 'slow' ? behaviour.chunkBytes : chunkBytes
  for (let at = 0; at < cut && !response.destroyed; at += step) {
    const chunk = part.subarray(at, Math.min(at + step, cut))
    tally.bytes += chunk.length
    await written(response, chunk)
    if (behaviour?.do === 'slow') await delay(behaviour.everyMs)
  }
  while (behaviour?.do === 'endless' && !response.destroyed) await written(response, Buffer.alloc(chunkBytes))
  if (behaviour?.do === 'stall') return
  if (behaviour?.do === 'truncate') return void response.destroy()
  response.end()
}

/** Until the network took it, or the client has gone. */
function written(response: ServerResponse, chunk: Uint8Array): Promise<void> {
  return new Promise((resolve, reject) => {
    const gone = (): void => reject(new Error('the client has gone'))
    response.once('close', gone)
    response.write(chunk, (error) => {
      response.off('close', gone)
      if (error) reject(error)
      else resolve()
    })
  })
}

function altered(bytes: Buffer, behaviour: Behaviour | undefined): Buffer {
  if (behaviour?.do === 'replace') return Buffer.from(behaviour.bytes)
  if (behaviour?.do !== 'corrupt') return bytes
  const copy = Buffer.from(bytes)
  copy.writeUInt8(copy.readUInt8(behaviour.byte) ^ 1, behaviour.byte)
  return copy
}

function rangeOf(header: string | undefined): { from: number; to?: number } | null {
  const [, from, to] = /^bytes=(\d+)-(\d*)$/.exec(header ?? '') ?? []
  if (from === undefined) return null
  return { from: Number(from), ...(to ? { to: Number(to) + 1 } : {}) }
}

/** The behaviours that need no right answer. */
export function answered(response: ServerResponse, behaviour: Behaviour): boolean {
  switch (behaviour.do) {
    case 'answer':
      response.writeHead(behaviour.status, behaviour.headers).end(behaviour.body)
      return true
    case 'redirect':
      response.writeHead(behaviour.status ?? 307, { location: behaviour.to }).end()
      return true
    case 'hang':
      return true
    case 'reset':
      response.destroy()
      return true
    default:
      return false
  }
}
