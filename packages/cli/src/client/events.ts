// Follows GET /api/events: reconnects with `Last-Event-ID` and yields `connected` each time, because the caller must then
// read the current state again.
import type { IncomingMessage } from 'node:http'
import { type Clock, errorMessage } from '@muster/host'
import { backoffMs, createSseParser, type ServerEvent, systemRoutes } from '@muster/protocol'
import { CliError } from '../cli-error.ts'
import type { ApiClient } from './api-client.ts'

export type StreamItem =
  | { readonly kind: 'connected' }
  | { readonly kind: 'event'; readonly event: ServerEvent }
  /** The connection broke; the next item is `connected`, or the iteration throws. */
  | { readonly kind: 'lost'; readonly reason: string }

export interface FollowOptions {
  readonly api: Pick<ApiClient, 'open'>
  readonly clock: Clock
  readonly signal: AbortSignal
  /** No byte for this long means the connection is dead: three of the server's pings (15 s) missed. */
  readonly silenceMs?: number
}

const retry = { baseMs: 500, maxMs: 10_000, jitter: 0 }

/** Ends when the signal aborts. Throws when the first connection fails, or when the server refuses a later one. */
export async function* followEvents({ api, clock, signal, silenceMs = 45_000 }: FollowOptions): AsyncGenerator<StreamItem, void, void> {
  let lastEventId = ''
  let failures = 0
  let wasConnected = false
  while (!signal.aborted) {
    try {
      const response = await api.open(systemRoutes.events, { headers: headersFor(lastEventId), signal })
      wasConnected = true
      yield { kind: 'connected' }
      for await (const event of eventsOf(response, { lastEventId, silenceMs })) {
        failures = 0
        lastEventId = event.lastEventId
        yield { kind: 'event', event }
      }
      yield { kind: 'lost', reason: 'the controller closed the connection' }
    } catch (error) {
      if (signal.aborted) return
      if (!wasConnected || isFinal(error)) throw error
      yield { kind: 'lost', reason: errorMessage(error) }
    }
    await clock.sleep(backoffMs(failures + 1, retry, 0), signal).catch(() => undefined)
    failures += 1
  }
}

const headersFor = (lastEventId: string): Record<string, string> => ({
  accept: 'text/event-stream',
  ...(lastEventId === '' ? {} : { 'last-event-id': lastEventId }),
})

async function* eventsOf(
  response: IncomingMessage,
  { lastEventId, silenceMs }: { lastEventId: string; silenceMs: number },
): AsyncGenerator<ServerEvent, void, void> {
  const parser = createSseParser(lastEventId)
  response.setEncoding('utf8')
  response.setTimeout(silenceMs, () => response.destroy(new Error(`no data for ${silenceMs / 1000} s`)))
  try {
    for await (const chunk of response) yield* parser.push(String(chunk))
  } finally {
    response.destroy()
  }
}

/** True when a retry cannot help: another key or address is needed. An unreachable or busy server may come back. */
export const isFinal = (error: unknown): boolean =>
  error instanceof CliError && error.status !== null && error.status < 500 && error.status !== 429
