// Signed requests to the controllers. Any controller answers for the cluster: when one is unreachable or fails, the next request
// goes to another one; when one is silent, a hedged request goes to the next one too.
import type { z } from 'zod'
import { parseJson, type Clock, errorMessage } from '@muster/host'
import { ApiError, FleetError, type Route } from '@muster/protocol'
import type { OutboundResponse } from '@muster/source'
import { type ControllerFailover, createControllerFailover, formatPath, refusedTime, type FailoverDeps } from './controller-failover.ts'
import { type JsonResponse, openStream, requestJson } from './http-request.ts'

/**
 * `refused` is a controller's own error (its body was understood); anything else that is not a response of a controller, such
 * as a proxy's page or a closed port, is `unreachable`.
 */
export type Answer<T> =
  | { readonly kind: 'ok'; readonly body: T }
  | Readonly<{ kind: 'refused'; status: number; code: string; message: string; retryAfterMs: number | null }>
  | Readonly<{ kind: 'unreachable'; url: string; reason: string; retryAfterMs: number | null }>

export type Call = Readonly<{
  params?: Readonly<Record<string, string>>
  body: unknown
  timeoutMs: number
  /** Hedges: after this time without an answer the same request goes to the next controller too, and the first answer counts. */
  hedgeMs?: number
  signal: AbortSignal
}>
type AnyRoute<R extends z.ZodType> = Route<z.ZodType, z.ZodType, z.ZodType, R>

export interface ControllerClient {
  call<R extends z.ZodType>(route: AnyRoute<R>, call: Call): Promise<Answer<z.output<R>>>
  /** A response as a stream, from the first controller that has the content. */
  open(wanted: Download): Promise<OutboundResponse>
  /** The controller of the next request. */
  current(): string
  /** All controllers, the current one first. */
  all(): readonly string[]
}

export function createControllerClient(deps: FailoverDeps): ControllerClient {
  const failover = createControllerFailover(deps)
  const send = (
    { url, after }: { url: string; after?: number },
    route: AnyRoute<z.ZodType>,
    { params, body, timeoutMs, signal }: Call,
  ): Promise<JsonResponse> => {
    const target = new URL(formatPath(route.path, params ?? {}), url)
    const bytes = Buffer.from(JSON.stringify(body))
    const headers = failover.sign({ method: route.method, target, body: bytes, ...(after === undefined ? {} : { after }) })
    return requestJson({ method: route.method, url: target, headers, body: bytes, timeoutMs, signal })
  }

  const ask = async <R extends z.ZodType>(url: string, route: AnyRoute<R>, request: Call): Promise<Answer<z.output<R>>> => {
    try {
      let response = await send({ url }, route, request)
      if (failover.isSkewed(response)) response = await send({ url }, route, request)
      // The clock of the previous process was ahead: this request is signed with a later time.
      const newest = refusedTime(response, { status: 409, code: 'registration_outdated', detail: 'newest' })
      if (newest !== null) response = await send({ url, after: newest }, route, request)
      return parseAnswer(route, { url, response })
    } catch (error) {
      request.signal.throwIfAborted()
      return { kind: 'unreachable', url, reason: errorMessage(error), retryAfterMs: null }
    }
  }
  const call: ControllerClient['call'] = async (route, request) => {
    const current = failover.current()
    const { hedgeMs, signal } = request
    const { url, answer } = await firstAnswer({
      urls: hedgeMs === undefined ? [current] : failover.all(),
      hedgeMs: hedgeMs ?? 0,
      ask: (each, stop) => ask(each, route, { ...request, signal: stop }),
      clock: deps.clock,
      signal,
    })
    if (isInconclusive(answer)) failover.rotate(current)
    else if (url !== current) failover.prefer(url)
    return answer
  }
  return { call, open: (wanted) => download({ failover, clock: deps.clock }, wanted), current: failover.current, all: failover.all }
}

const isInconclusive = (answer: Answer<unknown>): boolean =>
  answer.kind === 'unreachable' || (answer.kind === 'refused' && answer.status >= 500)

type Hedge<T> = Readonly<{
  /** Never empty. */
  urls: readonly string[]
  hedgeMs: number
  ask: (url: string, signal: AbortSignal) => Promise<Answer<T>>
  clock: Clock
  signal: AbortSignal
}>
type HedgedAnswer<T> = Readonly<{ url: string; answer: Answer<T> }>

/**
 * Returns the first conclusive answer, else the last one. A controller that fails at once is not hedged, since the caller paces its
 * retries. Silence leads to the next controller: a frozen process accepts connections and answers nothing.
 */
async function firstAnswer<T>({ urls, hedgeMs, ask, clock, signal }: Hedge<T>): Promise<HedgedAnswer<T>> {
  const done = new AbortController()
  const stop = AbortSignal.any([signal, done.signal])
  const asked = new Map<string, Promise<HedgedAnswer<T>>>()
  try {
    for (let next = 0; ;) {
      const url = urls[next]
      if (url !== undefined) {
        next += 1
        asked.set(
          url,
          ask(url, stop).then((answer) => ({ url, answer })),
        )
      }
      const silence = next < urls.length ? [clock.sleep(hedgeMs, stop).then(() => null)] : []
      const first = await Promise.race([...asked.values(), ...silence])
      if (first === null) continue
      asked.delete(first.url)
      if (asked.size === 0 || !isInconclusive(first.answer)) return first
    }
  } finally {
    done.abort()
    // The requests that are given up reject.
    await Promise.allSettled(asked.values())
  }
}

function parseAnswer<R extends z.ZodType>(
  route: AnyRoute<R>,
  { url, response }: { url: string; response: JsonResponse },
): Answer<z.output<R>> {
  const retryAfterMs = parseRetryAfter(response.headers['retry-after'])
  const { status } = response
  if (status >= 200 && status < 300) {
    const body = route.response?.safeParse(response.body)
    if (body?.success) return { kind: 'ok', body: body.data }
    return { kind: 'unreachable', url, reason: `answered ${status} with an unexpected body`, retryAfterMs }
  }
  const body = ApiError.safeParse(response.body)
  if (!body.success) return { kind: 'unreachable', url, reason: `answered ${status}, but is not a controller`, retryAfterMs }
  return { kind: 'refused', status, code: body.data.error.code, message: body.data.error.message, retryAfterMs }
}

/** Seconds only: the form with a date depends on two clocks. */
export function parseRetryAfter(value: string | undefined): number | null {
  return value !== undefined && /^\d{1,6}$/.test(value.trim()) ? Number(value.trim()) * 1000 : null
}

type Download = Readonly<{
  route: { readonly path: string }
  params: Readonly<Record<string, string>>
  /** The controller to start with, after another one sent wrong content. */
  first?: string
  headers: Readonly<Record<string, string>>
  /** The statuses that count as success. */
  okStatuses: readonly number[]
  /** Names the content in error messages. */
  what: string
  signal: AbortSignal
}>
type Deps = Readonly<{ failover: ControllerFailover; clock: Clock }>
/** Status 0: unreachable. */
type Refusal = Readonly<{ url: string; status: number; message: string }>

const largestRefusal = 65_536
const nothing = new Uint8Array()

/**
 * A signed GET whose response is a stream. Controllers of different versions have different content: when one lacks it or fails,
 * the next one is tried. Only controllers are contacted, and redirects are not followed.
 */
async function download(deps: Deps, wanted: Download): Promise<OutboundResponse> {
  const refusals: Refusal[] = []
  for (const url of inOrder(deps.failover.all(), wanted.first)) {
    const answer = await openFrom(deps, url, wanted)
    if ('body' in answer) return answer
    refusals.push(answer)
    if (answer.status === 0 || answer.status >= 500) deps.failover.rotate(url)
  }
  const reasons = refusals.map(({ url, message }) => `${url} ${message}`).join('; ')
  // A controller with the content may still join: controllers are replaced one by one.
  const code = refusals.every(({ status }) => status === 404) ? 'not_found' : 'unavailable'
  throw new FleetError({ code, retry: 'backoff', message: `no controller has ${wanted.what}: ${reasons}`.slice(0, 2000) })
}

/** `first` counts only if it is a known controller. */
const inOrder = (known: readonly string[], first: string | undefined): readonly string[] =>
  first !== undefined && known.includes(first) ? [first, ...known.filter((url) => url !== first)] : known

async function openFrom({ failover, clock }: Deps, url: string, wanted: Download): Promise<OutboundResponse | Refusal> {
  const { route, params, headers, okStatuses, signal } = wanted
  const target = new URL(formatPath(route.path, params), url)
  const onBroken = (): void => failover.rotate(url)
  const send = (): Promise<OutboundResponse> =>
    openStream({
      url: target,
      headers: { ...headers, ...failover.sign({ method: 'GET', target, body: nothing }) },
      onBroken,
      clock,
      signal,
    })
  try {
    let response = await send()
    if (okStatuses.includes(response.status)) return response
    let body = await readJson(response)
    if (failover.isSkewed({ status: response.status, body })) {
      response = await send()
      if (okStatuses.includes(response.status)) return response
      body = await readJson(response)
    }
    return { url, ...readRefusal(response.status, body) }
  } catch (error) {
    signal.throwIfAborted()
    return { url, status: 0, message: `did not answer (${errorMessage(error)})` }
  }
}

/** A response that is not a controller's own error proves nothing about its content. */
function readRefusal(status: number, body: unknown): Omit<Refusal, 'url'> {
  const error = ApiError.safeParse(body).data?.error
  if (error === undefined) return { status: 0, message: `answered ${status}, but is not a controller` }
  return { status, message: `answered ${status} (${error.code}: ${error.message.slice(0, 300)})` }
}

const readJson = async (response: OutboundResponse): Promise<unknown> => parseJson(await response.text(largestRefusal).catch(() => ''))
