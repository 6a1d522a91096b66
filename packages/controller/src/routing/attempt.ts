// One attempt: a request to one replica through its node's gateway. Only a response that carries the replica's id is passed
// on to the client (I14), because another process may listen at that address by now.
import type { IncomingHttpHeaders } from 'node:http'
import type { Dispatcher, Pool } from 'undici'
import { errorCode } from '@muster/host'
import { inFlightHeader, refusedHeader, replicaHeader } from '@muster/protocol'
import type { Route } from './replica-table.ts'

export interface OutgoingRequest {
  /** The backend's path: `/v1/chat/completions`. */
  readonly path: string
  /** Names and values alternate; without the token. */
  readonly headers: readonly string[]
  readonly body: Buffer
}
export interface Flow {
  pause(): void
  resume(): void
  /** Also ends the request at the gateway. */
  abort(): void
}
/** Receives a response: begin, data…, end. `begin` is called again when another replica is tried, which happens only before anything was sent. */
export interface AnswerSink {
  readonly hasSent: boolean
  /** The stream reported an error, in an event of its own. */
  readonly hasErrorEvent: boolean
  begin(answer: { status: number; headers: IncomingHttpHeaders; route: Route }, flow: Flow): void
  data(chunk: Buffer): void
  end(): void
  /** The response broke off after something was sent. */
  cut(message: string): void
}
export type AttemptEnd =
  | { readonly kind: 'answered'; readonly status: number; readonly hasErrorEvent: boolean }
  | { readonly kind: 'cut'; readonly why: string }
  /** The client left. `hasData`: a part of the answer came before. */
  | { readonly kind: 'gone'; readonly hasData: boolean }
  /** `hasBegun`: the replica may have processed the request. `isFinal`: retrying the same replica is useless. */
  | { readonly kind: 'refused'; readonly why: string; readonly hasBegun: boolean; readonly isFinal: boolean }

/** A connection attempt over several addresses fails with an empty message. */
const reasonOf = (error: Error): string => error.message || String(errorCode(error) ?? error.name)

class ClientGone extends Error {}
/** The abort reason, which undici hands back to onResponseError. */
const clientGone = new ClientGone('the client went away')

export async function attempt(pool: Pool, route: Route, { outgoing, ...request }: AttemptRequest): Promise<AttemptEnd> {
  const ended = Promise.withResolvers<AttemptEnd>()
  const handler = new Attempt({ ...request, route, settle: ended.resolve })
  try {
    pool.dispatch(
      {
        method: 'POST',
        path: `${route.path}${outgoing.path}`,
        headers: [...outgoing.headers, 'authorization', route.authorization],
        body: outgoing.body,
      },
      handler,
    )
    return await ended.promise
  } finally {
    request.link.onGone(null)
  }
}

export interface AttemptRequest {
  readonly outgoing: OutgoingRequest
  readonly sink: AnswerSink
  readonly link: ClientLink
  /** The request count that the replica's worker reported with its response. */
  readonly onInFlight: (inFlight: number) => void
}
type AttemptDeps = Omit<AttemptRequest, 'outgoing'> & Readonly<{ route: Route; settle: (end: AttemptEnd) => void }>

class Attempt implements Dispatcher.DispatchHandler {
  readonly #deps: AttemptDeps
  /** The status of an accepted answer. */
  #status: number | null = null
  #hasStarted = false
  #hasData = false

  constructor(deps: AttemptDeps) {
    this.#deps = deps
    // Until it is connected there is nothing to abort; onRequestStart handles a client that left before.
    deps.link.onGone(null)
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#hasStarted = true
    this.#deps.link.onGone(() => controller.abort(clientGone))
  }

  onResponseStart(controller: Dispatcher.DispatchController, status: number, headers: IncomingHttpHeaders): void {
    if (status < 200) return
    const { route, sink } = this.#deps
    const replicaId = headers[replicaHeader]
    const refused = headers[refusedHeader]
    if (replicaId !== route.replicaId || refused !== undefined) {
      const why = replicaId === route.replicaId ? String(refused) : 'another process answers at its address'
      this.#refuse({ why, hasBegun: refused === 'unreachable', isFinal: refused === 'gone' || refused === 'draining' })
      controller.abort(new Error(why))
      return
    }
    this.#status = status
    this.#reportInFlight(headers[inFlightHeader])
    sink.begin(
      { status, headers, route },
      { pause: () => controller.pause(), resume: () => controller.resume(), abort: () => controller.abort(clientGone) },
    )
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#status === null) return
    this.#hasData = true
    this.#deps.sink.data(chunk)
  }

  onResponseEnd(): void {
    if (this.#status === null) return
    const { sink, settle } = this.#deps
    sink.end()
    settle({ kind: 'answered', status: this.#status, hasErrorEvent: sink.hasErrorEvent })
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    const { sink, link, settle } = this.#deps
    if (link.isGone || error === clientGone) return settle({ kind: 'gone', hasData: this.#hasData })
    if (!sink.hasSent) return this.#refuse({ why: reasonOf(error), hasBegun: this.#hasStarted, isFinal: false })
    sink.cut(reasonOf(error))
    settle({ kind: 'cut', why: reasonOf(error) })
  }

  #reportInFlight(header: string | string[] | undefined): void {
    const count = Number(header)
    if (Number.isSafeInteger(count) && count > 0) this.#deps.onInFlight(count)
  }

  /** The first end counts: aborting a refused request also causes an error. */
  #refuse(refusal: { why: string; hasBegun: boolean; isFinal: boolean }): void {
    this.#deps.settle({ kind: 'refused', ...refusal })
  }
}

/** Tracks the client's connection. A plain object, because an AbortSignal per request costs more than the rest of the routing. */
export class ClientLink {
  isGone = false
  #onGone: (() => void) | null = null

  /** Called when the client disconnects. One callback at a time; the next replaces it. */
  onGone(stop: (() => void) | null): void {
    this.#onGone = stop
    if (this.isGone) stop?.()
  }

  leave(): void {
    if (this.isGone) return
    this.isGone = true
    this.#onGone?.()
  }
}
