// Passes an answer on to the client, byte for byte. A client that does not read holds up the backend, not memory; a
// stream that breaks off says so, and never looks as if it had come to its end.
import type { IncomingHttpHeaders, ServerResponse } from 'node:http'
import type { Clock } from '@muster/host'
import type { AnswerSink, Flow } from '../routing/attempt.ts'
import type { Route } from '../routing/replica-table.ts'
import { isEventStream, passedHeaders } from './answer-headers.ts'
import { EventEnd } from './event-end.ts'
import { UsageReader, type Usage } from './usage.ts'

/** A client that takes nothing for that long is not there any more, whatever its connection says. */
const maxStallMs = 60_000

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
    // The headers of a whole answer wait for its first byte: until then another replica can be asked. Those of a stream go
    // when the first event does not come with them, because clients wait for them.
    if (begun.isStream) setImmediate(() => this.#begun === begun && !this.hasSent && this.#sendHead(begun).flushHeaders())
  }

  data(chunk: Buffer): void {
    const begun = this.#begun
    if (begun === null) return
    if (!this.hasSent) this.#sendHead(begun)
    if (begun.isStream) this.#events.note(chunk)
    this.#usage.note(chunk, begun.isStream)
    if (this.#deps.response.write(chunk)) return
    begun.flow.pause()
    this.#stall(begun)
  }

  end(): void {
    if (this.#begun !== null && !this.hasSent) this.#sendHead(this.#begun)
    this.#deps.response.end()
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

  #sendHead({ status, headers, route }: Begun): ServerResponse {
    this.hasSent = true
    this.#deps.onFirstByte()
    return this.#deps.response.writeHead(status, [...passedHeaders(headers), ...this.#deps.ownHeaders(route)])
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
