// The state machine of a conversation with a model. An answer is complete only when its stream ended properly; otherwise it
// is stopped, interrupted or refused, and keeps the text received so far.
import { Loading } from '@muster/protocol'
import { z } from 'zod'

const Usage = z.object({ promptTokens: z.number(), completionTokens: z.number() })
export type Usage = z.infer<typeof Usage>

/** Times in milliseconds. `sentAt` is that of the request that was answered, not of those that found the model loading. */
const Timing = z.object({
  submittedAt: z.number(),
  sentAt: z.number(),
  firstAt: z.number().nullable(),
  /** The controller's time until a replica was available, which includes loading the model. */
  routeMs: z.number().nullable(),
  nodeId: z.string().nullable(),
})
export type Timing = z.infer<typeof Timing>

const fields = { text: z.string(), timing: Timing, usage: Usage.nullable() }
const Answer = z.discriminatedUnion('state', [
  z.object({ state: z.literal('sending'), submittedAt: z.number(), sentAt: z.number(), loading: Loading.nullable() }),
  /** The model is loading; the request is repeated automatically. */
  z.object({ state: z.literal('loading'), submittedAt: z.number(), loading: Loading.nullable(), message: z.string() }),
  z.object({ state: z.literal('answering'), ...fields, finish: z.string().nullable() }),
  z.object({ state: z.literal('complete'), ...fields, finish: z.string().nullable(), endedAt: z.number() }),
  z.object({ state: z.literal('stopped'), ...fields, endedAt: z.number() }),
  z.object({ state: z.literal('interrupted'), ...fields, reason: z.string(), endedAt: z.number() }),
  z.object({ state: z.literal('refused'), code: z.string(), message: z.string() }),
])
export type Answer = z.infer<typeof Answer>

const Turn = z.object({ id: z.number(), model: z.string(), question: z.string(), answer: Answer })
export type Turn = z.infer<typeof Turn>

export const Conversation = z.object({ turns: z.array(Turn) })
export type Conversation = z.infer<typeof Conversation>

export interface Message {
  readonly role: 'system' | 'user' | 'assistant'
  readonly content: string
}

/** `turn` is the turn that the event belongs to; events of earlier turns are ignored. */
export type ConversationEvent =
  | { readonly type: 'submitted'; readonly model: string; readonly question: string; readonly at: number }
  | { readonly type: 'sent'; readonly turn: number; readonly at: number }
  | { readonly type: 'loading'; readonly turn: number; readonly loading: Loading | null; readonly message: string }
  | { readonly type: 'started'; readonly turn: number; readonly nodeId: string | null; readonly routeMs: number | null }
  | { readonly type: 'received'; readonly turn: number; readonly at: number; readonly delta: Delta }
  | { readonly type: 'ended'; readonly turn: number; readonly at: number; readonly isDone: boolean }
  | { readonly type: 'interrupted'; readonly turn: number; readonly at: number; readonly reason: string }
  | { readonly type: 'refused'; readonly turn: number; readonly code: string; readonly message: string }
  | { readonly type: 'stopped'; readonly turn: number; readonly at: number }
  | { readonly type: 'dropped_last' }
  | { readonly type: 'cleared' }

export interface Delta {
  readonly text: string
  readonly finish: string | null
  readonly usage: Usage | null
}

export const noConversation: Conversation = { turns: [] }
/** Older turns are dropped, also from later requests. */
const maxTurns = 100

const incomplete = 'the stream ended before the response was complete'

export function step(state: Conversation, event: ConversationEvent): Conversation {
  switch (event.type) {
    case 'submitted': {
      const id = (state.turns.at(-1)?.id ?? 0) + 1
      const answer: Answer = { state: 'sending', submittedAt: event.at, sentAt: event.at, loading: null }
      const turn = { id, model: event.model, question: event.question, answer }
      return isBusy(state) ? state : { turns: [...state.turns, turn].slice(-maxTurns) }
    }
    case 'dropped_last':
      return isBusy(state) ? state : { turns: state.turns.slice(0, -1) }
    case 'cleared':
      return noConversation
    default:
      return { turns: state.turns.map((turn) => (turn.id === event.turn ? { ...turn, answer: answerAfter(turn.answer, event) } : turn)) }
  }
}

type AnswerEvent = Extract<ConversationEvent, { readonly turn: number }>

function answerAfter(answer: Answer, event: AnswerEvent): Answer {
  if (!isOpen(answer)) return answer
  if (answer.state === 'answering') return streamAfter(answer, event)
  const { submittedAt } = answer
  switch (event.type) {
    case 'sent':
      return { state: 'sending', submittedAt, sentAt: event.at, loading: answer.loading }
    case 'loading':
      return { state: 'loading', submittedAt, loading: event.loading ?? answer.loading, message: event.message }
    case 'started': {
      const timing = { submittedAt, sentAt: answer.state === 'sending' ? answer.sentAt : submittedAt, firstAt: null }
      return { state: 'answering', ...empty, timing: { ...timing, routeMs: event.routeMs, nodeId: event.nodeId } }
    }
    case 'refused':
      return { state: 'refused', code: event.code, message: event.message }
    case 'stopped':
      return { state: 'stopped', ...empty, timing: { ...noTiming, submittedAt, sentAt: submittedAt }, endedAt: event.at }
    case 'interrupted':
      return {
        state: 'interrupted',
        ...empty,
        timing: { ...noTiming, submittedAt, sentAt: submittedAt },
        reason: event.reason,
        endedAt: event.at,
      }
    default:
      return answer
  }
}

const empty = { text: '', usage: null, finish: null }
const noTiming = { firstAt: null, routeMs: null, nodeId: null }

function streamAfter(answer: Extract<Answer, { state: 'answering' }>, event: AnswerEvent): Answer {
  const { text, timing, usage, finish } = answer
  switch (event.type) {
    case 'received': {
      const { delta, at } = event
      const firstAt = timing.firstAt ?? (delta.text === '' ? null : at)
      const next = { text: text + delta.text, timing: { ...timing, firstAt }, usage: delta.usage ?? usage }
      return { state: 'answering', ...next, finish: delta.finish ?? finish }
    }
    case 'ended':
      return event.isDone || finish !== null
        ? { state: 'complete', text, timing, usage, finish, endedAt: event.at }
        : { state: 'interrupted', text, timing, usage, reason: incomplete, endedAt: event.at }
    case 'interrupted':
      return { state: 'interrupted', text, timing, usage, reason: event.reason, endedAt: event.at }
    case 'refused':
      return { state: 'interrupted', text, timing, usage, reason: event.message, endedAt: timing.firstAt ?? timing.sentAt }
    case 'stopped':
      return { state: 'stopped', text, timing, usage, endedAt: event.at }
    default:
      return answer
  }
}

type OpenAnswer = Extract<Answer, { state: 'sending' | 'loading' | 'answering' }>

const isOpen = (answer: Answer): answer is OpenAnswer =>
  answer.state === 'sending' || answer.state === 'loading' || answer.state === 'answering'

/** A conversation takes one message at a time. */
export function isBusy({ turns }: Conversation): boolean {
  const last = turns.at(-1)
  return last !== undefined && isOpen(last.answer)
}

/** The messages of a request: all turns with an answer, then the question. */
export function messagesFor(turns: readonly Turn[], { system, question }: { system: string; question: string }): Message[] {
  const before = turns.flatMap(({ question: content, answer }): Message[] =>
    'text' in answer && answer.text !== ''
      ? [
          { role: 'user', content },
          { role: 'assistant', content: answer.text },
        ]
      : [],
  )
  const instruction: Message[] = system.trim() === '' ? [] : [{ role: 'system', content: system }]
  return [...instruction, ...before, { role: 'user', content: question }]
}

/** Restores a stored conversation; a pending answer is interrupted. */
export function revive(state: Conversation, at: number): Conversation {
  const last = state.turns.at(-1)
  return last === undefined
    ? state
    : step(state, { type: 'interrupted', turn: last.id, at, reason: 'the page was closed during the response' })
}
