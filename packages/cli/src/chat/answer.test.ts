import { expect, it } from 'vitest'
import { statsText } from './answer.ts'

const times = { startedAt: 1_000, firstAt: 1_500, endedAt: 3_500 }

it.each([
  [{ prompt_tokens: 12, completion_tokens: 41 }, '12 prompt tokens, 41 completion tokens in 2.5 s, first token after 0.5 s, 20.0 tokens/s'],
  [{ prompt_tokens: 12, completion_tokens: 1 }, '12 prompt tokens, 1 completion tokens in 2.5 s, first token after 0.5 s'],
  [null, '2.5 s, first token after 0.5 s; the backend did not report token counts'],
])('%j is shown as %j', (usage, text) => expect(statsText({ ...times, usage })).toBe(text))

it('shows no rate when the text came in one part', () => {
  expect(statsText({ startedAt: 1, firstAt: 14_501, endedAt: 14_504, usage: { prompt_tokens: 1, completion_tokens: 9 } })).not.toContain(
    'tokens/s',
  )
})
