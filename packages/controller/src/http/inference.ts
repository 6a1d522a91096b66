// The data path of /v1, on the bare HTTP server for throughput. It parses the fields that route a request and forwards the
// body unchanged.
import { isUtf8 } from 'node:buffer'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { type Clock, type Log, newId } from '@muster/host'
import { inferenceRoutes, inferenceRoutes as routes } from '@muster/protocol'
import type { Inference } from '../inference/serve.ts'
import { ClientLink } from '../routing/attempt.ts'
import { prefixKeyOf } from '../routing/replica-choice.pure.ts'
import type { RoutedModel } from '../routing/replica-table.ts'
import { authorize, type AuthorizeDeps, checkHost, endpoint, type Endpoint } from './endpoint.ts'
import { discardBody, isTooDeep, tooDeepMessage } from './body.ts'
import { HttpError, starting, toHttpError } from './http-error.ts'
import { answerOf, answerOfError, disabledModel, type InferenceAnswer, invalidField, unknownModel } from './inference-answer.ts'

/** Images and audio are embedded in the JSON. */
const maxBodyBytes = 32 * 2 ** 20
/** For all requests together, from the first byte of the body to the response. */
const maxHeldBytes = 512 * 2 ** 20

export interface InferenceHandlerDeps extends AuthorizeDeps {
  readonly inference: Inference
  readonly isStarted: () => boolean
  readonly clock: Clock
  readonly log: Log
  readonly onAnswer: (call: { route: string; method: string; status: number; ms: number }) => void
}
/** False: the request is not for this handler. */
export type RawHandler = (request: IncomingMessage, response: ServerResponse) => boolean

const paths: ReadonlySet<string> = new Set([inferenceRoutes.chat.path, inferenceRoutes.completions.path, inferenceRoutes.embeddings.path])

export function createInferenceHandler(deps: InferenceHandlerDeps): RawHandler {
  const bodies = new BodyBudget()
  return (request, response) => {
    const path = pathOf(request)
    if (request.method !== 'POST' || !paths.has(path)) return false
    void serve({ request, response, path, bodies }, deps)
    return true
  }
}

function pathOf({ url = '' }: IncomingMessage): string {
  const end = url.indexOf('?')
  return end === -1 ? url : url.slice(0, end)
}

interface Exchange {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly path: string
  readonly bodies: BodyBudget
}

async function serve(exchange: Exchange, deps: InferenceHandlerDeps): Promise<void> {
  const { response, path } = exchange
  const startedAt = deps.clock.monotonic()
  const requestId = newId()
  const link = new ClientLink()
  // Also emitted after a complete response, when there is nothing left to abort.
  response.on('close', () => link.leave())
  response.on('error', () => link.leave())
  try {
    const answer = await answerTo(exchange, { requestId, link, deps })
    if (answer !== null) send(response, answer, { requestId, ms: deps.clock.monotonic() - startedAt })
  } catch (thrown) {
    const error = toHttpError(thrown)
    if (error.code === 'internal') deps.log.error('request failed', { requestId, path, error: error.cause ?? error })
    if (error.headers['connection'] === 'close') await discardBody(exchange.request)
    if (response.headersSent) response.destroy()
    else send(response, answerOfError(error), { requestId, ms: deps.clock.monotonic() - startedAt })
  } finally {
    deps.onAnswer({ route: path, method: 'POST', status: response.statusCode, ms: deps.clock.monotonic() - startedAt })
  }
}

/** Null: the response was sent, or the client is gone. */
async function answerTo(
  { request, response, path, bodies }: Exchange,
  { requestId, link, deps }: { requestId: string; link: ClientLink; deps: InferenceHandlerDeps },
): Promise<InferenceAnswer | null> {
  const { inference, clock } = deps
  const caller = { method: 'POST', header: (name: string) => headerOf(request, name) }
  const provenance = checkHost(caller, deps)
  if (!deps.isStarted() || !inference.isReady()) throw starting()
  await authorize(caller, { access: 'inference' }, { provenance, deps })
  using body = await bodies.read(request)
  if (body === null) return null
  const parsed = parseRequest(body.bytes, { path, isKeyed: (model) => inference.find(model)?.policy !== 'least' })
  if ('status' in parsed) return parsed
  if (!(await inference.isKnown(parsed.model))) return unknownModel(parsed.model)
  if (inference.find(parsed.model)?.isDisabled === true) return disabledModel(parsed.model)
  if (!parsed.isStreamValid) return invalidField('stream', 'stream is true or false')
  const { model, key } = parsed
  const accept = headerOf(request, 'accept') ?? '*/*'
  const refusal = await inference.serve({
    requestId,
    model,
    key,
    path,
    accept,
    contentType: 'application/json',
    body: body.bytes,
    response,
    link,
  })
  return refusal === null || link.isGone ? null : answerOf(refusal, { model, now: clock.now() })
}

const headerOf = ({ headers }: IncomingMessage, name: string): string | undefined => {
  const value = headers[name]
  return typeof value === 'string' ? value : value?.[0]
}

interface ParsedRequest {
  readonly model: string
  /** Hash of the prompt's beginning. The parsed body is dropped: it is larger than the bytes. */
  readonly key: number | null
  readonly isStreamValid: boolean
}

function parseRequest(bytes: Buffer, about: { path: string; isKeyed: (model: string) => boolean }): ParsedRequest | InferenceAnswer {
  if (!isUtf8(bytes)) throw new HttpError(400, 'invalid', 'the body is not JSON: it is not UTF-8')
  if (isTooDeep(bytes)) throw new HttpError(400, 'invalid', tooDeepMessage)
  let parsed: unknown
  try {
    parsed = JSON.parse(bytes.toString())
  } catch (error) {
    throw new HttpError(400, 'invalid', `the body is not JSON: ${error instanceof Error ? error.message : String(error)}`)
  }
  if (typeof parsed !== 'object' || parsed === null || Array.isArray(parsed))
    throw new HttpError(400, 'invalid', 'the body is not a JSON object')
  const model = 'model' in parsed ? parsed.model : undefined
  if (typeof model !== 'string' || model === '')
    return invalidField('model', 'the body needs a model: its name, as GET /v1/models lists it')
  const stream = 'stream' in parsed ? parsed.stream : undefined
  const key = about.isKeyed(model) ? prefixKeyOf(about.path, parsed) : null
  return { model, key, isStreamValid: stream === undefined || stream === null || typeof stream === 'boolean' }
}

function send(response: ServerResponse, answer: InferenceAnswer, { requestId, ms }: { requestId: string; ms: number }): void {
  if (response.destroyed) return
  const content = Buffer.from(JSON.stringify(answer.body))
  response.writeHead(answer.status, {
    ...answer.headers,
    'content-type': 'application/json',
    'content-length': content.length,
    'cache-control': 'no-store',
    'x-request-id': requestId,
    'server-timing': `total;dur=${ms.toFixed(1)}`,
  })
  response.end(content)
}

interface BufferedBody extends Disposable {
  readonly bytes: Buffer
}

/** Limits the bytes of each body, and of all bodies in memory together. */
class BodyBudget {
  #held = 0

  /** Null when the client disconnected before the end of the body. */
  async read(request: IncomingMessage): Promise<BufferedBody | null> {
    const encoding = headerOf(request, 'content-encoding')
    if (encoding !== undefined && encoding !== 'identity') {
      throw new HttpError(415, 'unsupported_media_type', `send the body without Content-Encoding, not as ${JSON.stringify(encoding)}`)
    }
    const chunks: Buffer[] = []
    let size = 0
    const release = (): void => {
      this.#held -= size
      size = 0
    }
    const { promise, resolve, reject } = Promise.withResolvers<BufferedBody | null>()
    const refuse = (error: HttpError): void => {
      release()
      chunks.length = 0
      request.off('data', onData).pause()
      reject(error)
    }
    const onData = (chunk: Buffer): void => {
      size += chunk.length
      this.#held += chunk.length
      if (size > maxBodyBytes) refuse(tooLarge())
      else if (this.#held > maxHeldBytes) refuse(overloaded())
      else chunks.push(chunk)
    }
    if (Number(headerOf(request, 'content-length') ?? 0) > maxBodyBytes) throw tooLarge()
    request.on('data', onData)
    request.once('end', () => {
      const [first] = chunks
      resolve({ bytes: chunks.length === 1 && first !== undefined ? first : Buffer.concat(chunks), [Symbol.dispose]: release })
    })
    request.once('error', () => resolve(null))
    request.once('close', () => resolve(null))
    const held = await promise
    if (held === null) release()
    return held
  }
}

const closing = { connection: 'close' }
const tooLarge = (): HttpError => new HttpError(413, 'too_large', `the body is larger than ${maxBodyBytes} bytes`, { headers: closing })
const overloaded = (): HttpError =>
  new HttpError(503, 'overloaded', 'this controller holds as many requests as it can; try again', {
    headers: { ...closing, 'retry-after': '2' },
  })

const viewOf = ({ name, createdAt }: RoutedModel) => ({
  id: name,
  object: 'model' as const,
  created: Math.floor(Date.parse(createdAt) / 1000),
  owned_by: 'muster',
})

/**
 * GET /v1/models. The POST routes of /v1 are served by the raw handler; they are listed here for the OpenAPI document and
 * for 405 responses.
 */
export function openAiEndpoints(inference: Inference): Endpoint[] {
  const servedBefore = async (): Promise<never> => {
    throw new HttpError(400, 'invalid', 'send this request with a path, without the host')
  }
  return [
    endpoint(routes.models, async () => ({ object: 'list' as const, data: inference.models().map(viewOf) })),
    endpoint(routes.model, async ({ params }) => {
      const model = inference.find(params.id)
      if (model === undefined)
        throw new HttpError(404, 'model_not_found', `model ${params.id} does not exist; GET /v1/models lists all models`)
      return viewOf(model)
    }),
    endpoint(routes.chat, servedBefore),
    endpoint(routes.completions, servedBefore),
    endpoint(routes.embeddings, servedBefore),
  ]
}
