// Chats and completions: whole, or streamed as the backend says them.
import { newId } from '@muster/host'
import type { z } from 'zod'
import { GrpcFailure } from './client.ts'
import { answer, callerGone, readBody, refuse, type Exchange } from './exchange.ts'
import { refusalFrom } from './failures.ts'
import type { PredictOptions, Reply } from './messages.ts'
import { ChatRequest, CompletionRequest, Sampling } from './openai-request.ts'
import { chunksOf, firstChunk, Hearing, lastChunks, wholeAnswer, type Head } from './to-openai.ts'
import { modelIdentityOf } from './to-load-options.ts'
import { chatOptions, completionOptions, tokenLimit, type Refused } from './to-predict-options.ts'

type Asked = z.output<typeof ChatRequest> | z.output<typeof CompletionRequest>
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

/** What of the model's parameters is not about sampling is not read here. */
function parametersOf({ spec }: Exchange): Sampling {
  const parsed = Sampling.safeParse(spec.config.parameters)
  return parsed.success ? parsed.data : {}
}

async function generate(exchange: Exchange, request: Asked, how: { kind: Head['kind']; options: PredictOptions | Refused }): Promise<void> {
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
  const { client, spec, response } = exchange
  try {
    answer(exchange, 200, wholeAnswer(head, await client.predict(options, { signal: callerGone(exchange) }), limit))
  } catch (error) {
    if (response.destroyed) return
    if (!(error instanceof GrpcFailure)) throw error
    refuse(exchange, refusalFrom(spec, error))
  }
}

/** Nothing is answered before the backend said something, so that until then another replica can be asked. */
function stream(exchange: Exchange, job: Job): Promise<void> {
  const { response, client, spec } = exchange
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const replies = client.predictStream(job.options)
  const hearing = new Hearing()
  response.once('close', () => {
    replies.cancel()
    resolve()
  })
  response.on('drain', () => replies.resume())
  replies.onReply((reply: Reply) => {
    begin(exchange, job.head)
    const text = chunksOf(job.head, hearing.hear(reply)).join('')
    if (text !== '' && !response.write(text)) replies.pause()
  })
  replies.onEnd(() => {
    begin(exchange, job.head)
    const rest = { content: hearing.rest(), reasoning: '', toolCalls: [], logprobs: undefined }
    const usage = job.withUsage ? hearing.usage() : null
    response.end(chunksOf(job.head, rest).join('') + lastChunks(job.head, { finishReason: hearing.finishReason(job.limit), usage }))
  })
  replies.onFailure((failure) => {
    if (response.destroyed || response.writableEnded) return
    // After the first byte there is nothing true left to say but that it is cut.
    if (response.headersSent) return void response.destroy()
    try {
      refuse(exchange, refusalFrom(spec, failure))
    } catch (error) {
      reject(error instanceof Error ? error : new Error(String(error)))
    }
  })
  return promise
}

function begin({ response, headers }: Exchange, head: Head): void {
  if (response.headersSent || response.destroyed) return
  response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache', ...headers })
  response.write(firstChunk(head))
}
