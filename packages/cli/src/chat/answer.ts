// One chat request and its answer: streamed to the terminal, or returned as one object.
import type { IncomingMessage } from 'node:http'
import { z } from 'zod'
import { parseJson, errorMessage } from '@muster/host'
import { createSseParser, inferenceRoutes, type ModelName, type ServerEvent } from '@muster/protocol'
import { CliError } from '../cli-error.ts'
import { readText } from '../client/api-client.ts'
import type { ClientCall } from '../commands/command.ts'
import { plainText } from '../output/text.ts'
import { createLoadingNotice, waitForModel } from './wait-for-model.ts'

export interface ChatMessage {
  readonly role: 'system' | 'user' | 'assistant'
  readonly content: string
}

export interface ChatSettings {
  readonly model: ModelName
  readonly system: readonly ChatMessage[]
  /** Sent as given; the model's defaults apply to the rest. */
  readonly sampling: { readonly temperature?: number; readonly max_tokens?: number; readonly seed?: number }
  /** How long to wait for a model that has to be loaded first. */
  readonly waitMs: number
  readonly hasStats: boolean
}

interface ChatRequest {
  readonly settings: ChatSettings
  readonly messages: readonly ChatMessage[]
  readonly signal: AbortSignal
}

/** Returns the text; it is incomplete when the signal aborted. Throws when the request was refused or the answer cut off. */
export async function streamAnswer(call: ClientCall, request: ChatRequest): Promise<{ text: string; isWhole: boolean }> {
  const { api, print, shell } = call
  const { clock, terminal } = shell
  let text = ''
  let startedAt = 0
  let firstAt: number | null = null

  const begin = (signal: AbortSignal): Promise<IncomingMessage> => {
    startedAt = clock.monotonic()
    const body = { ...requestBody(request), stream: true, stream_options: { include_usage: true } }
    return api.open(inferenceRoutes.chat, { body, headers: { accept: 'text/event-stream' }, signal })
  }
  const write = (piece: string): void => {
    firstAt ??= clock.monotonic()
    text += piece
    terminal.write(terminal.width === null ? piece : stripControls(piece))
  }
  const endLine = (): void => {
    if (text !== '' && !text.endsWith('\n')) terminal.write('\n')
  }
  const finish = ({ finishReason, usage }: Extract<AnswerPart, { kind: 'end' }>): void => {
    if (finishReason === 'length') print.remark('the answer ends at the limit of tokens')
    const endedAt = clock.monotonic()
    if (request.settings.hasStats) print.remark(statsText({ usage, startedAt, firstAt: firstAt ?? endedAt, endedAt }))
  }

  try {
    for await (const piece of readAnswer(await sendWhenLoaded(call, request, begin))) {
      if (piece.kind === 'text') {
        write(piece.text)
        continue
      }
      endLine()
      finish(piece)
      return { text, isWhole: true }
    }
  } catch (error) {
    endLine()
    if (!request.signal.aborted) throw error
  }
  return { text, isWhole: false }
}

export async function requestAnswer(call: ClientCall, request: ChatRequest): Promise<unknown> {
  const send = (signal: AbortSignal) => call.api.call(inferenceRoutes.chat, { body: { ...requestBody(request), stream: false }, signal })
  const { raw } = await sendWhenLoaded(call, request, send)
  if (raw === undefined) throw new CliError('the answer of the backend is not JSON')
  return raw
}

const requestBody = ({ settings, messages }: ChatRequest) => ({
  model: settings.model,
  messages: [...settings.system, ...messages],
  ...settings.sampling,
})

function sendWhenLoaded<T>(call: ClientCall, { settings, signal }: ChatRequest, send: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const { clock, terminal } = call.shell
  const notice = createLoadingNotice({ api: call.api, clock, print: call.print, terminal, model: settings.model })
  return waitForModel(send, { clock, notice, waitMs: settings.waitMs, signal })
}

/** Removes control characters that a terminal would obey; line breaks and tabs stay. */
const stripControls = (text: string): string => text.replace(/[^\P{Cc}\n\t]/gu, '')

const Usage = z.object({ prompt_tokens: z.number(), completion_tokens: z.number() })
export type Usage = z.infer<typeof Usage>

const finish = { finish_reason: z.string().nullish() }
const Content = z.object({ content: z.string().nullish() })
const Chunk = z.object({
  choices: z.array(z.object({ delta: Content.nullish(), message: Content.nullish(), ...finish })).default([]),
  usage: Usage.nullish().catch(null),
})
const ErrorChunk = z.object({ error: z.object({ message: z.string() }) })

type AnswerPart =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'end'; readonly finishReason: string | null; readonly usage: Usage | null }

/** Yields the parts of the text and the end. Throws when the answer is cut off. */
async function* readAnswer(response: IncomingMessage): AsyncGenerator<AnswerPart, void, void> {
  let finishReason: string | null = null
  let usage: Usage | null = null
  for await (const event of eventsOf(response)) {
    if (event.data === '[DONE]') return yield { kind: 'end', finishReason, usage }
    const chunk = parseChunk(event)
    const [choice] = chunk.choices
    usage = chunk.usage ?? usage
    finishReason = choice?.finish_reason ?? finishReason
    const text = (choice?.delta ?? choice?.message)?.content ?? ''
    if (text !== '') yield { kind: 'text', text }
  }
  throw cut('the stream ended early')
}

/** A backend without streaming answers with one JSON object: one part, and the end. */
async function* eventsOf(response: IncomingMessage): AsyncGenerator<ServerEvent, void, void> {
  response.setEncoding('utf8')
  try {
    if (response.headers['content-type']?.startsWith('application/json') === true) {
      for (const data of [await readText(response), '[DONE]']) yield { type: 'message', data, lastEventId: '' }
      return
    }
    const parser = createSseParser('')
    for await (const chunk of response) yield* parser.push(String(chunk))
  } catch (error) {
    throw cut(errorMessage(error), error)
  } finally {
    response.destroy()
  }
}

function parseChunk({ type, data }: ServerEvent): z.infer<typeof Chunk> {
  const raw = parseJson(data)
  const failed = ErrorChunk.safeParse(raw)
  if (failed.success) throw cut(failed.data.error.message)
  const parsed = Chunk.safeParse(raw)
  if (!parsed.success || type === 'error') throw cut(`unexpected event: ${data.slice(0, 200)}`)
  return parsed.data
}

const cut = (reason: string, cause?: unknown): CliError => new CliError(`the answer was cut off: ${plainText(reason)}`, { cause })

interface AnswerTimes {
  readonly usage: Usage | null
  readonly startedAt: number
  readonly firstAt: number
  readonly endedAt: number
}

/** A shorter time means that the text came in one part; it gives no rate. */
const leastWritingMs = 20

const secondsText = (ms: number): string => `${(ms / 1000).toFixed(1)} s`

export function statsText({ usage, startedAt, firstAt, endedAt }: AnswerTimes): string {
  const times = `${secondsText(endedAt - startedAt)}, first token after ${secondsText(firstAt - startedAt)}`
  if (usage === null) return `${times}; the backend did not report token counts`
  const { prompt_tokens: read, completion_tokens: written } = usage
  // The first token includes reading the prompt; the rate is that of the others.
  const rate =
    written > 1 && endedAt - firstAt >= leastWritingMs ? `, ${(((written - 1) / (endedAt - firstAt)) * 1000).toFixed(1)} tokens/s` : ''
  return `${read} prompt tokens, ${written} completion tokens in ${times}${rate}`
}
