import { describe, expect, it } from 'vitest'
import { endingOf, figuresOf, formatMs } from './playground-words.pure.ts'

const timing = { askedAt: 0, sentAt: 0, firstAt: 180, routeMs: 2, nodeId: null }
const whole = {
  state: 'complete' as const,
  text: 'a',
  usage: { promptTokens: 12, completionTokens: 21 },
  timing,
  finish: 'stop',
  endedAt: 1_180,
}

describe('under an answer stands', () => {
  it.each<[string, Parameters<typeof figuresOf>, string[]]>([
    ['what it took', [whole, null], ['12 prompt + 21 completion tokens', '20 tokens/s', 'first token 180 ms', '1.2 s in all']],
    [
      'where it came from, where that is told',
      [whole, 'gpu-1'],
      [expect.any(String), expect.any(String), expect.any(String), '1.2 s in all', 'on gpu-1'],
    ],
    [
      'no rate of what came at once',
      [{ ...whole, endedAt: 185 }, null],
      ['12 prompt + 21 completion tokens', 'first token 180 ms', '185 ms in all'],
    ],
    [
      'no rate of one token',
      [{ ...whole, usage: { promptTokens: 1, completionTokens: 1 } }, null],
      ['1 prompt + 1 completion token', 'first token 180 ms', '1.2 s in all'],
    ],
    ['no tokens where nobody counted', [{ ...whole, usage: null }, null], ['first token 180 ms', '1.2 s in all']],
    [
      'how long the model was waited for, on the server',
      [{ ...whole, usage: null, timing: { ...timing, firstAt: 8_200, routeMs: 8_000 }, endedAt: 9_000 }, null],
      ['first token 200 ms', 'waited 8.0 s for the model', '9.0 s in all'],
    ],
    [
      'how long the model was waited for, over several requests',
      [{ ...whole, usage: null, timing: { ...timing, sentAt: 70_000, firstAt: 70_200 }, endedAt: 71_000 }, null],
      ['first token 200 ms', 'waited 70 s for the model', '71 s in all'],
    ],
    ['that nothing came', [{ ...whole, usage: null, timing: { ...timing, firstAt: null } }, null], ['1.2 s in all']],
  ])('%s', (_, given, want) => expect(figuresOf(...given)).toEqual(want))

  it.each<[string, Parameters<typeof endingOf>[0], string | null]>([
    ['nothing more when it is whole', whole, null],
    ['that it reached its limit', { ...whole, finish: 'length' }, 'Ended at the limit of tokens (max_tokens, or what the context holds).'],
    ['another reason as it is', { ...whole, finish: 'content_filter' }, 'Ended: content_filter.'],
    ['that it was stopped', { ...whole, state: 'stopped' }, 'Stopped. This is not the whole answer.'],
    ['that it was stopped at once', { ...whole, state: 'stopped', text: '' }, 'Stopped before the first word.'],
    ['that it was cut, and why', { ...whole, state: 'cut', why: 'it broke' }, 'Cut off here: it broke.'],
    ['that it was cut at once', { ...whole, state: 'cut', text: '', why: 'it broke.' }, 'Cut before the first word: it broke.'],
  ])('%s', (_, answer, want) => expect(endingOf(answer)).toBe(want))

  it.each([
    [0.4, '0 ms'],
    [999, '999 ms'],
    [1_250, '1.3 s'],
    [59_940, '59.9 s'],
    [61_400, '61 s'],
  ])('%d as %s', (ms, want) => expect(formatMs(ms)).toBe(want))
})
