// Forwards one HTTP request to a backend and its response back, unparsed and with back-pressure in both directions. When
// either side disconnects, the other is ended at once.
import type { IncomingMessage, ServerResponse } from 'node:http'
import { PassThrough, type Readable } from 'node:stream'
import type { Dispatcher } from 'undici'
import { FleetError } from '@muster/protocol'

export type ForwardOptions = Readonly<{
  path: string
  /** Added to the response. */
  headers: Readonly<Record<string, string>>
  /** Makes the error that is thrown when there is no response. */
  unreachable: (error: unknown) => Error
}>

/** A small body is read first and sent together with its head: half the cost, and the request can still go to another replica. */
const smallBodyBytes = 64 * 1024

/** Resolves when the exchange is over; rejects when it failed before the response began. */
export async function forward(
  dispatcher: Dispatcher,
  request: IncomingMessage,
  response: ServerResponse,
  forwarding: ForwardOptions,
): Promise<void> {
  const body = await bodyOf(request)
  if (body === 'gone' || response.destroyed) return
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const exchange = new Exchange(response, forwarding, reject)
  response.once('close', () => {
    exchange.callerLeft()
    // A response may come before the whole body was read; the rest would block the connection's next request.
    if (!request.complete) request.unpipe().resume()
    resolve()
  })
  dispatcher.dispatch({ path: forwarding.path, method: request.method ?? 'GET', headers: toBackend(request.rawHeaders), body }, exchange)
  await promise
}

class Exchange implements Dispatcher.DispatchHandler {
  readonly #response: ServerResponse
  readonly #forwarding: ForwardOptions
  readonly #reject: (error: Error) => void
  #upstream: Dispatcher.DispatchController | null = null
  #hasBegun = false
  #hasWritten = false
  #isOver = false

  constructor(response: ServerResponse, forwarding: ForwardOptions, reject: (error: Error) => void) {
    this.#response = response
    this.#forwarding = forwarding
    this.#reject = reject
  }

  callerLeft(): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#upstream?.abort(new Error('the caller disconnected'))
  }

  onRequestStart(upstream: Dispatcher.DispatchController): void {
    this.#upstream = upstream
    if (this.#isOver) upstream.abort(new Error('the caller disconnected'))
  }

  onResponseStart(upstream: Dispatcher.DispatchController, status: number, headers: Record<string, unknown>, message?: string): void {
    if (status < 200 || this.#isOver) return
    if (!isFramed(this.#response.req.method, status, headers)) return this.#refuse(upstream)
    this.#hasBegun = true
    const raw = [...toCaller(textsOf(upstream.rawHeaders)), ...Object.entries(this.#forwarding.headers).flat()]
    this.#response.writeHead(status, message, raw)
    this.#response.on('drain', () => upstream.resume())
    // Nearly always the first bytes arrive with the head; then they are sent together.
    process.nextTick(() => this.#flushHead())
  }

  onResponseData(upstream: Dispatcher.DispatchController, chunk: Buffer): void {
    this.#hasWritten = true
    if (!this.#response.write(chunk)) upstream.pause()
  }

  onResponseEnd(): void {
    this.#isOver = true
    this.#response.end()
  }

  onResponseError(_upstream: Dispatcher.DispatchController, error: Error): void {
    if (this.#isOver) return
    this.#isOver = true
    // Cut, not ended: the caller sees that the last chunk, or a part of the length, is missing.
    if (this.#hasBegun) this.#response.destroy()
    else this.#reject(this.#forwarding.unreachable(error))
  }

  #flushHead(): void {
    if (!this.#hasWritten && !this.#response.writableEnded && !this.#response.destroyed) this.#response.flushHeaders()
  }

  #refuse(upstream: Dispatcher.DispatchController): void {
    const why = 'the response of the backend has neither a length nor chunks, so its end cannot be told from a crash'
    this.#isOver = true
    this.#reject(new FleetError({ code: 'incompatible', retry: 'never', message: why }))
    upstream.abort(new Error(why))
  }
}

function isFramed(method: string | undefined, status: number, headers: Record<string, unknown>): boolean {
  if (method === 'HEAD' || status === 204 || status === 304) return true
  return headers['content-length'] !== undefined || isChunked(headers['transfer-encoding'])
}

const isChunked = (coding: unknown): boolean => typeof coding === 'string' && /chunked\s*$/i.test(coding)

function textsOf(raw: Dispatcher.DispatchController['rawHeaders']): string[] {
  return Array.isArray(raw) ? raw.map((each) => (typeof each === 'string' ? each : each.toString('latin1'))) : []
}

async function bodyOf(request: IncomingMessage): Promise<Buffer | Readable | null | 'gone'> {
  const length = request.headers['content-length']
  if (request.headers['transfer-encoding'] === undefined && Number(length ?? 0) === 0) return null
  if (length !== undefined && Number(length) <= smallBodyBytes) return await collect(request)
  // undici destroys the body of a failed request; the stream in between keeps it from closing the caller's connection.
  const through = new PassThrough()
  request.once('close', () => request.complete || through.destroy(new Error('the caller disconnected')))
  return request.pipe(through)
}

function collect(request: IncomingMessage): Promise<Buffer | 'gone'> {
  return new Promise((resolve) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.once('end', () => resolve(chunks.length === 1 ? (chunks[0] ?? Buffer.alloc(0)) : Buffer.concat(chunks)))
    request.once('close', () => resolve('gone'))
    request.once('error', () => resolve('gone'))
  })
}

// Headers are flat lists, as node and undici take them: name, value, name, value.

/** Headers of a connection, not of the message. The gateway answers `expect`. */
const hopByHop = [
  'connection',
  'keep-alive',
  'proxy-connection',
  'proxy-authenticate',
  'proxy-authorization',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'http2-settings',
  'expect',
]
/** A backend gets neither credentials nor the caller's address; `host` is its own. */
const notForBackends = new Set([...hopByHop, 'host', 'authorization', 'cookie', 'x-api-key', 'forwarded', 'x-forwarded-for', 'x-real-ip'])
/** The page and the API have one origin: a hostile model must not touch their cookies. */
const notForCallers = new Set([...hopByHop, 'set-cookie', 'set-cookie2', 'clear-site-data', 'strict-transport-security'])
/** Headers that only the gateway sets. */
const gatewayPrefix = 'x-muster-'

export const toBackend = (raw: readonly string[]): string[] => pass(raw, notForBackends)
export const toCaller = (raw: readonly string[]): string[] => pass(raw, notForCallers)

function pass(raw: readonly string[], banned: ReadonlySet<string>): string[] {
  const named = namedByConnection(raw)
  const passed: string[] = []
  for (let at = 0; at + 1 < raw.length; at += 2) {
    const [name, value] = [raw[at] ?? '', raw[at + 1] ?? '']
    const key = name.toLowerCase()
    if (!banned.has(key) && !named.has(key) && !key.startsWith(gatewayPrefix)) passed.push(name, value)
  }
  return passed
}

/** `Connection: x` makes `X` a header of the connection, except for length and type of the content. */
function namedByConnection(raw: readonly string[]): ReadonlySet<string> {
  const named = new Set<string>()
  for (let at = 0; at + 1 < raw.length; at += 2) {
    if (raw[at]?.toLowerCase() !== 'connection') continue
    for (const each of (raw[at + 1] ?? '').split(',')) named.add(each.trim().toLowerCase())
  }
  named.delete('content-length')
  named.delete('content-type')
  return named
}
