// The parts that all endpoints share: a route with its handler, repeated requests, and authorization. Handlers receive parsed
// input and return a body; app.ts does the rest.
import { createHash } from 'node:crypto'
import type { BodyOf, ParamsOf, PublicKey, QueryOf, ResponseOf, Route } from '@muster/protocol'
import { isOpenTo, type Listener, may } from '../auth/may.pure.ts'
import { doesCookieCount, isFromElsewhere, isHostAllowed, type Provenance } from '../auth/origin.ts'
import type { Principal, PrincipalFinder } from '../auth/principal.ts'
import type { IdempotencyKey, SubmissionStore } from '../store/submissions.ts'
import { HttpError } from './http-error.ts'

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

/**
 * `Idempotency-Key` makes a POST safe to repeat: the same key with the same request gets the stored answer; with another
 * request it is refused.
 */
export function idempotencyKeyOf(call: { headers: Headers; principal: Principal }, request: unknown): IdempotencyKey | null {
  const key = call.headers.get('idempotency-key')
  if (key === null) return null
  if (!/^[\x21-\x7e]{1,255}$/.test(key))
    throw new HttpError(400, 'invalid', 'an Idempotency-Key is 1–255 printable characters without spaces')
  const { principal } = call
  const caller = principal.kind === 'key' ? `key ${principal.id}` : principal.kind
  return { key, caller, requestSha256: createHash('sha256').update(JSON.stringify(request)).digest('hex') }
}

/** The answer stored for this key; null at its first use. */
export async function findStoredAnswer(
  store: Pick<SubmissionStore, 'remembered'>,
  key: IdempotencyKey | null,
): Promise<Answer<never> | null> {
  const before = key === null ? null : await store.remembered(key)
  if (key === null || before === null) return null
  if (before.requestSha256 !== key.requestSha256) {
    throw new HttpError(422, 'idempotency_mismatch', `the Idempotency-Key ${key.key} was used for another request; use a new one for each`)
  }
  return new Answer(before.status, before.response as never)
}

export interface AuthorizeDeps {
  readonly principals: PrincipalFinder
  readonly listener: Listener & { readonly isLoopback: boolean; readonly publicHost: string | null }
}
/** The parts of a request that authorization reads. */
interface Caller {
  readonly method: string
  readonly header: (name: string) => string | undefined
}

export function checkHost({ method, header }: Caller, { listener }: AuthorizeDeps): Provenance {
  const host = header('host')
  if (!isHostAllowed(host, listener)) {
    throw new HttpError(
      403,
      'host_not_allowed',
      `this controller listens on a loopback address and does not answer for the host ${JSON.stringify(host ?? '')}; use 127.0.0.1 or localhost, or start it with --public-url`,
    )
  }
  return { method, host: host ?? '', origin: header('origin'), fetchSite: header('sec-fetch-site') }
}

/** A route that is not signed by a node. */
type KeyedRoute = Pick<Route, 'access' | 'dialect'>

export async function authorize(
  caller: Caller,
  route: KeyedRoute,
  { provenance, deps }: { provenance: Provenance; deps: AuthorizeDeps },
): Promise<Principal> {
  const { access } = route
  if (access === 'node') throw new Error('a route for nodes is authorized by its signature')
  if (access === 'open') {
    // Reads of open routes are harmless; a page of another site must not be able to log a browser in here.
    if (caller.method !== 'GET' && caller.method !== 'HEAD' && isFromElsewhere(provenance)) throw fromElsewhere(provenance)
    return { kind: 'anonymous' }
  }
  const isOpen = isOpenTo(access, deps.listener)
  // An open route needs no principal, so nothing is looked up.
  if (isOpen && !isFromElsewhere(provenance)) return { kind: 'anonymous' }
  const principal = await findPrincipal(caller, provenance, { ...deps, isOpen, keyHeaders: keyHeadersOf(route) })
  const verdict = may(principal, access, deps.listener)
  if (verdict === 'unauthenticated') {
    throw new HttpError(
      401,
      'unauthorized',
      'this request needs a key: send "Authorization: Bearer <key>" (the first admin key is in <data-dir>/admin.key)',
      { headers: { 'www-authenticate': 'Bearer' } },
    )
  }
  if (verdict === 'forbidden')
    throw new HttpError(403, 'forbidden', `this key lacks the required scope: ${access === 'metrics' ? 'read' : access}`)
  if (principal.kind === 'anonymous' && isFromElsewhere(provenance)) throw fromElsewhere(provenance)
  return principal
}

const fromElsewhere = ({ origin }: Provenance): HttpError =>
  new HttpError(403, 'origin_not_allowed', `a page of ${origin ?? 'another site'} may not call this controller`)

/** Clients of LocalAI, and of services that it imitates, send their key in other headers. */
const otherKeyHeaders = ['x-api-key', 'xi-api-key']
const keyHeadersOf = ({ access, dialect }: KeyedRoute): readonly string[] =>
  access === 'inference' || dialect === 'localai' ? otherKeyHeaders : []

/** Undefined: no header names a key. Null: a header is malformed. */
function keyOf(header: Caller['header'], others: readonly string[]): string | null | undefined {
  const authorization = header('authorization')
  if (authorization !== undefined) return /^Bearer +(\S+)$/i.exec(authorization)?.[1] ?? null
  const other = others.map((name) => header(name)).find((value) => value !== undefined)
  return other === undefined ? undefined : (/^\s*(\S+)\s*$/.exec(other)?.[1] ?? null)
}

async function findPrincipal(
  { header }: Caller,
  provenance: Provenance,
  { principals, isOpen, keyHeaders }: AuthorizeDeps & { readonly isOpen: boolean; readonly keyHeaders: readonly string[] },
): Promise<Principal> {
  const key = keyOf(header, keyHeaders)
  if (key !== undefined) {
    const principal = key === null ? null : await principals.byKey(key)
    if (principal === null && isOpen) return { kind: 'anonymous' }
    if (principal === null)
      throw new HttpError(401, 'unauthorized', 'unknown or revoked key', { headers: { 'www-authenticate': 'Bearer' } })
    return principal
  }
  const cookie = sessionCookieOf(header('cookie'))
  if (cookie !== null && doesCookieCount(provenance)) return (await principals.byCookie(cookie)) ?? { kind: 'anonymous' }
  return { kind: 'anonymous' }
}

const cookieName = 'muster_session'

export function sessionCookieOf(header: string | undefined): string | null {
  for (const part of header?.split(';') ?? []) {
    const [key, value] = part.trim().split('=', 2)
    if (key === cookieName && value !== undefined && /^[A-Za-z0-9_-]{16,256}$/.test(value)) return value
  }
  return null
}

export function setSessionCookie(secret: string, options: { maxAgeSeconds: number; isSecure: boolean }): string {
  return `${cookieName}=${secret}; Path=/; HttpOnly; SameSite=Strict; Max-Age=${options.maxAgeSeconds}${options.isSecure ? '; Secure' : ''}`
}

export const clearSessionCookie = `${cookieName}=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0`
