// Passes an answer on to the client, byte for byte. A client that does not read holds up the backend, not memory; a
// stream that breaks off says so, and never looks as if it had come to its end.
import type { IncomingHttpHeaders, ServerResponse } from 'node:http'
import type { Clock } from '@muster/host'
import type { AnswerSink, Flow } from '../routing/attempt.ts'
import type { Route } from '../routing/replica-table.ts'
import { isEventStream, passedHeaders } from './answer-headers.ts'
import { inEnvelope } from './error-envelope.ts'
import { EventEnd } from './event-end.ts'
import { UsageReader, type Usage } from './usage.ts'

/** A client that takes nothing for that long is not there any more, whatever its connection says. */
const maxStallMs = 60_000
/** Of an error, which is looked at before it goes on; a longer one is not one that anybody wrote down. */
const maxErrorBytes = 64 * 1024

interface Begun {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly route: Route
  readonly isStream: boolean
  readonly flow: Flow
}
export interface RelayDeps {
  readonly response: ServerResponse
  /** Headers of ours, names and values in turns. */
  readonly ownHeaders: (route: Route) => readonly string[]
  readonly clock: Clock
  readonly onFirstByte: () => void
  /** What a stream ends with that broke off. */
  readonly errorEvent: (message: string) => string
}

export class Relay implements AnswerSink, Disposable {
  readonly #deps: RelayDeps
  readonly #usage = new UsageReader()
  readonly #events = new EventEnd()
  #begun: Begun | null = null
  #stalled: AbortController | null = null
  /** An error, until it is whole. */
  #error: Buffer[] | null = null
  hasSent = false

  constructor(deps: RelayDeps) {
    this.#deps = deps
    deps.response.on('drain', () => this.#goOn())
  }

  get status(): number | null {
    return this.#begun?.status ?? null
  }

  usage(): Usage {
    return this.#usage.read()
  }

  begin({ status, headers, route }: { status: number; headers: IncomingHttpHeaders; route: Route }, flow: Flow): void {
    const begun = { status, headers, route, isStream: isEventStream(headers), flow }
    this.#begun = begun
    this.#error = status >= 400 && !begun.isStream ? [] : null
    // The headers of a whole answer wait for its first byte: until then another replica can be asked. Those of a stream go
    // when the first event does not come with them, because clients wait for them.
    if (begun.isStream) setImmediate(() => this.#begun === begun && !this.hasSent && this.#sendHead(begun).flushHeaders())
  }

  data(chunk: Buffer): void {
    const begun = this.#begun
    if (begun === null) return
    if (this.#error !== null) return this.#collect(chunk)
    if (!this.hasSent) this.#sendHead(begun)
    if (begun.isStream) this.#events.note(chunk)
    this.#usage.note(chunk, begun.isStream)
    if (this.#deps.response.write(chunk)) return
    begun.flow.pause()
    this.#stall(begun)
  }

  end(): void {
    if (this.#begun === null) return
    if (this.#error !== null) return this.#endError(this.#begun, Buffer.concat(this.#error))
    if (!this.hasSent) this.#sendHead(this.#begun)
    this.#deps.response.end()
  }

  #endError(begun: Begun, content: Buffer): void {
    const isReadable = begun.headers['content-encoding'] === undefined
    const better = isReadable ? inEnvelope(begun.status, content) : null
    if (better === null) this.#sendHead(begun)
    else this.#sendHead(begun, { ...begun.headers, 'content-type': 'application/json', 'content-length': String(better.length) })
    this.#deps.response.end(better ?? content)
  }

  cut(message: string): void {
    const { response, errorEvent } = this.#deps
    this.#goOn()
    if (this.#begun?.isStream !== true) {
      response.destroy()
      return
    }
    response.write(`${this.#events.toFreshEvent()}${errorEvent(message)}`)
    // Without the last chunk, which would say that this is all: what is written arrives, and then the connection ends.
    response.socket?.destroySoon()
  }

  /** The client is gone, or the answer out: nothing is waited for any more. */
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

  #sendHead({ status, headers, route }: Begun, instead?: IncomingHttpHeaders): ServerResponse {
    this.hasSent = true
    this.#deps.onFirstByte()
    return this.#deps.response.writeHead(status, [...passedHeaders(instead ?? headers), ...this.#deps.ownHeaders(route)])
  }

  #stall(begun: Begun): void {
    if (this.#stalled !== null) return
    const stalled = new AbortController()
    this.#stalled = stalled
    this.#deps.clock.sleep(maxStallMs, stalled.signal).then(
      () => {
        begun.flow.abort()
        this.#deps.response.destroy()
      },
      () => undefined,
    )
  }

  #goOn(): void {
    this.#stalled?.abort()
    this.#stalled = null
    this.#begun?.flow.resume()
  }
}
