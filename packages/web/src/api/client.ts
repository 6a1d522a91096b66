// Calls routes of the HTTP API as @muster/protocol defines them: the route types the input and parses the response.
import { ApiError, routeUrl, type ResponseOf, type Route, type RouteInput } from '@muster/protocol'

interface CallOptions {
  readonly signal?: AbortSignal
  readonly headers?: Readonly<Record<string, string>>
  /** For routes whose body is not JSON. */
  readonly content?: { readonly type: string; readonly body: string | Blob }
}
export type CallInput<T> = RouteInput<T> & CallOptions

/** Why a call failed: the server's message, or that the server is unreachable. */
export class ApiFailure extends Error {
  override readonly name = 'ApiFailure'
  /** 0 when there was no response. */
  readonly status: number
  readonly code: string
  readonly details: Readonly<Record<string, unknown>>

  constructor(failure: { status: number; code: string; message: string; details?: Readonly<Record<string, unknown>> }) {
    super(failure.message)
    this.status = failure.status
    this.code = failure.code
    this.details = failure.details ?? {}
  }
}

export const isLoggedOut = (error: unknown): boolean => error instanceof ApiFailure && error.status === 401

/** Makes a retry safe after a connection that broke before the response arrived. */
const newIdempotencyKey = (): string => crypto.randomUUID?.() ?? `${Date.now()}-${Math.random().toString(36).slice(2)}`

export async function call<T extends Route>(
  route: T,
  ...[input]: object extends CallInput<T> ? [CallInput<T>?] : [CallInput<T>]
): Promise<ResponseOf<T>> {
  const response = await open(route, input ?? {})
  const text = await response.text()
  if (!response.ok) throw toApiFailure(response.status, text)
  const parsed = route.response?.safeParse(text === '' ? undefined : parseJson(text))
  // The route's own schema has accepted it; a route without a schema has no response body.
  if (parsed === undefined || parsed.success) return parsed?.data as ResponseOf<T>
  const where = parsed.error.issues[0]?.path.join('.') ?? ''
  throw new ApiFailure({
    status: response.status,
    code: 'unexpected_response',
    message: `unexpected response to ${route.method} ${route.path} (${where}); reload the page`,
  })
}

type OpenInput = CallOptions & { readonly params?: unknown; readonly query?: unknown; readonly body?: unknown }

/** Returns the raw response with any status, for streams. Throws when the server is unreachable. */
export async function open(route: Route, input: OpenInput): Promise<Response> {
  const content = input.content ?? (input.body === undefined ? null : { type: 'application/json', body: JSON.stringify(input.body) })
  const headers = new Headers(input.headers)
  if (content !== null) headers.set('content-type', content.type)
  if (route.method === 'POST' && route.path.startsWith('/api/')) headers.set('idempotency-key', newIdempotencyKey())
  try {
    return await fetch(routeUrl(new URL(location.origin), route, input), {
      method: route.method,
      headers,
      body: content?.body ?? null,
      signal: input.signal ?? null,
    })
  } catch (error) {
    input.signal?.throwIfAborted()
    throw new ApiFailure({ status: 0, code: 'unreachable', message: unreachable, details: { cause: String(error) } })
  }
}

const unreachable = 'The controller is unreachable. Retrying; if this persists, check its log.'

export function toApiFailure(status: number, text: string): ApiFailure {
  const parsed = ApiError.safeParse(parseJson(text))
  if (!parsed.success) return new ApiFailure({ status, code: 'unknown', message: text.slice(0, 300) || `HTTP status ${status}` })
  const { code, message, details } = parsed.data.error
  return new ApiFailure({ status, code, message, ...(details === undefined ? {} : { details }) })
}

/** Undefined when the text is not JSON. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
