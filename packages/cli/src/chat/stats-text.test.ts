import { expect, it } from 'vitest'
import { statsText } from './answer.ts'

const times = { startedAt: 1_000, firstAt: 1_500, endedAt: 3_500 }

it.each([
  [{ prompt_tokens: 12, completion_tokens: 41 }, '12 tokens read, 41 written in 2.5 s, the first word after 0.5 s, 20.0 tokens/s'],
  [{ prompt_tokens: 12, completion_tokens: 1 }, '12 tokens read, 1 written in 2.5 s, the first word after 0.5 s'],
  [null, '2.5 s, the first word after 0.5 s; the backend did not count the tokens'],
])('%j is told as %j', (usage, text) => expect(statsText({ ...times, usage })).toBe(text))

it('guesses no speed where all came in one piece', () => {
  expect(statsText({ startedAt: 1, firstAt: 14_501, endedAt: 14_504, usage: { prompt_tokens: 1, completion_tokens: 9 } })).not.toContain(
    'tokens/s',
  )
})
