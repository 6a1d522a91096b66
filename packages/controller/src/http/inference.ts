// The data path of /v1, on the bare HTTP server: what costs microseconds elsewhere costs the throughput of every token
// here. Reads as much of a request as routes it, and hands the rest on as it came.
import { isUtf8 } from 'node:buffer'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { newId, type Clock, type Log } from '@muster/host'
import { inferenceRoutes } from '@muster/protocol'
import type { Inference } from '../inference/serve.ts'
import { ClientLink } from '../routing/client-link.ts'
import { prefixKeyOf } from '../routing/prefix-key.ts'
import { authorize, checkHost, type AuthorizeDeps } from './authorize.ts'
import { isTooDeep, tooDeepMessage } from './json-depth.ts'
import { HttpError, starting, toHttpError } from './http-error.ts'
import { answerOf, answerOfError, invalidField, modelNotFound, type InferenceAnswer } from './inference-answer.ts'

/** Pictures and sounds come inside the JSON. */
const maxBodyBytes = 32 * 2 ** 20
/** Of all requests together, while they are read and until they are answered. */
const maxHeldBytes = 512 * 2 ** 20

export interface InferenceHandlerDeps extends AuthorizeDeps {
  readonly inference: Inference
  readonly isStarted: () => boolean
  readonly clock: Clock
  readonly log: Log
  readonly onAnswer: (call: { route: string; method: string; status: number; ms: number }) => void
}
/** True: it is taken care of. False: it is not for here. */
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
  const began = deps.clock.monotonic()
  const requestId = newId()
  const link = new ClientLink()
  // Also after an answer that is out: then nothing is under way that could be ended.
  response.on('close', () => link.leave())
  response.on('error', () => link.leave())
  try {
    const answer = await answerTo(exchange, { requestId, link, deps })
    if (answer !== null) send(response, answer, { requestId, ms: deps.clock.monotonic() - began })
  } catch (thrown) {
    const error = toHttpError(thrown)
    if (error.code === 'internal') deps.log.error('request failed', { requestId, path, error: error.cause ?? error })
    if (response.headersSent) response.destroy()
    else send(response, answerOfError(error), { requestId, ms: deps.clock.monotonic() - began })
  } finally {
    deps.onAnswer({ route: path, method: 'POST', status: response.statusCode, ms: deps.clock.monotonic() - began })
  }
}

/** Null: it has been answered. */
async function answerTo(
  { request, response, path, bodies }: Exchange,
  { requestId, link, deps }: { requestId: string; link: ClientLink; deps: InferenceHandlerDeps },
): Promise<InferenceAnswer | null> {
  const { inference, clock } = deps
  const caller = { method: 'POST', header: (name: string) => headerOf(request, name) }
  const provenance = checkHost(caller, deps)
  if (!deps.isStarted() || !inference.isReady()) throw starting()
  await authorize(caller, 'inference', { provenance, deps })
  using body = await bodies.read(request)
  if (body === null) return null
  const asked = parseAsked(body.bytes, { path, isKeyed: (model) => inference.find(model)?.policy !== 'least' })
  if ('status' in asked) return asked
  if (!(await inference.isKnown(asked.model))) return modelNotFound(asked.model)
  if (!asked.isStreamValid) return invalidField('stream', 'stream is true or false')
  const { model, key } = asked
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

interface Asked {
  readonly model: string
  /** Of how it begins. What was parsed is not kept: it is larger than the bytes. */
  readonly key: number | null
  readonly isStreamValid: boolean
}

function parseAsked(bytes: Buffer, about: { path: string; isKeyed: (model: string) => boolean }): Asked | InferenceAnswer {
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

interface HeldBody extends Disposable {
  readonly bytes: Buffer
}

/** Bodies in memory: each has a limit, and so have all of them together. */
class BodyBudget {
  #held = 0

  /** Null when the client went away before it was whole. */
  async read(request: IncomingMessage): Promise<HeldBody | null> {
    const encoding = headerOf(request, 'content-encoding')
    if (encoding !== undefined && encoding !== 'identity') {
      throw new HttpError(415, 'unsupported_media_type', `send the body as it is, not as ${JSON.stringify(encoding)}`)
    }
    const chunks: Buffer[] = []
    let size = 0
    const release = (): void => {
      this.#held -= size
      size = 0
    }
    const { promise, resolve, reject } = Promise.withResolvers<HeldBody | null>()
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
