import { describe, expect, it } from 'vitest'
import { judgeAnswer, questionsFor, type Answer, type Question } from './replicas.pure.ts'

const question = (over: Partial<Question> = {}): Question => ({ path: '/v1/chat/completions', body: {}, isKnown: false, ...over })
const answer = (status: number, body: unknown): Answer => ({
  is: 'answer',
  status,
  body: typeof body === 'string' ? body : JSON.stringify(body),
})
const choices = [{ index: 0, message: { role: 'assistant', content: 'OK' }, finish_reason: 'stop' }]

describe('check questions for a new replica', () => {
  it.each([
    [[], ['/v1/chat/completions', '/v1/completions', '/v1/embeddings']],
    [['chat'], ['/v1/chat/completions']],
    [['embeddings'], ['/v1/embeddings']],
    [
      ['Embeddings', 'completion'],
      ['/v1/completions', '/v1/embeddings'],
    ],
    [['tts', 'image'], []],
  ])('of a model for %j: %j', (usecases, paths) => {
    const questions = questionsFor({ model: 'm', usecases })
    expect(questions.map(({ path }) => path)).toEqual(paths)
    for (const { body, isKnown } of questions) {
      expect(body).toMatchObject({ model: 'm' })
      expect(isKnown).toBe(usecases.length > 0)
    }
  })

  it('is little: a few tokens, and nothing else is held up by it', () => {
    const [chat, completions] = questionsFor({ model: 'm', usecases: [] })
    expect([chat?.body, completions?.body]).toMatchObject([{ max_tokens: 4 }, { max_tokens: 4 }])
  })
})

describe('its answer', () => {
  it.each<[string, Answer]>([
    ['a completion', answer(200, { choices })],
    ['a completion without text, cut by its length', answer(200, { choices: [{ message: { content: null }, finish_reason: 'length' }] })],
    ['embeddings', answer(200, { data: [{ embedding: [0.1, 0.2] }] })],
    ['embeddings as text', answer(200, { data: [{ embedding: 'AAAA' }] })],
  ])('%s: passed', (_, given) => {
    expect(judgeAnswer(question(), given)).toEqual({ is: 'passed' })
  })

  it.each([404, 405, 501])('%i: the path is not served, also when the configuration lists it', (status) => {
    for (const isKnown of [true, false]) expect(judgeAnswer(question({ isKnown }), answer(status, 'no'))).toEqual({ is: 'not_served' })
  })

  it('400 is a failure only for a use that the configuration lists', () => {
    const given = answer(400, { error: { message: 'no chat template' } })
    expect(judgeAnswer(question(), given)).toEqual({ is: 'not_served' })
    expect(judgeAnswer(question({ isKnown: true }), given)).toEqual({
      is: 'failed',
      cause: '/v1/chat/completions answered 400: no chat template',
    })
  })

  it.each<[string, Answer, string]>([
    ['garbage', answer(200, '\u0000\u0001%%%\n'), 'answered unexpectedly: %%%'],
    ['nothing', answer(200, ''), 'answered unexpectedly: nothing'],
    ['no choices', answer(200, { choices: [] }), 'answered unexpectedly: {"choices":[]}'],
    ['an error as if it were fine', answer(200, { error: { message: 'x' } }), 'answered unexpectedly'],
    ['500 with a message', answer(500, { error: { message: 'CUDA out of\nmemory' } }), 'answered 500: CUDA out of memory'],
    ['500 with text', answer(500, { error: 'boom' }), 'answered 500: boom'],
    ['404 of its model', answer(404, { error: { message: 'no m here', code: 'model_not_found' } }), 'answered 404: no m here'],
    ['502 without anything', answer(502, ''), 'answered 502: nothing'],
    ['302', answer(302, ''), 'answered 302: nothing'],
    ['silence', { is: 'silence', afterMs: 60_000 }, 'was not answered within 60 s'],
  ])('%s: failed, and why', (_, given, cause) => {
    const verdict = judgeAnswer(question(), given)
    expect(verdict.is).toBe('failed')
    expect('cause' in verdict && verdict.cause).toContain(
      `/v1/chat/completions ${cause.startsWith('something') ? 'answered ' : ''}${cause}`,
    )
  })

  it('of another process, or none: unclear', () => {
    expect(judgeAnswer(question(), { is: 'no_answer', why: 'connection refused' })).toEqual({ is: 'unclear', why: 'connection refused' })
  })

  it('is quoted in one line of bounded length', () => {
    const verdict = judgeAnswer(question(), answer(500, 'x'.repeat(100_000)))
    expect('cause' in verdict && verdict.cause.length).toBeLessThan(600)
  })
})
