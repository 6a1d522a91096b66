// Signed requests to the controllers. Any controller answers for the cluster: as soon as one can't
// be reached, or can't do its part, the next one is asked.
import { ApiError, type Route } from '@muster/protocol'
import type { OutboundResponse } from '@muster/source'
import type { z } from 'zod'
import { download, type Download } from './controller-download.ts'
import { createControllerRota, formatPath, refusedTime, type RotaDeps } from './controller-rota.ts'
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
  /** An answer as a stream, from the first controller that has it. */
  open(wanted: Download): Promise<OutboundResponse>
  /** The controller that is asked next. */
  current(): string
  /** All of them, that one first. */
  all(): readonly string[]
}

export function createControllerClient(deps: RotaDeps): ControllerClient {
  const rota = createControllerRota(deps)
  const send = (
    { url, after }: { url: string; after?: number },
    route: AnyRoute<z.ZodType>,
    { params, body, timeoutMs, signal }: Call,
  ): Promise<JsonResponse> => {
    const target = new URL(formatPath(route.path, params ?? {}), url)
    const bytes = Buffer.from(JSON.stringify(body))
    const headers = rota.sign({ method: route.method, target, body: bytes, ...(after === undefined ? {} : { after }) })
    return requestJson({ method: route.method, url: target, headers, body: bytes, timeoutMs, signal })
  }

  const call: ControllerClient['call'] = async (route, request) => {
    const url = rota.current()
    try {
      let response = await send({ url }, route, request)
      if (rota.isSkewed(response)) response = await send({ url }, route, request)
      // The clock of the process before this one was ahead: this one request is signed as if later.
      const newest = refusedTime(response, { status: 409, code: 'registration_outdated', detail: 'newest' })
      if (newest !== null) response = await send({ url, after: newest }, route, request)
      const answer = judge(route, { url, response })
      if (answer.kind === 'unreachable' || (answer.kind === 'refused' && answer.status >= 500)) rota.rotate(url)
      return answer
    } catch (error) {
      request.signal.throwIfAborted()
      rota.rotate(url)
      return { kind: 'unreachable', url, reason: error instanceof Error ? error.message : String(error), retryAfterMs: null }
    }
  }
  return { call, open: (wanted) => download({ rota, clock: deps.clock }, wanted), current: rota.current, all: rota.all }
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

/** Seconds; the form with a date is not worth trusting two clocks for. */
export function parseRetryAfter(value: string | undefined): number | null {
  return value !== undefined && /^\d{1,6}$/.test(value.trim()) ? Number(value.trim()) * 1000 : null
}
