// Calls to one backend process. The only place that knows the gRPC library.
import { Client, credentials, status, type ClientReadableStream, type ClientUnaryCall, type ServiceError } from '@grpc/grpc-js'
import type { BackendAddress } from '../driver.ts'
import type { EmbeddingResult, ModelOptions, PredictOptions, Reply, Result, StatusResponse, TokenizationResponse } from './messages.ts'
import { methodOf } from './proto.ts'

/** The largest message that LocalAI and its backends take. */
const largestMessage = 50 * 1024 * 1024

/** What a backend or the way to it refused, by gRPC's own name for it. */
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

/** Messages as they come; `pause` reaches the backend. */
export interface ReplyStream {
  onReply(listener: (reply: Reply) => void): void
  /** All of it was said. */
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
    // This machine only, by no proxy, on connections that nobody else shares.
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
    // What the definition reads is what its message says; the library types it as any object.
    const read = (bytes: Buffer): Answer => responseDeserialize(bytes) as Answer
    const call: ClientUnaryCall = client.makeUnaryRequest(path, requestSerialize, read, request, options, (error, answer) => {
      if (error !== null) reject(failureFrom(error))
      else if (answer === undefined) reject(new GrpcFailure('INTERNAL', 'an answer without a message'))
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
  // The library ends a stream that failed as well; only its status tells which of both it was.
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
