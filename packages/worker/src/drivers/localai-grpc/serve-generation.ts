// Serves chats and completions with a LocalAI backend, whole or streamed.
import type { z } from 'zod'
import { errorMessage, newId } from '@muster/host'
import { longestToolText } from '@muster/source'
import { answer, type Exchange, readBody, refusalFrom, refuse, translate } from './exchange.ts'
import { modelIdentityOf } from './load-options.pure.ts'
import type { PredictOptions, Reply } from './messages.ts'
import { ChatRequest, CompletionRequest } from './openai-request.ts'
import {
  type AnswerForm,
  callsIn,
  chunksOf,
  firstChunk,
  type Head,
  lastChunks,
  openAiError,
  type ReplyDelta,
  ReplyReader,
  wholeAnswer,
} from './openai-response.pure.ts'
import { chatOptions, completionOptions } from './predict-options.pure.ts'
import { tokenLimit } from './sampling.pure.ts'

type GenerationRequest = z.output<typeof ChatRequest> | z.output<typeof CompletionRequest>
type Job = Readonly<{ head: Head; options: PredictOptions; form: AnswerForm; withUsage: boolean }>
type Generation = Readonly<{ kind: Head['kind']; options: PredictOptions; readCalls: AnswerForm['readCalls']; hasFunctions: boolean }>

export async function serveChat(exchange: Exchange): Promise<void> {
  const { model } = exchange
  const request = await readBody(exchange, ChatRequest)
  if (request === null) return
  const made = chatOptions(request, model)
  if ('refused' in made) return refuse(exchange, { status: 400, message: made.refused, param: made.param })
  const { readTools } = model
  const names = made.functionNames
  const readCalls = readTools === null || names.size === 0 ? null : (text: string) => readTools(text, names)
  const hasFunctions = (request.functions ?? []).length > 0 && (request.tools ?? []).length === 0
  const options = await placeMedia(exchange, made.options)
  await generate(exchange, request, { kind: 'chat', options, readCalls, hasFunctions })
}

export async function serveCompletion(exchange: Exchange): Promise<void> {
  const request = await readBody(exchange, CompletionRequest)
  if (request === null) return
  const made = completionOptions(request, exchange.model)
  if ('refused' in made) return refuse(exchange, { status: 400, message: made.refused, param: made.param })
  await generate(exchange, request, { kind: 'completion', options: made, readCalls: null, hasFunctions: false })
}

/** In a rendered prompt the places of media have the marker that this process of the backend chose. */
async function placeMedia({ model, mediaMarker }: Exchange, options: PredictOptions): Promise<PredictOptions> {
  const hasMedia = (options.Images ?? []).length + (options.Audios ?? []).length > 0
  if (options.Prompt === undefined || !hasMedia) return options
  return { ...options, Prompt: options.Prompt.replaceAll(model.mediaMarker, await mediaMarker()) }
}

async function generate(exchange: Exchange, request: GenerationRequest, how: Generation): Promise<void> {
  const { spec, clock, model } = exchange
  const { kind, hasFunctions } = how
  const correlation = exchange.request.headers['x-request-id']
  const id = newId(kind === 'chat' ? 'chatcmpl' : 'cmpl')
  const job: Job = {
    head: { id, created: Math.floor(clock.now() / 1000), model: spec.model, kind, hasFunctions },
    options: {
      ...how.options,
      ModelIdentity: modelIdentityOf(spec),
      ...(typeof correlation === 'string' ? { CorrelationId: correlation.slice(0, 200) } : {}),
    },
    form: { tokenLimit: tokenLimit(request, model.parameters), prefix: model.replyPrefix, readCalls: how.readCalls },
    withUsage: request.stream_options?.include_usage === true,
  }
  await (request.stream === true ? stream(exchange, job) : whole(exchange, job))
}

async function whole(exchange: Exchange, { head, options, form }: Job): Promise<void> {
  await translate(exchange, async (signal) =>
    answer(exchange, 200, wholeAnswer(head, await exchange.client.predict(options, { signal }), form)),
  )
}

/** The response begins with the backend's first reply, so that until then the request can go to another replica. */
function stream(exchange: Exchange, job: Job): Promise<void> {
  const { response, client, spec } = exchange
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const replies = client.predictStream(job.options)
  const writer = new AnswerWriter(job)
  response.once('close', () => {
    replies.cancel()
    resolve()
  })
  response.on('drain', () => replies.resume())
  replies.onReply((reply: Reply) => {
    begin(exchange, job.head)
    const text = writer.add(reply)
    if (text !== '' && !response.write(text)) replies.pause()
  })
  replies.onEnd(() => {
    begin(exchange, job.head)
    response.end(writer.end())
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

/** The events of a streamed answer. Text that may hold a tool call is kept until the end, or until it is too long for one. */
class AnswerWriter {
  readonly #job: Job
  readonly #reader: ReplyReader
  /** Null: nothing is held back. */
  #held: string | null
  #prefix: string

  constructor(job: Job) {
    this.#job = job
    this.#reader = new ReplyReader(job.head)
    this.#held = job.form.readCalls === null ? null : ''
    this.#prefix = job.form.prefix
  }

  add(reply: Reply): string {
    const delta = this.#reader.read(reply)
    const content = delta.content === '' ? '' : this.#takePrefix() + delta.content
    if (this.#held === null) return this.#chunks({ ...delta, content })
    this.#held += content
    const isText = this.#reader.hasToolCalls() || this.#held.length > longestToolText
    return this.#chunks({ ...delta, content: isText ? this.#release() : '' })
  }

  end(): string {
    const { head, form, withUsage } = this.#job
    const rest = this.#takePrefix() + this.#reader.rest()
    const { content, toolCalls } =
      this.#held === null || form.readCalls === null
        ? { content: rest, toolCalls: [] }
        : callsIn(head, form.readCalls(this.#release() + rest))
    const finishReason = this.#reader.finishReason(form.tokenLimit, toolCalls)
    const usage = withUsage ? this.#reader.usage() : null
    return this.#chunks({ content, reasoning: '', toolCalls, logprobs: undefined }) + lastChunks(head, { finishReason, usage })
  }

  #chunks(delta: ReplyDelta): string {
    return chunksOf(this.#job.head, delta).join('')
  }

  #release(): string {
    const held = this.#held ?? ''
    this.#held = null
    return held
  }

  #takePrefix(): string {
    const prefix = this.#prefix
    this.#prefix = ''
    return prefix
  }
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
