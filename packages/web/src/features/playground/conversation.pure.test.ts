import { describe, expect, it } from 'vitest'
import {
  isBusy,
  messagesFor,
  noConversation,
  revive,
  step,
  type Answer,
  type Conversation,
  type ConversationEvent,
} from './conversation.pure.ts'

const loading = { model: 'm', state: 'staging' as const, node: 'gpu-1', progress: 41, current_bytes: 41, total_bytes: 100 }
const asked: ConversationEvent = { type: 'submitted', model: 'm', question: 'why?', at: 0 }
const sent: ConversationEvent = { type: 'sent', turn: 1, at: 10 }
const isLoading: ConversationEvent = { type: 'loading', turn: 1, loading, message: 'm is loading' }
const started: ConversationEvent = { type: 'started', turn: 1, nodeId: 'n1', routeMs: 3 }
const received = (text: string, finish: string | null = null): ConversationEvent => ({
  type: 'received',
  turn: 1,
  at: 50,
  delta: { text, finish, usage: null },
})
const usage = { promptTokens: 4, completionTokens: 2 }
const counted: ConversationEvent = { type: 'received', turn: 1, at: 60, delta: { text: '', finish: null, usage } }
const ended = (isDone: boolean): ConversationEvent => ({ type: 'ended', turn: 1, at: 70, isDone })
const interrupted: ConversationEvent = { type: 'interrupted', turn: 1, at: 70, reason: 'it broke' }
const refused: ConversationEvent = { type: 'refused', turn: 1, code: 'no_capacity', message: 'no node fits' }
const stopped: ConversationEvent = { type: 'stopped', turn: 1, at: 70 }

const after = (...events: readonly ConversationEvent[]): Conversation => events.reduce(step, noConversation)
const answerAfter = (...events: readonly ConversationEvent[]): Answer | undefined => after(asked, ...events).turns[0]?.answer

describe('an answer', () => {
  it.each<[string, readonly ConversationEvent[], Partial<Answer>]>([
    ['is requested', [], { state: 'sending', submittedAt: 0, loading: null }],
    ['waits for a loading model', [sent, isLoading], { state: 'loading', loading, message: 'm is loading' }],
    ['is requested again and keeps the last report', [isLoading, sent], { state: 'sending', submittedAt: 0, sentAt: 10, loading }],
    ['keeps the last report when there is no new one', [isLoading, { ...isLoading, loading: null }], { state: 'loading', loading }],
    ['starts', [sent, started], { state: 'answering', text: '', timing: timing(null) }],
    ['grows', [sent, started, received('a'), received(' b')], { state: 'answering', text: 'a b', timing: timing(50) }],
    ['is complete when the stream is done', [sent, started, received('a'), ended(true)], { state: 'complete', text: 'a', finish: null }],
    [
      'is complete with a finish reason',
      [sent, started, received('a', 'length'), ended(false)],
      { state: 'complete', finish: 'length', endedAt: 70 },
    ],
    ['has token usage', [sent, started, received('a', 'stop'), counted, ended(true)], { state: 'complete', usage }],
    ['is interrupted when the stream ends early', [sent, started, received('a'), ended(false)], { state: 'interrupted', text: 'a' }],
    [
      'is interrupted when the stream breaks',
      [sent, started, received('a'), interrupted],
      { state: 'interrupted', text: 'a', reason: 'it broke' },
    ],
    ['is interrupted before its first token', [sent, interrupted], { state: 'interrupted', text: '', reason: 'it broke' }],
    [
      'is interrupted by an error after some text',
      [sent, started, received('a'), refused],
      { state: 'interrupted', text: 'a', reason: 'no node fits' },
    ],
    ['is refused', [sent, refused], { state: 'refused', code: 'no_capacity', message: 'no node fits' }],
    ['is refused after its model could not be loaded', [isLoading, refused], { state: 'refused' }],
    ['is stopped and keeps its text', [sent, started, received('a'), stopped], { state: 'stopped', text: 'a', endedAt: 70 }],
    ['is stopped while its model is loading', [isLoading, stopped], { state: 'stopped', text: '' }],
    ['ignores events after it was stopped', [sent, started, stopped, received('late'), ended(true)], { state: 'stopped', text: '' }],
    ['ignores events after it was interrupted', [sent, started, interrupted, ended(true)], { state: 'interrupted' }],
    ['ignores events after it is complete', [sent, started, ended(true), interrupted, refused, stopped], { state: 'complete' }],
    ['does not end before it started', [sent, ended(true), received('x')], { state: 'sending' }],
    ['ignores events of another turn', [sent, started, { ...stopped, turn: 7 }], { state: 'answering' }],
  ])('%s', (_, events, want) => expect(answerAfter(...events)).toMatchObject(want))
})

const timing = (firstAt: number | null) => ({ submittedAt: 0, sentAt: 10, firstAt, routeMs: 3, nodeId: 'n1' })

describe('a conversation', () => {
  it('takes one message at a time', () => {
    const busy = after(asked)
    expect(isBusy(busy)).toBe(true)
    expect(step(busy, asked)).toEqual(busy)
    expect(step(busy, { type: 'dropped_last' })).toEqual(busy)
    expect(isBusy(after(asked, stopped))).toBe(false)
  })

  it('continues after an answer, and can be cleared', () => {
    const two = after(asked, sent, started, ended(true), { ...asked, question: 'and then?' })
    expect(two.turns.map(({ id, question }) => [id, question])).toEqual([
      [1, 'why?'],
      [2, 'and then?'],
    ])
    expect(step(two, { type: 'cleared' })).toEqual(noConversation)
  })

  it('drops its last turn', () => {
    expect(after(asked, stopped, { type: 'dropped_last' })).toEqual(noConversation)
  })

  it('is bounded', () => {
    const long = Array.from({ length: 130 }).reduce<Conversation>((state) => {
      const next = step(state, asked)
      return step(next, { ...refused, turn: next.turns.at(-1)?.id ?? 0 })
    }, noConversation)
    expect(long.turns).toHaveLength(100)
    expect(long.turns.at(-1)?.id).toBe(130)
  })

  it('becomes messages with the system prompt, without unanswered turns', () => {
    const { turns } = after(asked, sent, started, received('because'), stopped, asked, { ...refused, turn: 2 })
    expect(messagesFor(turns, { system: 'Be short.', question: 'really?' })).toEqual([
      { role: 'system', content: 'Be short.' },
      { role: 'user', content: 'why?' },
      { role: 'assistant', content: 'because' },
      { role: 'user', content: 'really?' },
    ])
    expect(messagesFor([], { system: ' \n', question: 'a' })).toEqual([{ role: 'user', content: 'a' }])
  })

  it('has no pending answer after it was restored', () => {
    expect(revive(after(asked, sent, started, received('a')), 99).turns[0]?.answer).toMatchObject({
      state: 'interrupted',
      text: 'a',
      endedAt: 99,
    })
    const whole = after(asked, sent, started, ended(true))
    expect(revive(whole, 99)).toEqual(whole)
  })
})
