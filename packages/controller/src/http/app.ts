// The path of every request: limits → host → principal → access → parse → handler → response. It decides nothing about the fleet.
import { newId, type Clock, type Log, type SignedRequest, type VerificationResult } from '@muster/host'
import { maxClockSkewMs, type Route } from '@muster/protocol'
import type { HttpBindings } from '@hono/node-server'
import { Hono, type Context } from 'hono'
import { z } from 'zod'
import type { Principal } from '../auth/principal.ts'
import { Answer, authorize, type AuthorizeDeps, type Call, checkHost, type Endpoint, type Signer } from './endpoint.ts'
import { discardBody, readIncoming, readJson, readRaw } from './body.ts'
import { errorBody, HttpError, invalidInput, localAiErrorBody, starting, toHttpError } from './http-error.ts'

export interface AppDeps extends AuthorizeDeps {
  readonly endpoints: readonly Endpoint[]
  readonly verifyRequest: (request: SignedRequest) => VerificationResult
  /** The time that signatures of workers are compared with: the same on every controller. Null: not known yet. */
  readonly sharedNow: () => number | null
  /** False until the database is migrated. */
  readonly isStarted: () => boolean
  /** Aborted at shutdown: long polls are answered, event streams closed. */
  readonly stopping: AbortSignal
  readonly clock: Clock
  readonly log: Log
  /** The page for a browser at an unknown path; null: respond with an ordinary error. */
  readonly fallbackPage: (request: Request) => Response | null
  readonly onAnswer: (call: { route: string; method: string; status: number; ms: number }) => void
}
/** A registration with all its labels takes about 20 kB. */
const maxNodeBodyBytes = 256 * 1024
const maxGetBodyBytes = 64 * 1024

type Env = { Bindings: HttpBindings; Variables: { requestId: string } }

export function createApp(deps: AppDeps): Hono<Env> {
  const app = new Hono<Env>()
  for (const endpoint of deps.endpoints)
    app.on(endpoint.route.method, endpoint.route.path, (c, next) => (isForPage(c, endpoint) ? next() : serve(c, endpoint, deps)))
  app.all('*', (c) => {
    const methods = deps.endpoints.filter((e) => matchesPath(e.route.path, c.req.path)).map((e) => e.route.method)
    if (methods.length > 0) {
      throw new HttpError(405, 'method_not_allowed', `${c.req.path} takes ${methods.join(', ')}, not ${c.req.method}`, {
        headers: { allow: methods.join(', ') },
      })
    }
    const page = deps.fallbackPage(c.req.raw)
    if (page !== null) return page
    throw new HttpError(404, 'not_found', `there is nothing at ${c.req.path}; the API is described at /api/openapi.json`)
  })
  app.onError((error, c) => renderError(c, error, { log: deps.log, route: null }))
  return app
}

/** Some paths of LocalAI are paths of the web page too: a browser that opens one gets the page. */
const isForPage = (c: Context<Env>, { route }: Endpoint): boolean =>
  route.dialect === 'localai' && route.method === 'GET' && (c.req.header('accept') ?? '').includes('text/html')

const matchesPath = (pattern: string, path: string): boolean => new RegExp(`^${pattern.replace(/:\w+/g, '[^/]+')}$`).test(path)

async function serve(c: Context<Env>, endpoint: Endpoint, deps: AppDeps): Promise<Response> {
  const startedAt = deps.clock.monotonic()
  c.set('requestId', newId())
  let response: Response
  try {
    response = await answer(c, endpoint, deps)
  } catch (error) {
    response = renderError(c, error, { log: deps.log, route: endpoint.route })
    if (response.headers.get('connection') === 'close') await discardBody(c.env.incoming)
  }
  deps.onAnswer({
    route: endpoint.route.path,
    method: endpoint.route.method,
    status: response.status,
    ms: deps.clock.monotonic() - startedAt,
  })
  return response
}

async function answer(c: Context<Env>, { route, handle }: Endpoint, deps: AppDeps): Promise<Response> {
  const from = { method: c.req.method, header: (name: string) => c.req.header(name) }
  const provenance = checkHost(from, deps)
  if (route.access !== 'open' && !deps.isStarted()) throw starting()
  const caller: VerifiedCaller =
    route.access === 'node'
      ? await verifyNode(c, deps)
      : { principal: await authorize(from, route, { provenance, deps }), signer: null, raw: null }
  const call: Call<Route> = {
    params: route.params && parseInput(route.params, c.req.param()),
    query: route.query && parseInput(route.query, queryOf(c)),
    body: await parseBody(route, caller.raw ?? (await sourceOf(c, route))),
    principal: caller.principal,
    signer: caller.signer,
    headers: c.req.raw.headers,
    request: c.req.raw,
    isHead: c.req.method === 'HEAD',
    remoteAddress: c.env.incoming.socket.remoteAddress ?? '',
    signal: AbortSignal.any([c.req.raw.signal, deps.stopping]),
  }
  const result = await handle(call)
  if (result instanceof Response) return result
  const { status, body, headers } = result instanceof Answer ? result : new Answer(route.status ?? 200, result)
  const all = { ...headers, 'x-request-id': c.get('requestId'), 'cache-control': 'no-store' }
  return body === undefined
    ? new Response(null, { status: status === 200 ? 204 : status, headers: all })
    : Response.json(body, { status, headers: all })
}

/** A repeated parameter becomes one comma-separated list, so that a second `node=` is not lost. */
const queryOf = (c: Context<Env>): Record<string, string> =>
  Object.fromEntries(Object.entries(c.req.queries()).map(([name, values]) => [name, values.join(',')]))

function parseInput(schema: z.ZodType, input: unknown): unknown {
  const parsed = schema.safeParse(input)
  if (!parsed.success) throw invalidInput(parsed.error, schema)
  return parsed.data
}

const noFields = z.strictObject({})

/**
 * A command of an administrator that takes no fields refuses some, for example a `dry_run` that it would not heed. Routes of LocalAI
 * without a schema read the body themselves: it is a configuration.
 */
async function parseBody({ body, method, access, dialect }: Route, source: Request | Uint8Array): Promise<unknown> {
  if (body !== undefined) return parseInput(body, await readJson(source))
  if (method === 'POST' && access === 'admin' && dialect === undefined) parseInput(noFields, await readJson(source))
  return undefined
}

/** Dashboards that were written for LocalAI name the model in the body of a GET, which `Request` does not have. */
async function sourceOf(c: Context<Env>, { method, body }: Route): Promise<Request | Uint8Array> {
  return method === 'GET' && body !== undefined ? await readIncoming(c.env.incoming, maxGetBodyBytes) : c.req.raw
}

interface VerifiedCaller {
  readonly principal: Principal
  readonly signer: Signer | null
  /** The body, when it was read to verify the signature. */
  readonly raw: Uint8Array | null
}

async function verifyNode(c: Context<Env>, { sharedNow, verifyRequest }: AppDeps): Promise<VerifiedCaller> {
  // The caller is not verified yet, so the limit is small.
  const raw = await readRaw(c.req.raw, maxNodeBodyBytes)
  const { method = '', url = '', headers } = c.env.incoming
  const at = sharedNow()
  if (at === null) throw starting()
  const now = new Date(at)
  const verified = verifyRequest({ method, path: url, body: raw, headers, now })
  if (verified.ok) return { principal: { kind: 'anonymous' }, signer: { key: verified.publicKey, signedAt: verified.signedAt }, raw }
  const details = { now: now.toISOString(), max_skew_ms: maxClockSkewMs }
  throw new HttpError(401, verified.code, verified.message, verified.code === 'clock_skew' ? { details } : {})
}

/** `route`: null when none matches the path. */
type ErrorContext = Readonly<{ log: Log; route: Route | null }>

function renderError(c: Context<Env>, thrown: unknown, { log, route }: ErrorContext): Response {
  const error = toHttpError(thrown)
  const requestId = c.get('requestId') ?? newId()
  // Every bug is logged; an unavailable database is logged once by the loops that wait for it, not per request.
  const fields = { requestId, method: c.req.method, path: c.req.path, status: error.status, error: error.cause ?? error }
  if (error.code === 'internal') log.error('request failed', fields)
  else if (error.status >= 500) log.debug('request refused', fields)
  return Response.json(route?.dialect === 'localai' ? localAiErrorBody(error) : errorBody(c.req.path, error), {
    status: error.status,
    headers: { ...error.headers, 'x-request-id': requestId, 'cache-control': 'no-store' },
  })
}
