// Sends a request to a model and dispatches its progress as conversation events. While the model is loading, the request is
// repeated when the server allows it, until it is served or rejected.
import { createSseParser, inferenceRoutes, Loading } from '@muster/protocol'
import { z } from 'zod'
import { ApiFailure, open, toApiFailure } from '../../api/client.ts'
import type { ConversationEvent, Message } from './conversation.pure.ts'
import type { Parameters } from './parameters.pure.ts'
import { readChunk, routeMsOf } from './answer-chunk.pure.ts'

export interface ChatRequest {
  readonly turn: number
  readonly model: string
  readonly messages: readonly Message[]
  readonly parameters: Parameters
}
export interface AnswerDeps {
  readonly signal: AbortSignal
  readonly dispatch: (events: readonly ConversationEvent[]) => void
  /** Ends after this time, when the model changes its state, or when the signal aborts. */
  readonly pause: (ms: number) => Promise<void>
}

export const now = (): number => Math.round(performance.timeOrigin + performance.now())

const minPauseMs = 500
const unreachablePauseMs = 2_000

export async function requestAnswer(request: ChatRequest, deps: AnswerDeps): Promise<void> {
  const { signal, dispatch, pause } = deps
  const { turn } = request
  let isLoading = false
  while (!signal.aborted) {
    dispatch([{ type: 'sent', turn, at: now() }])
    try {
      const response = await open(inferenceRoutes.chat, { body: bodyOf(request), signal })
      if (response.ok) return await readAnswer(response, turn, deps)
      const refusal = await readRefusal(response)
      if (refusal.failure.code !== 'model_loading') return refuse(turn, refusal.failure, dispatch)
      isLoading = true
      dispatch([{ type: 'loading', turn, loading: refusal.loading, message: refusal.failure.message }])
      await pause(refusal.retryMs)
    } catch (error) {
      if (signal.aborted) return
      const failure = error instanceof ApiFailure ? error : new ApiFailure({ status: 0, code: 'unknown', message: String(error) })
      // A controller restart while the model loads is retried.
      if (!isLoading || failure.status !== 0) return refuse(turn, failure, dispatch)
      dispatch([{ type: 'loading', turn, loading: null, message: failure.message }])
      await pause(unreachablePauseMs)
    }
  }
}

const bodyOf = ({ model, messages, parameters }: ChatRequest) => ({
  model,
  messages,
  ...parameters,
  stream: true,
  stream_options: { include_usage: true },
})

const refuse = (turn: number, { code, message }: ApiFailure, dispatch: AnswerDeps['dispatch']): void =>
  dispatch([{ type: 'refused', turn, code, message }])

interface Refusal {
  readonly failure: ApiFailure
  readonly loading: Loading | null
  readonly retryMs: number
}

const WithLoading = z.looseObject({ loading: Loading })

async function readRefusal(response: Response): Promise<Refusal> {
  const text = await response.text()
  const failure = toApiFailure(response.status, text)
  const seconds = Number(response.headers.get('retry-after') ?? 1)
  const retryMs = Math.max(minPauseMs, Number.isFinite(seconds) ? seconds * 1_000 : 1_000)
  const parsed = failure.code === 'model_loading' ? WithLoading.safeParse(JSON.parse(text)) : null
  return { failure, loading: parsed?.data?.loading ?? null, retryMs }
}

async function readAnswer(response: Response, turn: number, { signal, dispatch }: AnswerDeps): Promise<void> {
  const { headers } = response
  dispatch([{ type: 'started', turn, nodeId: headers.get('x-muster-node'), routeMs: routeMsOf(headers.get('server-timing')) }])
  try {
    if (headers.get('content-type')?.startsWith('text/event-stream') !== true) {
      dispatch(eventsOf(await response.text(), turn))
      return dispatch([{ type: 'ended', turn, at: now(), isDone: true }])
    }
    await readStream(response, turn, dispatch)
  } catch (error) {
    if (!signal.aborted) dispatch([{ type: 'interrupted', turn, at: now(), reason: `connection lost (${messageOf(error)})` }])
  }
}

async function readStream(response: Response, turn: number, dispatch: AnswerDeps['dispatch']): Promise<void> {
  const parser = createSseParser('')
  // Read without a pipe: data queued in one is lost when the connection breaks.
  const reader = response.body?.getReader()
  const decoder = new TextDecoder()
  let isDone = false
  for (let read = await reader?.read(); read?.done === false; read = await reader?.read()) {
    const events = parser.push(decoder.decode(read.value, { stream: true }))
    isDone ||= events.some(({ data }) => readChunk(data).kind === 'done')
    // One chunk is one update of the page.
    dispatch(events.flatMap(({ data }) => eventsOf(data, turn)))
  }
  dispatch([{ type: 'ended', turn, at: now(), isDone }])
}

function eventsOf(data: string, turn: number): ConversationEvent[] {
  const chunk = readChunk(data)
  if (chunk.kind === 'done') return []
  if (chunk.kind === 'error') return [{ type: 'interrupted', turn, at: now(), reason: chunk.message }]
  return [{ type: 'received', turn, at: now(), delta: chunk.delta }]
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))
