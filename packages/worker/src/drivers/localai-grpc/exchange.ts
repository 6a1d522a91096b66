// One HTTP request to a gRPC backend: reading the body, responding, and translating failures.
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { z } from 'zod'
import { parseJson, type Clock } from '@muster/host'
import { FleetError } from '@muster/protocol'
import { unreachableProcess, type ReplicaSpec } from '../driver.ts'
import { type BackendClient, GrpcFailure } from './client.ts'
import { openAiError } from './openai-response.pure.ts'
import type { ServedModel } from './served-model.ts'

export type Exchange = Readonly<{
  spec: ReplicaSpec
  model: ServedModel
  client: BackendClient
  /** The marker that stands for a medium in a prompt of this process. */
  mediaMarker: () => Promise<string>
  clock: Clock
  request: IncomingMessage
  response: ServerResponse
  headers: Readonly<Record<string, string>>
}>

/** The limit of a gRPC message. */
const largestBody = 50 * 1024 * 1024

export function answer({ response, headers }: Exchange, status: number, body: object): void {
  if (response.destroyed) return
  const text = JSON.stringify(body)
  response.writeHead(status, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text), ...headers })
  response.end(text)
}

export const refuse = (exchange: Exchange, { status, message, param }: Refusal): void =>
  answer(exchange, status, openAiError(status, message, param ?? null))

/** Null: the request was refused, or the caller is gone. */
export async function readBody<S extends z.ZodType>(exchange: Exchange, schema: S): Promise<z.output<S> | null> {
  const bytes = await readAll(exchange.request)
  if (bytes === 'gone') return null
  if (bytes === 'too_large') {
    refuse(exchange, { status: 413, message: `a request to this backend has at most ${largestBody} bytes` })
    return null
  }
  const parsed = schema.safeParse(parseJson(bytes.toString('utf8')))
  if (parsed.success) return parsed.data
  const [issue] = parsed.error.issues
  const param = issue?.path.join('.') ?? ''
  refuse(exchange, { status: 400, message: issue === undefined ? 'invalid body' : `${param}: ${issue.message}`, param })
  return null
}

async function readAll(request: IncomingMessage): Promise<Buffer | 'too_large' | 'gone'> {
  const chunks: Buffer[] = []
  let length = 0
  try {
    for await (const chunk of request) {
      if (!Buffer.isBuffer(chunk)) continue
      length += chunk.length
      if (length <= largestBody) chunks.push(chunk)
    }
  } catch {
    return 'gone'
  }
  return length > largestBody ? 'too_large' : Buffer.concat(chunks)
}

/** Aborts when the caller disconnects. */
function callerGone({ response }: Exchange): AbortSignal {
  const gone = new AbortController()
  if (response.destroyed) gone.abort()
  response.once('close', () => gone.abort())
  return gone.signal
}

/** An error response. */
type Refusal = Readonly<{ status: number; message: string; param?: string }>

/**
 * Translates a failed call. A process that is not there, has no model or another model is not this replica (I14): that is
 * thrown, so that the request goes to another replica.
 */
export function refusalFrom(spec: ReplicaSpec, { code, message }: GrpcFailure): Refusal {
  switch (code) {
    case 'UNAVAILABLE':
    case 'FAILED_PRECONDITION':
      throw unreachableProcess(spec, new Error(message))
    case 'NOT_FOUND':
      if (/model identity mismatch/i.test(message)) throw unreachableProcess(spec, new Error(message))
      return { status: 404, message }
    case 'UNIMPLEMENTED':
      return { status: 501, message: `the backend ${spec.backend} does not support this: ${message}` }
    case 'INVALID_ARGUMENT':
    case 'OUT_OF_RANGE':
      return { status: 400, message }
    case 'RESOURCE_EXHAUSTED':
      return { status: 429, message }
    default:
      return { status: 500, message: `the backend ${spec.backend} failed: ${message}` }
  }
}

/** Runs a call of the backend that ends with the caller, and translates its failure. */
export async function translate(exchange: Exchange, work: (signal: AbortSignal) => Promise<void>): Promise<void> {
  try {
    await work(callerGone(exchange))
  } catch (error) {
    if (exchange.response.destroyed) return
    if (!(error instanceof GrpcFailure)) throw error
    refuse(exchange, refusalFrom(exchange.spec, error))
  }
}

export const loadFailed = (spec: ReplicaSpec, message: string, cause?: unknown): FleetError =>
  new FleetError(
    { code: 'internal', retry: 'backoff', message: `${spec.backend} cannot load the model ${spec.model}: ${message}`.slice(0, 8000) },
    { cause },
  )
