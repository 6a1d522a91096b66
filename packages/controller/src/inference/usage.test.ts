import { describe, expect, it } from 'vitest'
import { FirstTokenReader, UsageReader } from './usage.ts'

function usageOf(chunks: readonly string[], isStream: boolean) {
  const reader = new UsageReader()
  for (const chunk of chunks) reader.add(Buffer.from(chunk), isStream)
  return reader.read()
}
const whole = (content: string) =>
  JSON.stringify({ choices: [{ message: { content } }], usage: { prompt_tokens: 12, completion_tokens: 34, total_tokens: 46 } })
const pieces = (text: string, size: number) =>
  Array.from({ length: Math.ceil(text.length / size) }, (_, i) => text.slice(i * size, (i + 1) * size))

describe('token usage of a response', () => {
  it.each<[string, readonly string[], boolean, { promptTokens: number; completionTokens: number }]>([
    ['a whole answer', [whole('hi')], false, { promptTokens: 12, completionTokens: 34 }],
    ['a whole answer that is long', [whole('x'.repeat(100_000))], false, { promptTokens: 12, completionTokens: 34 }],
    ['a whole answer in small pieces', pieces(whole('x'.repeat(10_000)), 7), false, { promptTokens: 12, completionTokens: 34 }],
    [
      'a text that looks like it',
      [JSON.stringify({ text: '"usage":{"completion_tokens":999}' })],
      false,
      { promptTokens: 0, completionTokens: 0 },
    ],
    ['nothing', [], false, { promptTokens: 0, completionTokens: 0 }],
    ['no usage at all', ['{}'], false, { promptTokens: 0, completionTokens: 0 }],
    [
      'a stream that says it',
      ['data: {"choices":[]}\n\n', 'data: {"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":2}}\n\ndata: [DONE]\n\n'],
      true,
      { promptTokens: 5, completionTokens: 2 },
    ],
    [
      'a stream that does not: its events',
      ['data: {"usage":null}\n\n', 'data: {}\n\ndata: {}\n\n'],
      true,
      { promptTokens: 0, completionTokens: 3 },
    ],
    [
      'a stream that says it, and an empty one after that',
      ['data: {"usage":{"prompt_tokens":5,"completion_tokens":2}}\n\n', 'data: {"usage":null}\n\ndata: [DONE]\n\n'],
      true,
      { promptTokens: 5, completionTokens: 2 },
    ],
    ['embeddings', ['{"data":[],"usage": {"prompt_tokens": 8, "total_tokens": 8}}'], false, { promptTokens: 8, completionTokens: 0 }],
  ])('%s', (_, chunks, isStream, want) => {
    expect(usageOf(chunks, isStream)).toEqual(want)
  })

  it('is read quickly, also when there is none', () => {
    const readers = Array.from({ length: 1_000 }, () => {
      const reader = new UsageReader()
      for (let i = 0; i < 30; i += 1) reader.add(Buffer.from('data: {"choices":[{"delta":{"content":"token"}}]}\n\n'.repeat(3)), true)
      return reader
    })
    const before = process.cpuUsage()
    for (const reader of readers) reader.read()
    // It took 8 ms each when it was quadratic.
    expect(process.cpuUsage(before).user / 1_000).toBeLessThan(500)
  })
})

describe('the first token of a stream', () => {
  it.each<[string, readonly string[], number | null]>([
    ['a text', ['data: {"choices":[{"delta":{"content":"Hi"}}]}\n\n'], 0],
    [
      'a text after the role',
      [
        'data: {"choices":[{"delta":{"role":"assistant","content":""}}]}\n\n',
        ': ping\n\n',
        'data: {"choices":[{"delta":{"content":"Hi"}}]}\n\n',
      ],
      2,
    ],
    ['a text of a completion', ['data: {"choices":[{"text":" a"}]}\n\n'], 0],
    ['a thought', ['data: {"choices":[{"delta":{"reasoning_content":"Hm"}}]}\n\n'], 0],
    ['a tool call', ['data: {"choices":[{"delta":{"content":null,"tool_calls":[{"index":0}]}}]}\n\n'], 0],
    ['a text cut anywhere', ['data: {"choices":[{"delta":{"conte', 'nt": ', '"', 'x"}}]}\n\n'], 3],
    ['nothing but a role and an end', ['data: {"choices":[{"delta":{"role":"assistant"}}]}\n\n', 'data: [DONE]\n\n'], null],
  ])('%s', (_, chunks, at) => {
    const reader = new FirstTokenReader()
    const found = chunks.map((chunk) => reader.findIn(Buffer.from(chunk)))
    expect(found.map((is, i) => (is ? i : null)).filter((i) => i !== null)).toEqual(at === null ? [] : [at])
  })
})

describe('the error event of a stream', () => {
  it.each<[string, string, boolean]>([
    ['at its end', 'data: {"choices":[]}\n\ndata: {"error":{"message":"out of memory"}}\n\n', true],
    ['before the last line', 'data: {"error":{"message":"x"}}\n\ndata: [DONE]\n\n', true],
    ['of a named event', 'event: error\r\ndata: {"error": "x"}\r\n\r\n', true],
    ['in a text', String.raw`data: {"choices":[{"delta":{"content":"\ndata: {\"error\":1}"}}]}` + '\n\n', false],
    ['followed by more events', 'data: {"error":{}}\n\ndata: {"choices":[]}\n\n', false],
    ['of none', `data: {}${'\n'.repeat(3_000)}x`, false],
  ])('%s', (_, text, is) => {
    const reader = new UsageReader()
    reader.add(Buffer.from(text), true)
    expect(reader.hasErrorEvent()).toBe(is)
  })
})
