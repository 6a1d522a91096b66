import { describe, expect, it } from 'vitest'
import { endingOf, figuresOf, formatMs } from './playground-words.pure.ts'

const timing = { submittedAt: 0, sentAt: 0, firstAt: 180, routeMs: 2, nodeId: null }
const whole = {
  state: 'complete' as const,
  text: 'a',
  usage: { promptTokens: 12, completionTokens: 21 },
  timing,
  finish: 'stop',
  endedAt: 1_180,
}

describe('a response', () => {
  it.each<[string, Parameters<typeof figuresOf>, string[]]>([
    ['has statistics', [whole, null], ['12 prompt + 21 completion tokens', '20 tokens/s', 'first token 180 ms', '1.2 s total']],
    ['names its node if known', [whole, 'gpu-1'], [expect.any(String), expect.any(String), expect.any(String), '1.2 s total', 'on gpu-1']],
    [
      'has no rate when it arrived at once',
      [{ ...whole, endedAt: 185 }, null],
      ['12 prompt + 21 completion tokens', 'first token 180 ms', '185 ms total'],
    ],
    [
      'has no rate for one token',
      [{ ...whole, usage: { promptTokens: 1, completionTokens: 1 } }, null],
      ['1 prompt + 1 completion token', 'first token 180 ms', '1.2 s total'],
    ],
    ['has no token counts without usage', [{ ...whole, usage: null }, null], ['first token 180 ms', '1.2 s total']],
    [
      'has the wait for the model on the server',
      [{ ...whole, usage: null, timing: { ...timing, firstAt: 8_200, routeMs: 8_000 }, endedAt: 9_000 }, null],
      ['first token 200 ms', 'waited 8.0 s for the model', '9.0 s total'],
    ],
    [
      'has the wait for the model over several requests',
      [{ ...whole, usage: null, timing: { ...timing, sentAt: 70_000, firstAt: 70_200 }, endedAt: 71_000 }, null],
      ['first token 200 ms', 'waited 70 s for the model', '71 s total'],
    ],
    ['without a token has a total time only', [{ ...whole, usage: null, timing: { ...timing, firstAt: null } }, null], ['1.2 s total']],
  ])('%s', (_, given, want) => expect(figuresOf(...given)).toEqual(want))

  it.each<[string, Parameters<typeof endingOf>[0], string | null]>([
    ['that is complete has no note', whole, null],
    ['that reached its limit', { ...whole, finish: 'length' }, 'Token limit reached (max_tokens or context size).'],
    ['with another finish reason', { ...whole, finish: 'content_filter' }, 'Finish reason: content_filter.'],
    ['that was stopped', { ...whole, state: 'stopped' }, 'Stopped. The response is incomplete.'],
    ['that was stopped at once', { ...whole, state: 'stopped', text: '' }, 'Stopped before the first token.'],
    ['that was interrupted', { ...whole, state: 'interrupted', reason: 'it broke' }, 'Interrupted: it broke.'],
    [
      'that was interrupted at once',
      { ...whole, state: 'interrupted', text: '', reason: 'it broke.' },
      'Interrupted before the first token: it broke.',
    ],
  ])('%s', (_, answer, want) => expect(endingOf(answer)).toBe(want))

  it.each([
    [0.4, '0 ms'],
    [999, '999 ms'],
    [1_250, '1.3 s'],
    [59_940, '59.9 s'],
    [61_400, '61 s'],
  ])('formats %d ms as %s', (ms, want) => expect(formatMs(ms)).toBe(want))
})
