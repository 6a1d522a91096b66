// A body on its way: notices that it stalls, and says in our words how it ended.
import type { IncomingMessage } from 'node:http'
import { PassThrough, type Readable } from 'node:stream'
import type { Clock } from '@muster/host'

/** 10 kB in 30 s: slower than any line that is worth waiting for, faster than one byte a second to hold us up. */
const leastBytesPerSecond = 341
const checksPerWindow = 8

interface BodyOptions {
  readonly stallMs: number
  readonly clock: Clock
  readonly signal: AbortSignal
  /** Makes the failure from what Node says about it. */
  readonly failed: (reason: string, cause?: unknown) => Error
}

export function watchBody(message: IncomingMessage, { stallMs, clock, signal, failed }: BodyOptions): Readable {
  const body = new PassThrough({ highWaterMark: 256 * 1024 })
  const arrived = new AbortController()
  let bytes = 0
  // A body that nobody reads may fail without anybody to tell.
  body.on('error', () => undefined)
  body.once('close', () => {
    arrived.abort()
    message.destroy()
  })
  message.on('data', (chunk: Buffer) => (bytes += chunk.length))
  // All of it is here: now it may wait to be read for as long as it takes.
  message.once('end', () => arrived.abort())
  message.on('error', (error) => body.destroy(signal.aborted ? reasonOf(signal) : failed('the answer was cut off', error)))
  message.once('close', () => {
    if (!message.complete) body.destroy(signal.aborted ? reasonOf(signal) : failed('the answer was cut off'))
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
      // Whoever reads is busy: that is not the sender's fault.
      if (body.writableNeedDrain) window = { from: now, bytes }
      if (now - window.from < stallMs) continue
      if (bytes - window.bytes < least) return void body.destroy(failed(`only ${bytes - window.bytes} bytes came in ${stallMs} ms`))
      window = { from: now, bytes }
    }
  }
}

export const reasonOf = (signal: AbortSignal): Error =>
  signal.reason instanceof Error ? signal.reason : new Error('aborted', { cause: signal.reason })
