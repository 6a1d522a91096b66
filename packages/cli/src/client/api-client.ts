// Calls the routes of the HTTP API as they are defined in @muster/protocol: what goes in is typed by
// the route, what comes out is parsed by it.
import type { IncomingMessage } from 'node:http'
import type { Clock } from '@muster/host'
import type { BodyOf, ParamsOf, QueryOf, ResponseOf, Route } from '@muster/protocol'
import { CliError } from '../cli-error.ts'
import { plainText } from '../output/plain-text.ts'
import { explainRefusal, explainUnreachable, parseJson } from './explain-failure.ts'
import { openRequest, readText } from './http-request.ts'
import { repeatBroken } from './repeat-broken.ts'
import { routeUrl } from './route-url.ts'
import type { Target } from './target.ts'

// A part that a route does not define is inferred as unknown: it can't be given. One that it defines must be.
type Part<Name extends string, Value> = unknown extends Value ? { readonly [K in Name]?: never } : { readonly [K in Name]: Value }
export type CallInput<T> = Part<'params', ParamsOf<T>> &
  Part<'query', QueryOf<T>> &
  Part<'body', BodyOf<T>> & {
    /** Makes the request safe to repeat, and so it is repeated when its connection breaks. */
    readonly idempotencyKey?: string
  }

export interface Answer<T> {
  readonly body: ResponseOf<T>
  /** The same as it came, with fields that this version does not know. */
  readonly raw: unknown
}

export interface ApiClient {
  readonly target: Target
  /** Throws CliError when the server can't be reached, refuses, or answers something else than the route says. */
  call<T extends Route>(route: T, ...input: object extends CallInput<T> ? [CallInput<T>?] : [CallInput<T>]): Promise<Answer<T>>
  /** For answers that are streams: the head is checked, the body is the caller's to read and to end. */
  open(route: Route, options: { headers: Readonly<Record<string, string>>; signal: AbortSignal }): Promise<IncomingMessage>
}

const timeoutMs = 30_000
/** What makes an operation is answered once registries have been asked, for each platform. */
const longTimeoutMs = 120_000

interface SendInput {
  readonly params?: unknown
  readonly query?: unknown
  readonly body?: unknown
  readonly idempotencyKey?: string
}

export function createApiClient({ target, userAgent, clock }: { target: Target; userAgent: string; clock: Clock }): ApiClient {
  const baseHeaders = { 'user-agent': userAgent, ...(target.key === null ? {} : { authorization: `Bearer ${target.key.reveal()}` }) }

  async function sendOnce(route: Route, input: SendInput): Promise<{ response: IncomingMessage; text: string }> {
    const body = input.body === undefined ? undefined : JSON.stringify(input.body)
    const headers = {
      ...baseHeaders,
      accept: 'application/json',
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...(input.idempotencyKey === undefined ? {} : { 'idempotency-key': input.idempotencyKey }),
    }
    const signal = AbortSignal.timeout(input.idempotencyKey === undefined ? timeoutMs : longTimeoutMs)
    try {
      const response = await openRequest({
        method: route.method,
        url: routeUrl(target.url, route, input),
        headers,
        signal,
        ...(body === undefined ? {} : { body }),
      })
      return { response, text: await readText(response) }
    } catch (error) {
      throw signal.aborted ? signal.reason : error
    }
  }

  async function send(route: Route, input: SendInput): Promise<{ response: IncomingMessage; text: string }> {
    const once = () => sendOnce(route, input)
    try {
      return input.idempotencyKey === undefined ? await once() : await repeatBroken(once, clock)
    } catch (error) {
      throw explainUnreachable(error, target, input.idempotencyKey === undefined ? timeoutMs : longTimeoutMs)
    }
  }

  return {
    target,
    call: async (route, ...[input]) => {
      const { response, text } = await send(route, input ?? {})
      if (!isSuccess(response)) throw explainRefusal(refusalOf(response, text), target)
      return parseAnswer(route, { status: response.statusCode ?? 0, text }, target)
    },
    open: async (route, { headers, signal }) => {
      let response: IncomingMessage
      try {
        response = await openRequest({
          method: route.method,
          url: routeUrl(target.url, route, {}),
          headers: { ...baseHeaders, ...headers },
          signal,
        })
      } catch (error) {
        signal.throwIfAborted()
        throw explainUnreachable(error, target, timeoutMs)
      }
      if (isSuccess(response)) return response
      throw explainRefusal(refusalOf(response, await readText(response)), target)
    },
  }
}

const isSuccess = (response: IncomingMessage): boolean =>
  response.statusCode !== undefined && response.statusCode >= 200 && response.statusCode < 300

const refusalOf = (response: IncomingMessage, text: string): Parameters<typeof explainRefusal>[0] => ({
  status: response.statusCode ?? 0,
  contentType: response.headers['content-type'] ?? '',
  location: response.headers.location ?? null,
  text,
})

function parseAnswer<T extends Route>(route: T, { status, text }: { status: number; text: string }, target: Target): Answer<T> {
  const raw = text === '' ? undefined : parseJson(text)
  const parsed = route.response?.safeParse(raw)
  // The schema of this very route has just accepted it (a route without one answers nothing).
  if (parsed === undefined || parsed.success) return { body: parsed?.data as ResponseOf<T>, raw }
  const issue = parsed.error.issues[0]
  const where = issue === undefined ? '' : `: ${[...issue.path.map(String), issue.message].join(' ')}`
  throw new CliError(
    `the answer of ${target.url.origin} to ${route.method} ${route.path} is not what this version expects${plainText(where)}`,
    {
      status,
      hint: 'compare `muster --version` with the version that `muster doctor` shows for the controller',
    },
  )
}
