// A route and its handler. Handlers receive parsed input and return a body; app.ts does the rest.
import type { BodyOf, ParamsOf, PublicKey, QueryOf, ResponseOf, Route } from '@muster/protocol'
import type { Principal } from '../auth/principal.ts'

export type Signer = Readonly<{ key: PublicKey; signedAt: Date }>

export interface Call<R> {
  readonly params: ParamsOf<R>
  readonly query: QueryOf<R>
  readonly body: BodyOf<R>
  readonly principal: Principal
  /** Verified by signature; on `node` routes only. */
  readonly signer: Signer | null
  readonly headers: Headers
  /** The raw request, for routes whose body is not JSON. The body can be read once. */
  readonly request: Request
  /** HEAD on a GET route: the handler must not open or consume anything. */
  readonly isHead: boolean
  readonly remoteAddress: string
  /** Aborted when the caller disconnects or the controller stops. */
  readonly signal: AbortSignal
}

/** A response with a status other than the route's own, or with more headers. */
export class Answer<T> {
  readonly status: number
  readonly body: T
  readonly headers: Readonly<Record<string, string>>

  constructor(status: number, body: T, headers: Readonly<Record<string, string>> = {}) {
    this.status = status
    this.body = body
    this.headers = headers
  }
}

export type Handler<R> = (call: Call<R>) => Promise<ResponseOf<R> | Answer<ResponseOf<R>> | Response | void>

export interface Endpoint {
  readonly route: Route
  readonly handle: (call: Call<Route>) => Promise<unknown>
}

export function endpoint<R extends Route>(route: R, handle: Handler<R>): Endpoint {
  return { route, handle }
}
