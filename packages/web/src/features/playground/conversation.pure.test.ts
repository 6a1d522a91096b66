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
const asked: ConversationEvent = { type: 'asked', model: 'm', question: 'why?', at: 0 }
const sent: ConversationEvent = { type: 'sent', turn: 1, at: 10 }
const isLoading: ConversationEvent = { type: 'loading', turn: 1, loading, message: 'm is loading' }
const began: ConversationEvent = { type: 'began', turn: 1, nodeId: 'n1', routeMs: 3 }
const heard = (text: string, finish: string | null = null): ConversationEvent => ({
  type: 'heard',
  turn: 1,
  at: 50,
  delta: { text, finish, usage: null },
})
const usage = { promptTokens: 4, completionTokens: 2 }
const counted: ConversationEvent = { type: 'heard', turn: 1, at: 60, delta: { text: '', finish: null, usage } }
const ended = (isDone: boolean): ConversationEvent => ({ type: 'ended', turn: 1, at: 70, isDone })
const cut: ConversationEvent = { type: 'cut', turn: 1, at: 70, why: 'it broke' }
const refused: ConversationEvent = { type: 'refused', turn: 1, code: 'no_capacity', message: 'no node fits' }
const stopped: ConversationEvent = { type: 'stopped', turn: 1, at: 70 }

const after = (...events: readonly ConversationEvent[]): Conversation => events.reduce(step, noConversation)
const answerAfter = (...events: readonly ConversationEvent[]): Answer | undefined => after(asked, ...events).turns[0]?.answer

describe('an answer', () => {
  it.each<[string, readonly ConversationEvent[], Partial<Answer>]>([
    ['is asked for', [], { state: 'asking', askedAt: 0, loading: null }],
    ['waits for a model that is on its way', [sent, isLoading], { state: 'loading', loading, message: 'm is loading' }],
    ['is asked for again, and what was known stays', [isLoading, sent], { state: 'asking', askedAt: 0, sentAt: 10, loading }],
    ['keeps what is known of a load when nothing new is told', [isLoading, { ...isLoading, loading: null }], { state: 'loading', loading }],
    ['begins', [sent, began], { state: 'answering', text: '', timing: timing(null) }],
    ['grows', [sent, began, heard('a'), heard(' b')], { state: 'answering', text: 'a b', timing: timing(50) }],
    ['is complete when the stream says so', [sent, began, heard('a'), ended(true)], { state: 'complete', text: 'a', finish: null }],
    ['is complete with a reason', [sent, began, heard('a', 'length'), ended(false)], { state: 'complete', finish: 'length', endedAt: 70 }],
    ['has its tokens counted', [sent, began, heard('a', 'stop'), counted, ended(true)], { state: 'complete', usage }],
    ['is cut when the stream ends without a word', [sent, began, heard('a'), ended(false)], { state: 'cut', text: 'a' }],
    ['is cut when the stream breaks', [sent, began, heard('a'), cut], { state: 'cut', text: 'a', why: 'it broke' }],
    ['is cut before its first word', [sent, cut], { state: 'cut', text: '', why: 'it broke' }],
    ['is cut by an error that comes after words', [sent, began, heard('a'), refused], { state: 'cut', text: 'a', why: 'no node fits' }],
    ['is refused', [sent, refused], { state: 'refused', code: 'no_capacity', message: 'no node fits' }],
    ['is refused after its model could not be loaded', [isLoading, refused], { state: 'refused' }],
    ['is stopped in the middle, and keeps what came', [sent, began, heard('a'), stopped], { state: 'stopped', text: 'a', endedAt: 70 }],
    ['is stopped while its model is on its way', [isLoading, stopped], { state: 'stopped', text: '' }],
    ['is over when it was stopped', [sent, began, stopped, heard('late'), ended(true)], { state: 'stopped', text: '' }],
    ['is over when it was cut', [sent, began, cut, ended(true)], { state: 'cut' }],
    ['is over when it is complete', [sent, began, ended(true), cut, refused, stopped], { state: 'complete' }],
    ['does not end before it began', [sent, ended(true), heard('x')], { state: 'asking' }],
    ['of another turn is not this one', [sent, began, { ...stopped, turn: 7 }], { state: 'answering' }],
  ])('%s', (_, events, want) => expect(answerAfter(...events)).toMatchObject(want))
})

const timing = (firstAt: number | null) => ({ askedAt: 0, sentAt: 10, firstAt, routeMs: 3, nodeId: 'n1' })

describe('a conversation', () => {
  it('takes one question at a time', () => {
    const busy = after(asked)
    expect(isBusy(busy)).toBe(true)
    expect(step(busy, asked)).toEqual(busy)
    expect(step(busy, { type: 'dropped_last' })).toEqual(busy)
    expect(isBusy(after(asked, stopped))).toBe(false)
  })

  it('goes on after an answer, and can be cleared', () => {
    const two = after(asked, sent, began, ended(true), { ...asked, question: 'and then?' })
    expect(two.turns.map(({ id, question }) => [id, question])).toEqual([
      [1, 'why?'],
      [2, 'and then?'],
    ])
    expect(step(two, { type: 'cleared' })).toEqual(noConversation)
  })

  it('drops its last turn, to ask it otherwise', () => {
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

  it('is told to the model with its system prompt, without what was never answered', () => {
    const { turns } = after(asked, sent, began, heard('because'), stopped, asked, { ...refused, turn: 2 })
    expect(messagesFor(turns, { system: 'Be short.', question: 'really?' })).toEqual([
      { role: 'system', content: 'Be short.' },
      { role: 'user', content: 'why?' },
      { role: 'assistant', content: 'because' },
      { role: 'user', content: 'really?' },
    ])
    expect(messagesFor([], { system: ' \n', question: 'a' })).toEqual([{ role: 'user', content: 'a' }])
  })

  it('that is read again has nothing under way', () => {
    expect(revive(after(asked, sent, began, heard('a')), 99).turns[0]?.answer).toMatchObject({ state: 'cut', text: 'a', endedAt: 99 })
    const whole = after(asked, sent, began, ended(true))
    expect(revive(whole, 99)).toEqual(whole)
  })
})
