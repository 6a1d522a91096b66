// Calls to one backend process. The only file that uses the gRPC library.
import { Client, type ClientReadableStream, type ClientUnaryCall, credentials, type ServiceError, status } from '@grpc/grpc-js'
import { loadSync, type MethodDefinition } from '@grpc/proto-loader'
import { join } from 'node:path'
import { z } from 'zod'
import type { BackendAddress } from '../driver.ts'
import type {
  EmbeddingResult,
  ModelMetadata,
  ModelOptions,
  PredictOptions,
  Reply,
  Result,
  StatusResponse,
  TokenizationResponse,
} from './messages.ts'

/** The limit of LocalAI and its backends. */
const largestMessage = 50 * 1024 * 1024

/** A failed call, with gRPC's name of the status. */
export class GrpcFailure extends Error {
  readonly code: string
  constructor(code: string, message: string) {
    super(message)
    this.name = 'GrpcFailure'
    this.code = code
  }
}

export type CallLimits = Readonly<{ signal?: AbortSignal; timeoutMs?: number }>

type Unary<Request, Answer> = (request: Request, limits?: CallLimits) => Promise<Answer>

/** `pause` reaches the backend. */
export interface ReplyStream {
  onReply(listener: (reply: Reply) => void): void
  /** Called after the last reply of a successful stream. */
  onEnd(listener: () => void): void
  onFailure(listener: (failure: GrpcFailure) => void): void
  pause(): void
  resume(): void
  cancel(): void
}

export interface BackendClient {
  readonly health: Unary<object, Reply>
  readonly loadModel: Unary<ModelOptions, Result>
  readonly status: Unary<object, StatusResponse>
  readonly modelMetadata: Unary<ModelOptions, ModelMetadata>
  readonly predict: Unary<PredictOptions, Reply>
  readonly embedding: Unary<PredictOptions, EmbeddingResult>
  readonly tokenize: Unary<PredictOptions, TokenizationResponse>
  predictStream(request: PredictOptions): ReplyStream
  close(): void
}

export function createBackendClient(address: BackendAddress): BackendClient {
  const target = address.kind === 'tcp' ? `${address.host}:${address.port}` : `unix:${address.path}`
  const client = new Client(target, credentials.createInsecure(), {
    'grpc.max_receive_message_length': largestMessage,
    'grpc.max_send_message_length': largestMessage,
    // This machine only: no proxy, no shared connections.
    'grpc.enable_http_proxy': 0,
    'grpc.use_local_subchannel_pool': 1,
    'grpc.service_config_disable_resolution': 1,
    'grpc.initial_reconnect_backoff_ms': 100,
    'grpc.max_reconnect_backoff_ms': 1_000,
  })
  return {
    health: unary(client, 'Health'),
    loadModel: unary(client, 'LoadModel'),
    status: unary(client, 'Status'),
    modelMetadata: unary(client, 'ModelMetadata'),
    predict: unary(client, 'Predict'),
    embedding: unary(client, 'Embedding'),
    tokenize: unary(client, 'TokenizeString'),
    predictStream: (request) => streamOf(client, request),
    close: () => client.close(),
  }
}

function unary<Request extends object, Answer extends object>(client: Client, name: string): Unary<Request, Answer> {
  const { path, requestSerialize, responseDeserialize } = methodOf(name)
  return async (request, { signal, timeoutMs } = {}) => {
    signal?.throwIfAborted()
    const { promise, resolve, reject } = Promise.withResolvers<Answer>()
    const options = timeoutMs === undefined ? {} : { deadline: Date.now() + timeoutMs }
    // The definition determines the type; the library types it as any object.
    const read = (bytes: Buffer): Answer => responseDeserialize(bytes) as Answer
    const call: ClientUnaryCall = client.makeUnaryRequest(path, requestSerialize, read, request, options, (error, answer) => {
      if (error !== null) reject(failureFrom(error))
      else if (answer === undefined) reject(new GrpcFailure('INTERNAL', 'a response without a message'))
      else resolve(answer)
    })
    const onAbort = (): void => call.cancel()
    signal?.addEventListener('abort', onAbort, { once: true })
    try {
      return await promise
    } finally {
      signal?.removeEventListener('abort', onAbort)
    }
  }
}

function streamOf(client: Client, request: PredictOptions): ReplyStream {
  const { path, requestSerialize, responseDeserialize } = methodOf('PredictStream')
  const read = (bytes: Buffer): Reply => responseDeserialize(bytes) as Reply
  const call: ClientReadableStream<Reply> = client.makeServerStreamRequest(path, requestSerialize, read, request)
  // The library also ends a stream that failed; only the status shows the failure.
  let isWhole = false
  call.once('status', ({ code }) => {
    isWhole = code === status.OK
  })
  return {
    onReply: (listener) => void call.on('data', listener),
    onEnd: (listener) => void call.once('end', () => isWhole && listener()),
    onFailure: (listener) => void call.on('error', (error: Error) => listener(failureFrom(error))),
    pause: () => void call.pause(),
    resume: () => void call.resume(),
    cancel: () => call.cancel(),
  }
}

function failureFrom(error: Error | ServiceError): GrpcFailure {
  if (!('code' in error) || !('details' in error)) return new GrpcFailure('INTERNAL', error.message)
  return new GrpcFailure(status[error.code] ?? 'UNKNOWN', error.details === '' ? error.message : error.details)
}

const definition = loadSync(join(import.meta.dirname, 'backend.proto'), { keepCase: true, longs: Number, enums: String, defaults: true })

type Method = MethodDefinition<object, object>

export function methodOf(name: string): Method {
  const service = definition['backend.Backend']
  const method = service !== undefined && !('format' in service) ? service[name] : undefined
  if (method === undefined) throw new Error(`backend.proto has no ${name}`)
  return method
}

/** `kind` as in descriptors: `TYPE_STRING`, `TYPE_INT32`, … */
export type Field = Readonly<{ name: string; number: number; kind: string; isRepeated: boolean }>
const Descriptor = z.object({
  field: z.array(z.object({ name: z.string(), number: z.number(), type: z.string(), label: z.string() })),
})

export function fieldsOf(message: string): readonly Field[] {
  const found = definition[`backend.${message}`]
  if (found === undefined || !('type' in found)) throw new Error(`backend.proto has no message ${message}`)
  const { field } = Descriptor.parse(found.type)
  return field.map(({ name, number, type, label }) => ({ name, number, kind: type, isRepeated: label === 'LABEL_REPEATED' }))
}
