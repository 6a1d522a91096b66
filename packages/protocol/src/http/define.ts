// The definition of a route of the HTTP API: once, for the controller that serves it, the clients that call it, and the OpenAPI
// document. A route without an `access` does not compile, so that none is open by accident.
import { z } from 'zod'

/**
 * Callers: `open` anyone · `inference` any key that may infer (where only this machine can reach it: anyone) ·
 * `metrics` read keys (where only this machine can reach it: anyone) · `read` keys that may look · `admin` keys that may
 * change · `node` a worker that signs with its key.
 */
export type Access = 'open' | 'inference' | 'metrics' | 'read' | 'admin' | 'node'
export type SuccessStatus = 200 | 201 | 202 | 204
export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'

export interface Route<
  P extends z.ZodType = z.ZodType,
  Q extends z.ZodType = z.ZodType,
  B extends z.ZodType = z.ZodType,
  R extends z.ZodType = z.ZodType,
> {
  readonly method: Method
  /** `:name` marks a parameter. */
  readonly path: string
  readonly access: Access
  readonly summary: string
  readonly params?: P
  readonly query?: Q
  readonly body?: B
  /** The body of the answer; left out if it is not JSON (then `produces` has its type). */
  readonly response?: R
  readonly produces?: string
  /** The status of success; default 200. */
  readonly status?: SuccessStatus
  /** Another status that a handler may choose. */
  readonly otherStatus?: SuccessStatus
  /**
   * `localai`: a route for scripts that were written for LocalAI. Errors have LocalAI's form, keys may be in `x-api-key` or
   * `xi-api-key`, and unknown fields of the body are ignored.
   */
  readonly dialect?: 'localai'
}

export const route = <P extends z.ZodType, Q extends z.ZodType, B extends z.ZodType, R extends z.ZodType>(
  definition: Route<P, Q, B, R>,
): Route<P, Q, B, R> => definition

export type ParamsOf<T> = T extends Route<infer P, infer _Q, infer _B, infer _R> ? z.infer<P> : never
export type QueryOf<T> = T extends Route<infer _P, infer Q, infer _B, infer _R> ? z.infer<Q> : never
export type BodyOf<T> = T extends Route<infer _P, infer _Q, infer B, infer _R> ? z.infer<B> : never
export type ResponseOf<T> = T extends Route<infer _P, infer _Q, infer _B, infer R> ? z.infer<R> : never

// A part that a route does not define is inferred as unknown and cannot be passed; a part that it defines is required.
type Part<Name extends string, Value> = unknown extends Value ? { readonly [K in Name]?: never } : { readonly [K in Name]: Value }
/** Arguments of a call. */
export type RouteInput<T> = Part<'params', ParamsOf<T>> & Part<'query', QueryOf<T>> & Part<'body', BodyOf<T>>

// The error envelope of the API; below /v1 it is OpenAI's.
export const ApiError = z.object({
  error: z.object({ code: z.string(), message: z.string(), details: z.record(z.string(), z.unknown()).optional() }),
})
export type ApiError = z.infer<typeof ApiError>

// The address of a route: base URL, path with its parameters filled in, query.
type Values = Readonly<Record<string, unknown>>

export function routeUrl(base: URL, target: Pick<Route, 'path'>, input: { params?: unknown; query?: unknown }): URL {
  const params = asValues(input.params)
  const path = target.path.replace(/:([a-z_]+)/g, (_, name: string) => {
    const value = params[name]
    if (typeof value !== 'string') throw new Error(`route ${target.path} needs the parameter ${name}`)
    return encodeURIComponent(value)
  })
  // A controller may be behind a path of a reverse proxy.
  const url = new URL(base)
  url.pathname = base.pathname.replace(/\/+$/, '') + path
  url.search = ''
  url.hash = ''
  for (const [name, value] of Object.entries(asValues(input.query))) {
    if (value !== undefined && value !== null) url.searchParams.append(name, queryText(value))
  }
  return url
}

/** Lists are written with commas. */
const queryText = (value: {}): string =>
  typeof value === 'string' ? value : Array.isArray(value) ? value.map(String).join(',') : JSON.stringify(value)

function asValues(value: unknown): Values {
  return typeof value === 'object' && value !== null ? { ...value } : {}
}
