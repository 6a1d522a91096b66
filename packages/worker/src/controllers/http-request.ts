// HTTP requests over node:http(s), bounded in time and size, without redirects: one for JSON, one for a stream.
import { type IncomingMessage, request as httpRequest } from 'node:http'
import { request as httpsRequest } from 'node:https'
import { parseJson, withDeadline, type Clock } from '@muster/host'
import { FleetError } from '@muster/protocol'
import { type OutboundResponse, readAll, responseOf, watchBody } from '@muster/source'

export type JsonRequest = Readonly<{
  method: string
  url: URL
  headers: Readonly<Record<string, string>>
  body: Uint8Array
  timeoutMs: number
  signal: AbortSignal
}>

/** `body` is undefined when it is not JSON. */
export type JsonResponse = Readonly<{ status: number; headers: IncomingMessage['headers']; body: unknown }>

const largestBody = 1_000_000

/** Throws when there is no complete response: unreachable, too slow, too large, cut off. */
export async function requestJson({ method, url, headers, body, timeoutMs, signal }: JsonRequest): Promise<JsonResponse> {
  const timeout = AbortSignal.timeout(timeoutMs)
  try {
    const response = await new Promise<IncomingMessage>((resolve, reject) => {
      const send = url.protocol === 'https:' ? httpsRequest : httpRequest
      const request = send(url, {
        method,
        // A new connection each time: polls are half a minute apart, and a kept one would mostly be closed already.
        agent: false,
        signal: AbortSignal.any([signal, timeout]),
        headers: { ...headers, 'content-type': 'application/json', 'content-length': body.byteLength, accept: 'application/json' },
      })
      request.once('response', resolve).once('error', reject)
      request.end(body)
    })
    const text = (await readAll(response, { maxBytes: largestBody, what: 'the response' })).toString('utf8')
    return { status: response.statusCode ?? 0, headers: response.headers, body: parseJson(text) }
  } catch (error) {
    signal.throwIfAborted()
    if (timeout.aborted) throw new Error(`no answer within ${timeoutMs} ms`, { cause: error })
    throw error
  }
}

type StreamRequest = Readonly<{
  url: URL
  headers: Readonly<Record<string, string>>
  /** Called when a response is cut off or stalls. */
  onBroken: () => void
  clock: Clock
  signal: AbortSignal
}>

/** Until the response begins. A controller serves content from its own disk. */
const headersMs = 10_000
/** A body that brings next to nothing for this long, while the reader waits, has stalled. */
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
  return responseOf(message, body, { url, what: `the answer of ${url.origin}` })
}

async function begin({ url, headers, clock, signal }: StreamRequest): Promise<IncomingMessage> {
  return await withDeadline({ clock, ms: headersMs, what: url.origin, signal }, (limit) => {
    const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>()
    const send = url.protocol === 'https:' ? httpsRequest : httpRequest
    const request = send(url, { agent: false, headers, signal: limit })
    // Later errors appear on the response.
    request.once('response', resolve).on('error', reject)
    request.end()
    return promise
  })
}
