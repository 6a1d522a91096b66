// Watches a response body: detects stalls, and converts failures to FleetErrors.
import type { IncomingMessage } from 'node:http'
import { PassThrough, type Readable } from 'node:stream'
import type { Clock } from '@muster/host'
import { FleetError } from '@muster/protocol'
import type { OutboundResponse } from './outbound.ts'

/** 10 kB in 30 s: slower than any useful connection, faster than a server that sends a byte per second. */
const leastBytesPerSecond = 341
const checksPerWindow = 8

interface BodyOptions {
  readonly stallMs: number
  readonly clock: Clock
  readonly signal: AbortSignal
  /** Makes the failure from Node's error. */
  readonly failed: (reason: string, cause?: unknown) => Error
}

export function watchBody(message: IncomingMessage, { stallMs, clock, signal, failed }: BodyOptions): Readable {
  const body = new PassThrough({ highWaterMark: 256 * 1024 })
  const arrived = new AbortController()
  let bytes = 0
  // A body without a reader may fail without a listener.
  body.on('error', () => undefined)
  body.once('close', () => {
    arrived.abort()
    message.destroy()
  })
  message.on('data', (chunk: Buffer) => (bytes += chunk.length))
  // The body is complete: the reader may take its time.
  message.once('end', () => arrived.abort())
  message.on('error', (error) => body.destroy(signal.aborted ? abortReason(signal) : failed('the answer was cut off', error)))
  message.once('close', () => {
    if (!message.complete) body.destroy(signal.aborted ? abortReason(signal) : failed('the answer was cut off'))
  })
  message.pipe(body)
  void watch()
  return body

  async function watch(): Promise<void> {
    const least = (leastBytesPerSecond * stallMs) / 1000
    let window = { from: clock.monotonic(), bytes: 0 }
    for (;;) {
      try {
        await clock.sleep(stallMs / checksPerWindow, arrived.signal)
      } catch {
        return
      }
      const now = clock.monotonic()
      // The reader is busy: not a stall of the sender.
      if (body.writableNeedDrain) window = { from: now, bytes }
      if (now - window.from < stallMs) continue
      if (bytes - window.bytes < least) return void body.destroy(failed(`only ${bytes - window.bytes} bytes came in ${stallMs} ms`))
      window = { from: now, bytes }
    }
  }
}

export const abortReason = (signal: AbortSignal): Error =>
  signal.reason instanceof Error ? signal.reason : new Error('aborted', { cause: signal.reason })

// Reads a whole body into memory, up to a limit.
export async function readAll(body: Readable, { maxBytes, what }: { maxBytes: number; what: string }): Promise<Buffer> {
  const chunks: Buffer[] = []
  let length = 0
  for await (const chunk of body) {
    if (!Buffer.isBuffer(chunk)) throw new Error('a body of bytes gave something else')
    length += chunk.length
    // Leaving the loop destroys the body.
    if (length > maxBytes) throw new FleetError({ code: 'invalid', retry: 'never', message: `${what} is larger than ${maxBytes} bytes` })
    chunks.push(chunk)
  }
  return Buffer.concat(chunks, length)
}

/** A response as its callers read it. `what` names the body in errors. */
export function responseOf(message: IncomingMessage, body: Readable, { url, what }: { url: URL; what: string }): OutboundResponse {
  const headers = Object.entries(message.headers).filter((entry): entry is [string, string] => typeof entry[1] === 'string')
  const bytes = (maxBytes: number): Promise<Buffer> => readAll(body, { maxBytes, what })
  const text = async (maxBytes: number): Promise<string> => (await bytes(maxBytes)).toString('utf8')
  return { status: message.statusCode ?? 0, headers: Object.fromEntries(headers), url, body, bytes, text }
}
