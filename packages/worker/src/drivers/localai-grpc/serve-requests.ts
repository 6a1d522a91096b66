// Serves OpenAI's requests with a LocalAI backend: chats and completions (whole or streamed), embeddings, tokenization.
import type { z } from 'zod'
import { errorMessage, newId } from '@muster/host'
import { GrpcFailure } from './client.ts'
import { answer, callerGone, type Exchange, readBody, refusalFrom, refuse } from './exchange.ts'
import type { EmbeddingResult, PredictOptions, Reply } from './messages.ts'
import { ChatRequest, CompletionRequest, EmbeddingsRequest, Sampling, TokenizeRequest } from './openai-request.ts'
import { modelIdentityOf } from './load-options.pure.ts'
import {
  chunksOf,
  embeddingsAnswer,
  firstChunk,
  type Head,
  openAiError,
  ReplyReader,
  lastChunks,
  wholeAnswer,
} from './openai-response.pure.ts'
import { chatOptions, completionOptions, type Rejection, tokenLimit } from './predict-options.pure.ts'

type GenerationRequest = z.output<typeof ChatRequest> | z.output<typeof CompletionRequest>
type Job = Readonly<{ head: Head; options: PredictOptions; limit: number; withUsage: boolean }>

export async function serveChat(exchange: Exchange): Promise<void> {
  const request = await readBody(exchange, ChatRequest)
  if (request !== null) await generate(exchange, request, { kind: 'chat', options: chatOptions(request, parametersOf(exchange)) })
}

export async function serveCompletion(exchange: Exchange): Promise<void> {
  const request = await readBody(exchange, CompletionRequest)
  if (request !== null)
    await generate(exchange, request, { kind: 'completion', options: completionOptions(request, parametersOf(exchange)) })
}

/** Only the sampling fields of the model's parameters. */
function parametersOf({ spec }: Exchange): Sampling {
  const parsed = Sampling.safeParse(spec.config.parameters)
  return parsed.success ? parsed.data : {}
}

async function generate(
  exchange: Exchange,
  request: GenerationRequest,
  how: { kind: Head['kind']; options: PredictOptions | Rejection },
): Promise<void> {
  const { spec, clock } = exchange
  const { kind, options } = how
  if ('refused' in options) return refuse(exchange, { status: 400, message: options.refused, param: options.param })
  const correlation = exchange.request.headers['x-request-id']
  const job: Job = {
    head: { id: newId(kind === 'chat' ? 'chatcmpl' : 'cmpl'), created: Math.floor(clock.now() / 1000), model: spec.model, kind },
    options: {
      ...options,
      ModelIdentity: modelIdentityOf(spec),
      ...(typeof correlation === 'string' ? { CorrelationId: correlation.slice(0, 200) } : {}),
    },
    limit: tokenLimit(request, parametersOf(exchange)),
    withUsage: request.stream_options?.include_usage === true,
  }
  await (request.stream === true ? stream(exchange, job) : whole(exchange, job))
}

async function whole(exchange: Exchange, { head, options, limit }: Job): Promise<void> {
  await translate(exchange, async (signal) =>
    answer(exchange, 200, wholeAnswer(head, await exchange.client.predict(options, { signal }), limit)),
  )
}

/** The response begins with the backend's first reply, so that until then the request can go to another replica. */
function stream(exchange: Exchange, job: Job): Promise<void> {
  const { response, client, spec } = exchange
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const replies = client.predictStream(job.options)
  const reader = new ReplyReader()
  response.once('close', () => {
    replies.cancel()
    resolve()
  })
  response.on('drain', () => replies.resume())
  replies.onReply((reply: Reply) => {
    begin(exchange, job.head)
    const text = chunksOf(job.head, reader.read(reply)).join('')
    if (text !== '' && !response.write(text)) replies.pause()
  })
  replies.onEnd(() => {
    begin(exchange, job.head)
    const rest = { content: reader.rest(), reasoning: '', toolCalls: [], logprobs: undefined }
    const usage = job.withUsage ? reader.usage() : null
    response.end(chunksOf(job.head, rest).join('') + lastChunks(job.head, { finishReason: reader.finishReason(job.limit), usage }))
  })
  replies.onFailure((failure) => {
    if (response.destroyed || response.writableEnded) return
    try {
      const refusal = refusalFrom(spec, failure)
      if (response.headersSent) cutStream(exchange, refusal.message)
      else refuse(exchange, refusal)
    } catch (error) {
      if (response.headersSent) cutStream(exchange, errorMessage(error))
      else reject(error instanceof Error ? error : new Error(String(error)))
    }
  })
  return promise
}

/** After the first byte an error response is impossible: the stream ends with an error event, and is cut. */
function cutStream({ response }: Exchange, message: string): void {
  response.write(`data: ${JSON.stringify(openAiError(500, message))}\n\n`)
  // Without the final chunk, which would mark the response as complete. Written data still arrives.
  response.socket?.destroySoon()
}

function begin({ response, headers }: Exchange, head: Head): void {
  if (response.headersSent || response.destroyed) return
  response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache', ...headers })
  response.write(firstChunk(head))
}

export async function serveEmbeddings(exchange: Exchange): Promise<void> {
  const { spec, client } = exchange
  const request = await readBody(exchange, EmbeddingsRequest)
  if (request === null) return
  if (request.dimensions !== null && request.dimensions !== undefined) {
    return refuse(exchange, {
      status: 400,
      message: 'this backend has embeddings of one length; omit dimensions',
      param: 'dimensions',
    })
  }
  await translate(exchange, async (signal) => {
    const results: EmbeddingResult[] = []
    // One after the other: a backend computes one at a time, and a disconnect cancels the rest.
    for (const input of inputsOf(request.input)) {
      const result = await client.embedding({ ...input, ModelIdentity: modelIdentityOf(spec) }, { signal })
      if (result.layout === 'PER_TOKEN') {
        return refuse(exchange, { status: 501, message: `${spec.model} computes one embedding per token, not one per text` })
      }
      results.push(result)
    }
    answer(exchange, 200, embeddingsAnswer(spec.model, results, request.encoding_format ?? 'float'))
  })
}

export async function serveTokenize(exchange: Exchange): Promise<void> {
  const text = await readBody(exchange, TokenizeRequest)
  if (text === null) return
  await translate(exchange, async (signal) => {
    const { tokens } = await exchange.client.tokenize({ Prompt: text, ModelIdentity: modelIdentityOf(exchange.spec) }, { signal })
    answer(exchange, 200, { tokens })
  })
}

async function translate(exchange: Exchange, work: (signal: AbortSignal) => Promise<void>): Promise<void> {
  try {
    await work(callerGone(exchange))
  } catch (error) {
    if (exchange.response.destroyed) return
    if (!(error instanceof GrpcFailure)) throw error
    refuse(exchange, refusalFrom(exchange.spec, error))
  }
}

type Input = string | readonly number[]

function inputsOf(input: Input | readonly Input[]): PredictOptions[] {
  return isOne(input) ? [inputOf(input)] : input.map(inputOf)
}

const isOne = (input: Input | readonly Input[]): input is Input => typeof input === 'string' || typeof input[0] === 'number'

const inputOf = (input: Input): PredictOptions => (typeof input === 'string' ? { Embeddings: input } : { EmbeddingTokens: input })
