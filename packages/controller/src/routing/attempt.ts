// One try: a request to one replica through its node's gateway. Nothing goes on to the client unless that very replica
// answered (I14): whatever listens at its address by now, only an answer that carries its id is its answer.
import type { IncomingHttpHeaders } from 'node:http'
import { errorCode } from '@muster/host'
import { inFlightHeader, refusedHeader, replicaHeader } from '@muster/protocol'
import type { Dispatcher, Pool } from 'undici'
import type { ClientLink } from './client-link.ts'
import type { Route } from './replica-table.ts'

export interface Outgoing {
  /** As the backend is asked for it: `/v1/chat/completions`. */
  readonly path: string
  /** Names and values in turns; without the token. */
  readonly headers: readonly string[]
  readonly body: Buffer
}
export interface Flow {
  pause(): void
  resume(): void
  /** Ends it at the gateway too. */
  abort(): void
}
/** Gets an answer: begin, data…, and end. Begins again when another replica is asked, which happens only while nothing was sent. */
export interface AnswerSink {
  readonly hasSent: boolean
  begin(answer: { status: number; headers: IncomingHttpHeaders; route: Route }, flow: Flow): void
  data(chunk: Buffer): void
  end(): void
  /** It broke off after something was sent. */
  cut(message: string): void
}
export type AttemptEnd =
  | { readonly kind: 'answered' | 'cut' | 'gone' }
  /** `hasBegun`: a process may have worked on it. `isFinal`: asking the same replica again is of no use. */
  | { readonly kind: 'refused'; readonly why: string; readonly hasBegun: boolean; readonly isFinal: boolean }

/** A connection tried over several addresses fails with an empty message. */
const whyOf = (error: Error): string => error.message || String(errorCode(error) ?? error.name)

class ClientGone extends Error {}
/** Why it is aborted, told to undici, which tells it back. */
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
  readonly outgoing: Outgoing
  readonly sink: AnswerSink
  readonly link: ClientLink
  /** How many requests the replica says it has, when it says so. */
  readonly onTold: (inFlight: number) => void
}
type AttemptDeps = Omit<AttemptRequest, 'outgoing'> & Readonly<{ route: Route; settle: (end: AttemptEnd) => void }>

class Attempt implements Dispatcher.DispatchHandler {
  readonly #deps: AttemptDeps
  #isAccepted = false
  #hasStarted = false

  constructor(deps: AttemptDeps) {
    this.#deps = deps
    // Until it is connected there is nothing to abort; whoever leaves before is noticed then.
    deps.link.onGone(null)
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#hasStarted = true
    this.#deps.link.onGone(() => controller.abort(clientGone))
  }

  onResponseStart(controller: Dispatcher.DispatchController, status: number, headers: IncomingHttpHeaders): void {
    if (status < 200) return
    const { route, sink } = this.#deps
    const who = headers[replicaHeader]
    const refused = headers[refusedHeader]
    if (who !== route.replicaId || refused !== undefined) {
      const why = who === route.replicaId ? String(refused) : 'something else answers at its address'
      this.#refuse({ why, hasBegun: refused === 'unreachable', isFinal: refused === 'gone' || refused === 'draining' })
      controller.abort(new Error(why))
      return
    }
    this.#isAccepted = true
    this.#note(headers[inFlightHeader])
    sink.begin(
      { status, headers, route },
      { pause: () => controller.pause(), resume: () => controller.resume(), abort: () => controller.abort(clientGone) },
    )
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#isAccepted) this.#deps.sink.data(chunk)
  }

  onResponseEnd(): void {
    if (!this.#isAccepted) return
    this.#deps.sink.end()
    this.#deps.settle({ kind: 'answered' })
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    const { sink, link, settle } = this.#deps
    if (link.isGone || error === clientGone) return settle({ kind: 'gone' })
    if (!sink.hasSent) return this.#refuse({ why: whyOf(error), hasBegun: this.#hasStarted, isFinal: false })
    sink.cut(whyOf(error))
    settle({ kind: 'cut' })
  }

  #note(told: string | string[] | undefined): void {
    const count = Number(told)
    if (Number.isSafeInteger(count) && count > 0) this.#deps.onTold(count)
  }

  /** The first end counts: aborting what was refused is told as an error too. */
  #refuse(refusal: { why: string; hasBegun: boolean; isFinal: boolean }): void {
    this.#deps.settle({ kind: 'refused', ...refusal })
  }
}
