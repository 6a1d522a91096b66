// Asks a model, and tells what happens as events of the conversation. A model that is not loaded is asked again by
// itself, when the server said to, until it is served or refused.
import { createSseParser, inferenceRoutes, Loading } from '@muster/protocol'
import { z } from 'zod'
import { ApiFailure, open, refusalOf } from '../../api/client.ts'
import type { ConversationEvent, Message } from './conversation.pure.ts'
import type { Parameters } from './parameters.pure.ts'
import { readChunk, routeMsOf } from './answer-chunk.pure.ts'

export interface Question {
  readonly turn: number
  readonly model: string
  readonly messages: readonly Message[]
  readonly parameters: Parameters
}
export interface AskDeps {
  readonly signal: AbortSignal
  readonly tell: (events: readonly ConversationEvent[]) => void
  /** Ends when that time is over, when the model is said to have changed, or with the signal. */
  readonly pause: (ms: number) => Promise<void>
}

export const now = (): number => Math.round(performance.timeOrigin + performance.now())

const leastPauseMs = 500
const unreachablePauseMs = 2_000

export async function askModel(question: Question, deps: AskDeps): Promise<void> {
  const { signal, tell, pause } = deps
  const { turn } = question
  let isAwaited = false
  while (!signal.aborted) {
    tell([{ type: 'sent', turn, at: now() }])
    try {
      const response = await open(inferenceRoutes.chat, { body: bodyOf(question), signal })
      if (response.ok) return await readAnswer(response, turn, deps)
      const refusal = await readRefusal(response)
      if (refusal.failure.code !== 'model_loading') return refuse(turn, refusal.failure, tell)
      isAwaited = true
      tell([{ type: 'loading', turn, loading: refusal.loading, message: refusal.failure.message }])
      await pause(refusal.retryMs)
    } catch (error) {
      if (signal.aborted) return
      const failure = error instanceof ApiFailure ? error : new ApiFailure({ status: 0, code: 'unknown', message: String(error) })
      // A controller that starts again while a model is loaded is no reason to give up.
      if (!isAwaited || failure.status !== 0) return refuse(turn, failure, tell)
      tell([{ type: 'loading', turn, loading: null, message: failure.message }])
      await pause(unreachablePauseMs)
    }
  }
}

const bodyOf = ({ model, messages, parameters }: Question) => ({
  model,
  messages,
  ...parameters,
  stream: true,
  stream_options: { include_usage: true },
})

const refuse = (turn: number, { code, message }: ApiFailure, tell: AskDeps['tell']): void =>
  tell([{ type: 'refused', turn, code, message }])

interface Refusal {
  readonly failure: ApiFailure
  readonly loading: Loading | null
  readonly retryMs: number
}

const WithLoading = z.looseObject({ loading: Loading })

async function readRefusal(response: Response): Promise<Refusal> {
  const text = await response.text()
  const failure = refusalOf(response.status, text)
  const seconds = Number(response.headers.get('retry-after') ?? 1)
  const retryMs = Math.max(leastPauseMs, Number.isFinite(seconds) ? seconds * 1_000 : 1_000)
  const parsed = failure.code === 'model_loading' ? WithLoading.safeParse(JSON.parse(text)) : null
  return { failure, loading: parsed?.data?.loading ?? null, retryMs }
}

async function readAnswer(response: Response, turn: number, { signal, tell }: AskDeps): Promise<void> {
  const { headers } = response
  tell([{ type: 'began', turn, nodeId: headers.get('x-muster-node'), routeMs: routeMsOf(headers.get('server-timing')) }])
  try {
    if (headers.get('content-type')?.startsWith('text/event-stream') !== true) {
      tell(eventsOf(await response.text(), turn))
      return tell([{ type: 'ended', turn, at: now(), isDone: true }])
    }
    await readStream(response, turn, tell)
  } catch (error) {
    if (!signal.aborted) tell([{ type: 'cut', turn, at: now(), why: `the connection broke off (${messageOf(error)})` }])
  }
}

async function readStream(response: Response, turn: number, tell: AskDeps['tell']): Promise<void> {
  const parser = createSseParser('')
  // Read at once, through nothing else: what still stands in a queue when a connection breaks is lost.
  const reader = response.body?.getReader()
  const decoder = new TextDecoder()
  let isDone = false
  for (let read = await reader?.read(); read?.done === false; read = await reader?.read()) {
    const events = parser.push(decoder.decode(read.value, { stream: true }))
    isDone ||= events.some(({ data }) => readChunk(data).kind === 'done')
    // What comes in one piece is one change of the page.
    tell(events.flatMap(({ data }) => eventsOf(data, turn)))
  }
  tell([{ type: 'ended', turn, at: now(), isDone }])
}

function eventsOf(data: string, turn: number): ConversationEvent[] {
  const chunk = readChunk(data)
  if (chunk.kind === 'done') return []
  if (chunk.kind === 'error') return [{ type: 'cut', turn, at: now(), why: chunk.message }]
  return [{ type: 'heard', turn, at: now(), delta: chunk.delta }]
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))
