// One request to a backend that speaks HTTP, and its answer, as they are: bytes pass in both directions as fast as the
// slower side takes them, and nothing is parsed. Either side's going away ends the other at once.
import type { IncomingMessage, ServerResponse } from 'node:http'
import { PassThrough, type Readable } from 'node:stream'
import { FleetError } from '@muster/protocol'
import type { Dispatcher } from 'undici'
import { toBackend, toCaller } from './hop-headers.ts'

export type Forwarding = Readonly<{
  path: string
  /** Go on the answer. */
  headers: Readonly<Record<string, string>>
  /** What is thrown when there is no answer. */
  unreachable: (error: unknown) => Error
}>

/** Read first, then sent in one piece with its head: half the cost, and a caller can still be told that nobody is there. */
const smallBodyBytes = 64 * 1024

/** Resolves when it is over, whichever way; rejects when nothing was answered and nobody is left to hear of it but the caller. */
export async function forward(
  dispatcher: Dispatcher,
  request: IncomingMessage,
  response: ServerResponse,
  forwarding: Forwarding,
): Promise<void> {
  const body = await bodyOf(request)
  if (body === 'gone' || response.destroyed) return
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const exchange = new Exchange(response, forwarding, reject)
  response.once('close', () => {
    exchange.callerLeft()
    // An answer may come before all was read: what is left of the body is in the way of the connection's next request.
    if (!request.complete) request.unpipe().resume()
    resolve()
  })
  dispatcher.dispatch({ path: forwarding.path, method: request.method ?? 'GET', headers: toBackend(request.rawHeaders), body }, exchange)
  await promise
}

class Exchange implements Dispatcher.DispatchHandler {
  readonly #response: ServerResponse
  readonly #forwarding: Forwarding
  readonly #reject: (error: Error) => void
  #upstream: Dispatcher.DispatchController | null = null
  #hasBegun = false
  #hasWritten = false
  #isOver = false

  constructor(response: ServerResponse, forwarding: Forwarding, reject: (error: Error) => void) {
    this.#response = response
    this.#forwarding = forwarding
    this.#reject = reject
  }

  callerLeft(): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#upstream?.abort(new Error('the caller went away'))
  }

  onRequestStart(upstream: Dispatcher.DispatchController): void {
    this.#upstream = upstream
    if (this.#isOver) upstream.abort(new Error('the caller went away'))
  }

  onResponseStart(upstream: Dispatcher.DispatchController, status: number, headers: Record<string, unknown>, message?: string): void {
    if (status < 200 || this.#isOver) return
    if (!isFramed(this.#response.req.method, status, headers)) return this.#refuse(upstream)
    this.#hasBegun = true
    const raw = [...toCaller(textsOf(upstream.rawHeaders)), ...Object.entries(this.#forwarding.headers).flat()]
    this.#response.writeHead(status, message, raw)
    this.#response.on('drain', () => upstream.resume())
    // Nearly always the first bytes come with the head, and then they leave together.
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
    // Cut, not ended: whoever reads it sees that the last chunk, or a part of its length, is missing.
    if (this.#hasBegun) this.#response.destroy()
    else this.#reject(this.#forwarding.unreachable(error))
  }

  #flushHead(): void {
    if (!this.#hasWritten && !this.#response.writableEnded && !this.#response.destroyed) this.#response.flushHeaders()
  }

  #refuse(upstream: Dispatcher.DispatchController): void {
    const why = 'the backend says neither how long its answer is nor sends it in chunks, so its end can not be told from its death'
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
  // A stream between: undici destroys the body of what fails, and with the request itself the caller's connection would go.
  const through = new PassThrough()
  request.once('close', () => request.complete || through.destroy(new Error('the caller went away')))
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
