// The way of every request: limits → host → who → may → parse → handler → answer. No decisions of ours.
import { newId, type Clock, type Log, type SignedRequest, type VerificationResult } from '@muster/host'
import { maxClockSkewMs, type Route } from '@muster/protocol'
import type { HttpBindings } from '@hono/node-server'
import { Hono, type Context } from 'hono'
import type { z } from 'zod'
import type { Principal } from '../auth/principal.ts'
import { authorize, checkHost, type AuthorizeDeps } from './authorize.ts'
import { readJson, readRaw } from './body.ts'
import { Answer, type Call, type Endpoint, type Signer } from './endpoint.ts'
import { errorBody, HttpError, invalidInput, starting, toHttpError } from './http-error.ts'

export interface AppDeps extends AuthorizeDeps {
  readonly endpoints: readonly Endpoint[]
  readonly verifyRequest: (request: SignedRequest) => VerificationResult
  /** False until the database is migrated: there is nothing to answer from yet. */
  readonly isStarted: () => boolean
  /** Ends what waits: long polls are answered, event streams closed. */
  readonly stopping: AbortSignal
  readonly clock: Clock
  readonly log: Log
  /** What a browser is shown at an address of nothing; null: an error like any other. */
  readonly elsewhere: (request: Request) => Response | null
  readonly onAnswer: (call: { route: string; method: string; status: number; ms: number }) => void
}
/** A registration with all its labels has some 20 kB. */
const maxNodeBodyBytes = 256 * 1024

type Env = { Bindings: HttpBindings; Variables: { requestId: string } }

export function createApp(deps: AppDeps): Hono<Env> {
  const app = new Hono<Env>()
  for (const endpoint of deps.endpoints) app.on(endpoint.route.method, endpoint.route.path, (c) => serve(c, endpoint, deps))
  app.all('*', (c) => {
    const known = deps.endpoints.filter((e) => matchesPath(e.route.path, c.req.path)).map((e) => e.route.method)
    if (known.length > 0) {
      throw new HttpError(405, 'method_not_allowed', `${c.req.path} takes ${known.join(', ')}, not ${c.req.method}`, {
        headers: { allow: known.join(', ') },
      })
    }
    const page = deps.elsewhere(c.req.raw)
    if (page !== null) return page
    throw new HttpError(404, 'not_found', `there is nothing at ${c.req.path}; the API is described at /api/openapi.json`)
  })
  app.onError((error, c) => renderError(c, error, deps.log))
  return app
}

const matchesPath = (pattern: string, path: string): boolean => new RegExp(`^${pattern.replace(/:\w+/g, '[^/]+')}$`).test(path)

async function serve(c: Context<Env>, endpoint: Endpoint, deps: AppDeps): Promise<Response> {
  const began = deps.clock.monotonic()
  c.set('requestId', newId())
  let response: Response
  try {
    response = await answer(c, endpoint, deps)
  } catch (error) {
    response = renderError(c, error, deps.log)
  }
  deps.onAnswer({ route: endpoint.route.path, method: endpoint.route.method, status: response.status, ms: deps.clock.monotonic() - began })
  return response
}

async function answer(c: Context<Env>, { route, handle }: Endpoint, deps: AppDeps): Promise<Response> {
  const from = { method: c.req.method, header: (name: string) => c.req.header(name) }
  const provenance = checkHost(from, deps)
  if (route.access !== 'open' && !deps.isStarted()) throw starting()
  const caller: Known =
    route.access === 'node'
      ? await verifyNode(c, deps)
      : { principal: await authorize(from, route.access, { provenance, deps }), signer: null, raw: null }
  const call: Call<Route> = {
    params: route.params && parseInput(route.params, c.req.param()),
    query: route.query && parseInput(route.query, queryOf(c)),
    body: route.body && parseInput(route.body, await readJson(caller.raw ?? c.req.raw)),
    principal: caller.principal,
    signer: caller.signer,
    headers: c.req.raw.headers,
    request: c.req.raw,
    isHead: c.req.method === 'HEAD',
    remoteAddress: c.env.incoming.socket.remoteAddress ?? '',
    signal: AbortSignal.any([c.req.raw.signal, deps.stopping]),
  }
  const given = await handle(call)
  if (given instanceof Response) return given
  const { status, body, headers } = given instanceof Answer ? given : new Answer(route.status ?? 200, given)
  const all = { ...headers, 'x-request-id': c.get('requestId'), 'cache-control': 'no-store' }
  return body === undefined
    ? new Response(null, { status: status === 200 ? 204 : status, headers: all })
    : Response.json(body, { status, headers: all })
}

/** What is given several times is one list: a second `node=` must not be lost on the way. */
const queryOf = (c: Context<Env>): Record<string, string> =>
  Object.fromEntries(Object.entries(c.req.queries()).map(([name, values]) => [name, values.join(',')]))

function parseInput(schema: z.ZodType, given: unknown): unknown {
  const parsed = schema.safeParse(given)
  if (!parsed.success) throw invalidInput(parsed.error)
  return parsed.data
}

interface Known {
  readonly principal: Principal
  readonly signer: Signer | null
  /** The body, where it had to be read to check its signature. */
  readonly raw: Uint8Array | null
}

async function verifyNode(c: Context<Env>, { clock, verifyRequest }: AppDeps): Promise<Known> {
  // Read before anything is proven, so it is small.
  const raw = await readRaw(c.req.raw, maxNodeBodyBytes)
  const { method = '', url = '', headers } = c.env.incoming
  const now = new Date(clock.now())
  const verified = verifyRequest({ method, path: url, body: raw, headers, now })
  if (verified.ok) return { principal: { kind: 'nobody' }, signer: { key: verified.publicKey, signedAt: verified.signedAt }, raw }
  const details = { now: now.toISOString(), max_skew_ms: maxClockSkewMs }
  throw new HttpError(401, verified.code, verified.message, verified.code === 'clock_skew' ? { details } : {})
}

function renderError(c: Context<Env>, thrown: unknown, log: Log): Response {
  const error = toHttpError(thrown)
  const requestId = c.get('requestId') ?? newId()
  // A bug is news each time; that the database is away is told once by those who wait for it, not with every request.
  const fields = { requestId, method: c.req.method, path: c.req.path, status: error.status, error: error.cause ?? error }
  if (error.code === 'internal') log.error('request failed', fields)
  else if (error.status >= 500) log.debug('request refused', fields)
  return Response.json(errorBody(c.req.path, error), {
    status: error.status,
    headers: { ...error.headers, 'x-request-id': requestId, 'cache-control': 'no-store' },
  })
}
