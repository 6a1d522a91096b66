// One GET over node:http(s) whose answer is read as it comes: bounded in time, following nothing.
import { request as httpRequest, type IncomingMessage } from 'node:http'
import { request as httpsRequest } from 'node:https'
import type { Clock } from '@muster/host'
import { FleetError } from '@muster/protocol'
import { readAll, watchBody, type OutboundResponse } from '@muster/source'

export type StreamRequest = Readonly<{
  url: URL
  headers: Readonly<Record<string, string>>
  /** The answer had begun, and was cut off or stalled. */
  onBroken: () => void
  clock: Clock
  signal: AbortSignal
}>

/** Until the answer begins. A controller reads what it serves from its own disk. */
const headersMs = 10_000
/** A body that brings next to nothing for this long, while somebody wants to read it, has stalled. */
const stallMs = 20_000

export async function openStream(options: StreamRequest): Promise<OutboundResponse> {
  const { url, clock, signal, onBroken } = options
  const message = await begin(options)
  const body = watchBody(message, {
    stallMs,
    clock,
    signal,
    failed: (reason, cause) => {
      onBroken()
      return new FleetError({ code: 'unavailable', retry: 'backoff', message: `${url.origin}: ${reason}` }, { cause })
    },
  })
  const bytes = (maxBytes: number): Promise<Buffer> => readAll(body, { maxBytes, what: `the answer of ${url.origin}` })
  const headers = Object.entries(message.headers).filter((entry): entry is [string, string] => typeof entry[1] === 'string')
  return {
    status: message.statusCode ?? 0,
    headers: Object.fromEntries(headers),
    url,
    body,
    bytes,
    text: async (maxBytes) => (await bytes(maxBytes)).toString('utf8'),
  }
}

async function begin({ url, headers, clock, signal }: StreamRequest): Promise<IncomingMessage> {
  const late = new AbortController()
  const answered = new AbortController()
  clock.sleep(headersMs, answered.signal).then(
    () => late.abort(),
    () => undefined,
  )
  try {
    return await new Promise<IncomingMessage>((resolve, reject) => {
      const send = url.protocol === 'https:' ? httpsRequest : httpRequest
      const request = send(url, { agent: false, headers, signal: AbortSignal.any([signal, late.signal]) })
      // Whatever goes wrong once it has begun is told by the answer itself.
      request.once('response', resolve).on('error', reject)
      request.end()
    })
  } catch (error) {
    signal.throwIfAborted()
    throw late.signal.aborted ? new Error(`no answer within ${headersMs} ms`, { cause: error }) : error
  } finally {
    answered.abort()
  }
}
