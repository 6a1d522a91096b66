// Relays a backend's response to the client byte for byte. A client that reads slowly applies backpressure to the backend;
// a stream that breaks off ends with an error event and never looks complete.
import type { IncomingHttpHeaders, ServerResponse } from 'node:http'
import type { Clock } from '@muster/host'
import type { AnswerSink, Flow } from '../routing/attempt.ts'
import type { Route } from '../routing/replica-table.ts'
import { FirstTokenReader, type Usage, UsageReader } from './usage.ts'

/** A client that reads nothing for this long is disconnected. */
const maxStallMs = 60_000
/** Error bodies up to this size are buffered to fix their envelope; larger ones are passed through. */
const maxErrorBytes = 64 * 1024

interface BackendAnswer {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly route: Route
  readonly isStream: boolean
  readonly flow: Flow
}
export interface RelayDeps {
  readonly response: ServerResponse
  /** The controller's own headers; names and values alternate. */
  readonly ownHeaders: (route: Route) => readonly string[]
  readonly clock: Clock
  /** Called with the first token of a stream, or the first byte of another answer. */
  readonly onFirstToken: () => void
  /** The last event of a stream that broke off. */
  readonly errorEvent: (message: string) => string
}

export class Relay implements AnswerSink, Disposable {
  readonly #deps: RelayDeps
  readonly #usage = new UsageReader()
  readonly #firstToken = new FirstTokenReader()
  readonly #events = new EventEnd()
  #answer: BackendAnswer | null = null
  #stalled: AbortController | null = null
  /** The chunks of an error body. */
  #error: Buffer[] | null = null
  hasSent = false

  constructor(deps: RelayDeps) {
    this.#deps = deps
    deps.response.on('drain', () => this.#resume())
  }

  get hasErrorEvent(): boolean {
    return this.#answer?.isStream === true && this.#usage.hasErrorEvent()
  }

  usage(): Usage {
    return this.#usage.read()
  }

  begin({ status, headers, route }: { status: number; headers: IncomingHttpHeaders; route: Route }, flow: Flow): void {
    const answer = { status, headers, route, isStream: isEventStream(headers), flow }
    this.#answer = answer
    this.#error = status >= 400 && !answer.isStream ? [] : null
    // Headers are held back until the first byte, so that another replica can still be tried. Headers of a stream are sent
    // without an event after this turn of the event loop, because clients wait for them.
    if (answer.isStream) setImmediate(() => this.#answer === answer && !this.hasSent && this.#sendHead(answer).flushHeaders())
  }

  data(chunk: Buffer): void {
    const answer = this.#answer
    if (answer === null) return
    if (this.#error !== null) return this.#collect(chunk)
    if (answer.isStream) {
      this.#events.add(chunk)
      if (this.#firstToken.findIn(chunk)) this.#deps.onFirstToken()
    } else if (!this.hasSent) this.#deps.onFirstToken()
    if (!this.hasSent) this.#sendHead(answer)
    this.#usage.add(chunk, answer.isStream)
    if (this.#deps.response.write(chunk)) return
    answer.flow.pause()
    this.#stall(answer)
  }

  end(): void {
    if (this.#answer === null) return
    if (this.#error !== null) return this.#endError(this.#answer, Buffer.concat(this.#error))
    if (!this.hasSent) this.#sendHead(this.#answer)
    this.#deps.response.end()
  }

  #endError(answer: BackendAnswer, content: Buffer): void {
    const isReadable = answer.headers['content-encoding'] === undefined
    const better = isReadable ? inEnvelope(answer.status, content) : null
    if (better === null) this.#sendHead(answer)
    else this.#sendHead(answer, { ...answer.headers, 'content-type': 'application/json', 'content-length': String(better.length) })
    this.#deps.response.end(better ?? content)
  }

  cut(message: string): void {
    const { response, errorEvent } = this.#deps
    this.#resume()
    if (this.#answer?.isStream !== true) {
      response.destroy()
      return
    }
    // The engine's own error says more than the end of its connection.
    if (!this.hasErrorEvent) response.write(`${this.#events.separator()}${errorEvent(message)}`)
    // Without the final chunk, which would mark the response as complete. Written data still arrives.
    response.socket?.destroySoon()
  }

  /** The client is gone, or the response complete. */
  [Symbol.dispose](): void {
    this.#stalled?.abort()
  }

  #collect(chunk: Buffer): void {
    const collected = [...(this.#error ?? []), chunk]
    this.#error = collected
    if (collected.reduce((sum, each) => sum + each.length, 0) <= maxErrorBytes) return
    this.#error = null
    for (const each of collected) this.data(each)
  }

  #sendHead({ status, headers, route }: BackendAnswer, instead?: IncomingHttpHeaders): ServerResponse {
    this.hasSent = true
    return this.#deps.response.writeHead(status, [...passedHeaders(instead ?? headers), ...this.#deps.ownHeaders(route)])
  }

  #stall(answer: BackendAnswer): void {
    if (this.#stalled !== null) return
    const stalled = new AbortController()
    this.#stalled = stalled
    this.#deps.clock.sleep(maxStallMs, stalled.signal).then(
      () => {
        answer.flow.abort()
        this.#deps.response.destroy()
      },
      () => undefined,
    )
  }

  #resume(): void {
    this.#stalled?.abort()
    this.#stalled = null
    this.#answer?.flow.resume()
  }
}

/** An allow list: a backend must not set cookies for the controller's pages, CORS headers, or connection headers. */
const allowedHeaders = ['content-type', 'content-length', 'content-encoding', 'cache-control', 'retry-after']

function passedHeaders(headers: IncomingHttpHeaders): string[] {
  const passed: string[] = []
  for (const name of allowedHeaders) {
    const value = headers[name]
    if (typeof value === 'string') passed.push(name, value)
  }
  return passed
}

const isEventStream = (headers: IncomingHttpHeaders): boolean =>
  headers['content-type']?.startsWith('text/event-stream') === true && headers['content-length'] === undefined

const maxMessage = 2_000

/** Wraps a backend's error in OpenAI's envelope. Null: it has one. */
function inEnvelope(status: number, content: Buffer): Buffer | null {
  const text = content.toString()
  if (hasEnvelope(text)) return null
  const message = `the backend answered ${status}${text.trim() === '' ? '' : `: ${text.trim().slice(0, maxMessage)}`}`
  const type = status < 500 ? 'invalid_request_error' : 'server_error'
  return Buffer.from(JSON.stringify({ error: { message, type, param: null, code: 'backend_error' } }))
}

function hasEnvelope(text: string): boolean {
  try {
    const parsed: unknown = JSON.parse(text)
    return typeof parsed === 'object' && parsed !== null && 'error' in parsed && typeof parsed.error === 'object' && parsed.error !== null
  } catch {
    return false
  }
}

/** Tracks the last bytes of an event stream, to find the separator that a new event needs. A chunk may end anywhere. */
export class EventEnd {
  /** The last four bytes, newest lowest: the longest blank line is CR LF CR LF. */
  #last = 0
  #hasData = false

  add(chunk: Uint8Array): void {
    for (let i = Math.max(chunk.length - 4, 0); i < chunk.length; i += 1) this.#last = ((this.#last << 8) | (chunk[i] ?? 0)) >>> 0
    this.#hasData ||= chunk.length > 0
  }

  /** Ends an unfinished event; empty when there is none. */
  separator(): '' | '\n' | '\n\n' {
    if (!this.#hasData) return ''
    const last = String.fromCharCode(this.#last >>> 24, (this.#last >>> 16) & 255, (this.#last >>> 8) & 255, this.#last & 255)
    // Each of CR LF, CR and LF ends a line; two ends of lines in a row end an event.
    const ends = last.replaceAll('\r\n', '\n').replaceAll('\r', '\n')
    if (ends.endsWith('\n\n')) return ''
    return ends.endsWith('\n') ? '\n' : '\n\n'
  }
}
