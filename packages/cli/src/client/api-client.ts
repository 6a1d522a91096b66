// Calls the routes of the HTTP API that @muster/protocol defines: each route types its input and parses its answer.
import { type IncomingMessage, request as requestHttp } from 'node:http'
import { request as requestHttps } from 'node:https'
import type { Readable } from 'node:stream'
import { type Clock, errorCode, parseJson } from '@muster/host'
import { backoffMs, type ResponseOf, type Route, type RouteInput, routeUrl } from '@muster/protocol'
import { CliError } from '../cli-error.ts'
import { plainText } from '../output/text.ts'
import { explainRefusal, explainUnreachable } from './explain-failure.ts'
import type { Target } from './target.ts'

interface CallOptions {
  /** Makes the request safe to repeat: it is sent again when its connection breaks. */
  readonly idempotencyKey?: string
  readonly headers?: Readonly<Record<string, string>>
  /** For routes that do not take JSON. */
  readonly content?: Content
  /** Replaces the default timeout. */
  readonly signal?: AbortSignal
}
export type CallInput<T> = RouteInput<T> & CallOptions

export interface Content {
  readonly type: string
  readonly body: RequestBody
}

export interface Answer<T> {
  readonly status: number
  readonly body: ResponseOf<T>
  /** The unparsed answer, with fields unknown to this version. */
  readonly raw: unknown
}

export interface ApiClient {
  readonly target: Target
  /** Throws CliError when the server is unreachable, refuses, or answers something that the route does not define. */
  call<T extends Route>(route: T, ...input: object extends CallInput<T> ? [CallInput<T>?] : [CallInput<T>]): Promise<Answer<T>>
  /** For streams: checks the head; the caller reads and ends the body. */
  open(route: Route, input: OpenInput): Promise<IncomingMessage>
}

const timeoutMs = 30_000
/** A request that creates an operation is answered after registries were queried for each platform. */
const longTimeoutMs = 120_000

type SendInput = CallOptions & { readonly params?: unknown; readonly query?: unknown; readonly body?: unknown }

export interface OpenInput extends Pick<SendInput, 'params' | 'query' | 'body' | 'headers'> {
  readonly signal: AbortSignal
}

export function createApiClient({ target, userAgent, clock }: { target: Target; userAgent: string; clock: Clock }): ApiClient {
  const baseHeaders = { 'user-agent': userAgent, ...(target.key === null ? {} : { authorization: `Bearer ${target.key.reveal()}` }) }

  function begin(route: Route, input: SendInput & { signal: AbortSignal }): Promise<IncomingMessage> {
    const content = input.content ?? jsonContent(input.body)
    return openRequest({
      method: route.method,
      url: routeUrl(target.url, route, input),
      headers: { ...baseHeaders, ...(content === null ? {} : { 'content-type': content.type }), ...input.headers },
      signal: input.signal,
      ...(content === null ? {} : { body: content.body }),
    })
  }

  async function sendOnce(route: Route, input: SendInput): Promise<{ response: IncomingMessage; text: string }> {
    const key = input.idempotencyKey
    const signal = input.signal ?? AbortSignal.timeout(key === undefined ? timeoutMs : longTimeoutMs)
    const headers = { accept: 'application/json', ...(key === undefined ? {} : { 'idempotency-key': key }), ...input.headers }
    try {
      const response = await begin(route, { ...input, headers, signal })
      return { response, text: await readText(response) }
    } catch (error) {
      throw signal.aborted ? signal.reason : error
    }
  }

  async function send(route: Route, input: SendInput): Promise<{ response: IncomingMessage; text: string }> {
    const once = () => sendOnce(route, input)
    try {
      return input.idempotencyKey === undefined ? await once() : await retryBroken(once, clock)
    } catch (error) {
      input.signal?.throwIfAborted()
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
    open: async (route, input) => {
      let response: IncomingMessage
      try {
        response = await begin(route, input)
      } catch (error) {
        input.signal.throwIfAborted()
        throw explainUnreachable(error, target, timeoutMs)
      }
      if (isSuccess(response)) return response
      throw explainRefusal(refusalOf(response, await readText(response)), target)
    },
  }
}

const jsonContent = (body: unknown): Content | null =>
  body === undefined ? null : { type: 'application/json', body: JSON.stringify(body) }

const isSuccess = (response: IncomingMessage): boolean =>
  response.statusCode !== undefined && response.statusCode >= 200 && response.statusCode < 300

const refusalOf = (response: IncomingMessage, text: string): Parameters<typeof explainRefusal>[0] => ({
  status: response.statusCode ?? 0,
  contentType: response.headers['content-type'] ?? '',
  location: response.headers.location ?? null,
  retryAfter: response.headers['retry-after'] ?? null,
  text,
})

function parseAnswer<T extends Route>(route: T, { status, text }: { status: number; text: string }, target: Target): Answer<T> {
  const raw = text === '' ? undefined : parseJson(text)
  const parsed = route.response?.safeParse(raw)
  // The schema of this route has just accepted it (a route without a schema has no body).
  if (parsed === undefined || parsed.success) return { status, body: parsed?.data as ResponseOf<T>, raw }
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

/** A stream is destroyed when the request ends. */
type RequestBody = string | { readonly stream: Readable; readonly sizeBytes: number }

interface HttpRequest {
  readonly method: string
  readonly url: URL
  readonly headers: Readonly<Record<string, string>>
  readonly body?: RequestBody
  readonly signal: AbortSignal
}

/**
 * Opens a connection of its own: a command makes few requests, and an idle socket must not keep it alive. Follows no
 * redirect, so that a key never goes elsewhere. Resolves with the head of the answer; rejects with the socket's error.
 */
export function openRequest(request: HttpRequest): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const open = request.url.protocol === 'https:' ? requestHttps : requestHttp
    const { body } = request
    const headers = { ...request.headers, ...(body === undefined ? {} : { 'content-length': String(sizeOf(body)) }) }
    const outgoing = open(request.url, { method: request.method, headers, signal: request.signal, agent: false })
    outgoing.on('response', resolve)
    outgoing.on('error', reject)
    if (body === undefined || typeof body === 'string') return void outgoing.end(body)
    body.stream.on('error', (error) => outgoing.destroy(error))
    outgoing.on('close', () => body.stream.destroy())
    body.stream.pipe(outgoing)
  })
}

const sizeOf = (body: RequestBody): number => (typeof body === 'string' ? Buffer.byteLength(body) : body.sizeBytes)

export async function readText(response: IncomingMessage): Promise<string> {
  response.setEncoding('utf8')
  let text = ''
  for await (const chunk of response) text += String(chunk)
  return text
}

/** Half a minute in all, enough for a controller to restart. */
const repeat = { times: 7, baseMs: 250, maxMs: 8_000, jitter: 0 }

/** Repeats a request whose connection broke before the answer. Only for requests that are safe to repeat. */
export async function retryBroken<T>(send: () => Promise<T>, clock: Pick<Clock, 'sleep'>): Promise<T> {
  try {
    return await send()
  } catch (error) {
    // No connection, or no answer in time: repeating does not help.
    if (neverSent(error) || isTimeout(error)) throw error
  }
  for (let attempt = 1; attempt <= repeat.times; attempt++) {
    await clock.sleep(backoffMs(attempt, repeat, 0))
    try {
      return await send()
    } catch (error) {
      if (isTimeout(error)) throw error
    }
  }
  return send()
}

const isTimeout = (error: unknown): boolean => error instanceof Error && error.name === 'TimeoutError'

function neverSent(error: unknown): boolean {
  const code = errorCode(error instanceof AggregateError ? error.errors[0] : error)
  return code === 'ECONNREFUSED' || code === 'ENOTFOUND' || code === 'EAI_AGAIN' || code === 'EHOSTUNREACH' || code === 'ENETUNREACH'
}
