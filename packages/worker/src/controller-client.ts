// Signed requests to the controllers. Any controller answers for the cluster: as soon as one can't
// be reached, or can't do its part, the next one is asked.
import { signRequest, type Clock, type Log, type NodeKey } from '@muster/host'
import { ApiError, type Route } from '@muster/protocol'
import { z } from 'zod'
import { requestJson, type JsonResponse } from './http-json.ts'

/**
 * `refused` is a controller's own word (its error body was understood); whatever else is not an
 * answer, a proxy's page as much as a closed port, is `unreachable`: nothing follows from it.
 */
export type Answer<T> =
  | { readonly kind: 'ok'; readonly body: T }
  | Readonly<{ kind: 'refused'; status: number; code: string; message: string; retryAfterMs: number | null }>
  | Readonly<{ kind: 'unreachable'; url: string; reason: string; retryAfterMs: number | null }>

export type Call = Readonly<{ params?: Readonly<Record<string, string>>; body: unknown; timeoutMs: number; signal: AbortSignal }>
type AnyRoute<R extends z.ZodType> = Route<z.ZodType, z.ZodType, z.ZodType, R>

export interface ControllerClient {
  call<R extends z.ZodType>(route: AnyRoute<R>, call: Call): Promise<Answer<z.output<R>>>
  /** The controller that is asked next. */
  current(): string
}

export type ClientDeps = Readonly<{
  key: NodeKey
  /** In order of preference, never empty; read anew for each request. */
  urls: () => readonly [string, ...string[]]
  clock: Clock
  log: Log
}>

export function createControllerClient({ key, urls, clock, log }: ClientDeps): ControllerClient {
  let preferred: string | null = null
  /** How far the controllers' clock is ahead of ours, once one complained. */
  let offsetMs = 0

  const current = (): string => {
    const known = urls()
    return preferred !== null && known.includes(preferred) ? preferred : known[0]
  }
  const rotate = (from: string): void => {
    const known = urls()
    preferred = known[(known.indexOf(from) + 1) % known.length] ?? known[0]
    if (preferred !== from) log.info('asking another controller', { from, to: preferred })
  }
  const send = (
    { url, after }: { url: string; after?: number },
    route: AnyRoute<z.ZodType>,
    { params, body, timeoutMs, signal }: Call,
  ): Promise<JsonResponse> => {
    const target = new URL(formatPath(route.path, params ?? {}), url)
    const bytes = Buffer.from(JSON.stringify(body))
    const now = new Date(Math.max(clock.now() + offsetMs, after === undefined ? 0 : after + 1))
    const headers = signRequest(key, { method: route.method, path: target.pathname, body: bytes, now })
    return requestJson({ method: route.method, url: target, headers, body: bytes, timeoutMs, signal })
  }

  const call: ControllerClient['call'] = async (route, request) => {
    const url = current()
    try {
      let response = await send({ url }, route, request)
      const theirNow = refusedTime(response, { status: 401, code: 'clock_skew', detail: 'now' })
      if (theirNow !== null) {
        offsetMs = theirNow - clock.now()
        log.warn('this clock differs from the controllers’; signing with theirs', { offsetMs: Math.round(offsetMs) })
        response = await send({ url }, route, request)
      }
      // The clock of the process before this one was ahead: this one request is signed as if later.
      const newest = refusedTime(response, { status: 409, code: 'registration_outdated', detail: 'newest' })
      if (newest !== null) response = await send({ url, after: newest }, route, request)
      const answer = judge(route, { url, response })
      if (answer.kind === 'unreachable' || (answer.kind === 'refused' && answer.status >= 500)) rotate(url)
      return answer
    } catch (error) {
      request.signal.throwIfAborted()
      rotate(url)
      return { kind: 'unreachable', url, reason: error instanceof Error ? error.message : String(error), retryAfterMs: null }
    }
  }
  return { call, current }
}

function judge<R extends z.ZodType>(route: AnyRoute<R>, { url, response }: { url: string; response: JsonResponse }): Answer<z.output<R>> {
  const retryAfterMs = parseRetryAfter(response.headers['retry-after'])
  const { status } = response
  if (status >= 200 && status < 300) {
    const body = route.response?.safeParse(response.body)
    if (body?.success) return { kind: 'ok', body: body.data }
    return { kind: 'unreachable', url, reason: `answered ${status} with something that is not Muster's`, retryAfterMs }
  }
  const body = ApiError.safeParse(response.body)
  if (!body.success) return { kind: 'unreachable', url, reason: `answered ${status}, and not as a controller does`, retryAfterMs }
  return { kind: 'refused', status, code: body.data.error.code, message: body.data.error.message, retryAfterMs }
}

/** What time controllers name when they refuse a request because of ours. */
function refusedTime({ status, body }: JsonResponse, because: { status: number; code: string; detail: string }): number | null {
  if (status !== because.status) return null
  const error = ApiError.safeParse(body).data?.error
  if (error?.code !== because.code) return null
  const time = Date.parse(z.string().safeParse(error.details?.[because.detail]).data ?? '')
  return Number.isNaN(time) ? null : time
}

/** Seconds; the form with a date is not worth trusting two clocks for. */
export function parseRetryAfter(value: string | undefined): number | null {
  return value !== undefined && /^\d{1,6}$/.test(value.trim()) ? Number(value.trim()) * 1000 : null
}

const formatPath = (path: string, params: Readonly<Record<string, string>>): string =>
  path.replace(/:(\w+)/g, (_, name: string) => encodeURIComponent(params[name] ?? ''))
