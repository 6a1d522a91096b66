import { describe, expect, it } from 'vitest'
import { readChunk, routeMsOf, type ReadChunk } from './answer-chunk.pure.ts'

const delta = (changes: object): ReadChunk => ({ kind: 'delta', delta: { text: '', finish: null, usage: null, ...changes } })

describe('an event of a response', () => {
  it.each<[string, string, ReadChunk]>([
    ['adds text', '{"choices":[{"delta":{"content":" a"},"finish_reason":null}]}', delta({ text: ' a' })],
    ['has a role only', '{"choices":[{"delta":{"role":"assistant","content":null}}]}', delta({})],
    ['has a finish reason', '{"choices":[{"delta":{},"finish_reason":"length"}]}', delta({ finish: 'length' })],
    [
      'has usage',
      '{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}',
      delta({ usage: { promptTokens: 3, completionTokens: 2 } }),
    ],
    ['has unknown usage fields', '{"choices":[],"usage":{"tokens":3}}', delta({})],
    ['is the complete response', '{"choices":[{"message":{"content":"a"},"finish_reason":"stop"}]}', delta({ text: 'a', finish: 'stop' })],
    ['is the last', '[DONE]', { kind: 'done' }],
    ['is an error', '{"error":{"message":"it broke","code":"backend_cut"}}', { kind: 'error', message: 'it broke' }],
    ['is an error as text', '{"error":"it broke"}', { kind: 'error', message: 'it broke' }],
  ])('%s', (_, data, want) => expect(readChunk(data)).toEqual(want))

  it.each(['{"choices": [{', 'null', '7', '[]'])('that is invalid is an error: %s', (data) =>
    expect(readChunk(data)).toMatchObject({ kind: 'error', message: expect.stringContaining(data) }),
  )
})

describe('the routing time', () => {
  it.each([
    ['route;dur=3.1, backend;dur=40', 3.1],
    ['total;dur=3', null],
    [null, null],
  ])('%s', (header, want) => expect(routeMsOf(header)).toBe(want))
})
