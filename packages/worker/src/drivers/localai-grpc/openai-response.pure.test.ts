import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Reply } from './messages.ts'
import { type AnswerForm, chunksOf, embeddingsAnswer, ReplyReader, lastChunks, wholeAnswer, type Head } from './openai-response.pure.ts'

const head: Head = { id: 'x', created: 1, model: 'm', kind: 'chat' }
const form = (more: Partial<AnswerForm> = {}): AnswerForm => ({ tokenLimit: 0, prefix: '', readCalls: null, ...more })
const reply = (more: Partial<Omit<Reply, 'message'>> & { message?: Buffer | string }): Reply => ({
  tokens: 0,
  prompt_tokens: 0,
  logprobs: Buffer.alloc(0),
  chat_deltas: [],
  ...more,
  message: Buffer.from(more.message ?? ''),
})
const delta = (content: string, reasoning = '', calls: Reply['chat_deltas'][number]['tool_calls'] = []) => ({
  content,
  reasoning_content: reasoning,
  tool_calls: calls,
})

it('G19 text split anywhere is joined', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme', minLength: 1 }), fc.array(fc.nat(40)), (text, cuts) => {
      const bytes = Buffer.from(text)
      const edges = [0, ...cuts.map((cut) => Math.min(cut, bytes.length)), bytes.length].toSorted((a, b) => a - b)
      const reader = new ReplyReader()
      const heard = edges.map((edge, at) => reader.read(reply({ message: bytes.subarray(edges[at - 1] ?? 0, edge) })).content)
      expect(heard.join('') + reader.rest()).toBe(bytes.toString('utf8'))
    }),
  )
})

it('half a character at the end becomes a replacement character', () => {
  const reader = new ReplyReader()
  expect(reader.read(reply({ message: Buffer.from([0x61, 0xe2, 0x82]) })).content + reader.rest()).toBe('a\ufffd')
})

describe('a whole answer', () => {
  it('has the text, and counts', () => {
    expect(wholeAnswer(head, reply({ message: 'hé', tokens: 3, prompt_tokens: 4 }), form())).toEqual({
      id: 'x',
      object: 'chat.completion',
      created: 1,
      model: 'm',
      choices: [{ index: 0, message: { role: 'assistant', content: 'hé' }, logprobs: null, finish_reason: 'stop' }],
      usage: { prompt_tokens: 4, completion_tokens: 3, total_tokens: 7 },
    })
    expect(wholeAnswer({ ...head, kind: 'completion' }, reply({ message: 't', tokens: 2 }), form({ tokenLimit: 2 }))).toMatchObject({
      object: 'text_completion',
      choices: [{ text: 't', finish_reason: 'length' }],
    })
  })

  it('prefers deltas, and joins tool calls', () => {
    const calls = [
      { index: 0, id: 'c1', name: 'f', arguments: '{"a"' },
      { index: 1, id: 'c2', name: 'g', arguments: '{}' },
    ]
    const said = reply({
      message: '<tool>raw',
      chat_deltas: [delta('', 'hm', calls), delta('', '', [{ index: 0, id: '', name: '', arguments: ':1}' }])],
    })
    expect(wholeAnswer(head, said, form())).toMatchObject({
      choices: [
        {
          finish_reason: 'tool_calls',
          message: {
            content: null,
            reasoning_content: 'hm',
            tool_calls: [
              { id: 'c1', type: 'function', function: { name: 'f', arguments: '{"a":1}' } },
              { id: 'c2', function: { name: 'g', arguments: '{}' } },
            ],
          },
        },
      ],
    })
  })
})

describe('tool calls', () => {
  const readCalls: AnswerForm['readCalls'] = (text) => ({ content: text.slice(0, 2), calls: [{ name: 'f', arguments: '{}' }] })
  const native = delta('', '', [{ index: 0, id: 'c', name: 'g', arguments: '{}' }])

  it('that are read out of the text have IDs', () => {
    expect(wholeAnswer(head, reply({ message: 'text' }), form({ readCalls, prefix: '> ' }))).toMatchObject({
      choices: [
        {
          finish_reason: 'tool_calls',
          message: { content: '> ', tool_calls: [{ id: 'call_x_0', type: 'function', function: { name: 'f', arguments: '{}' } }] },
        },
      ],
    })
  })

  it('that the backend reports are the only ones', () => {
    const answer = wholeAnswer(head, reply({ chat_deltas: [native] }), form({ readCalls }))
    expect(answer).toMatchObject({ choices: [{ message: { tool_calls: [{ id: 'c', function: { name: 'g' } }] } }] })
  })

  it('are one function call for a request of the older API', () => {
    const old = { ...head, hasFunctions: true }
    expect(wholeAnswer(old, reply({ chat_deltas: [native] }), form())).toMatchObject({
      choices: [{ finish_reason: 'function_call', message: { content: null, function_call: { name: 'g', arguments: '{}' } } }],
    })
    expect(chunksOf(old, new ReplyReader(old).read(reply({ chat_deltas: [native] }))).join('')).toContain(
      '"delta":{"function_call":{"name":"g","arguments":"{}"}}',
    )
  })
})

describe('a stream', () => {
  const events = (text: string): { choices: object[]; usage?: object }[] =>
    text
      .split('\n\n')
      .filter((event) => event.startsWith('data: {'))
      .map((event) => JSON.parse(event.slice('data: '.length)))

  it('has no event for an empty reply', () => {
    expect(chunksOf(head, new ReplyReader().read(reply({ tokens: 1 })))).toEqual([])
  })

  it('drops plain text once there are deltas', () => {
    const reader = new ReplyReader()
    const texts = [reply({ message: 'x', chat_deltas: [delta('a')] }), reply({ message: 'raw' }), reply({ chat_deltas: [delta('b')] })]
    expect(texts.map((each) => reader.read(each).content).join('')).toBe('ab')
  })

  it('passes logprobs that are JSON', () => {
    const said = new ReplyReader().read(reply({ message: 'x', logprobs: Buffer.from('{"content":[]}') }))
    expect(events(chunksOf(head, said).join(''))).toMatchObject([{ choices: [{ delta: { content: 'x' }, logprobs: { content: [] } }] }])
  })

  it('ends with reason, usage and the end marker', () => {
    const usage = { prompt_tokens: 1, completion_tokens: 2, total_tokens: 3 }
    const text = lastChunks(head, { finishReason: 'length', usage })
    expect(events(text)).toMatchObject([{ choices: [{ delta: {}, finish_reason: 'length' }] }, { choices: [], usage }])
    expect(text.endsWith('data: [DONE]\n\n')).toBe(true)
    expect(events(lastChunks(head, { finishReason: 'stop', usage: null }))).toHaveLength(1)
  })
})

it('embeddings are numbers, or the same in base64', () => {
  const result = { embeddings: [0.5, -1], tokens: 0, dim: 2, prompt_tokens: 3, layout: 'FINAL' } as const
  expect(embeddingsAnswer('m', [result, result], 'float')).toMatchObject({
    data: [{ index: 0, embedding: [0.5, -1] }, { index: 1 }],
    usage: { prompt_tokens: 6 },
  })
  expect(embeddingsAnswer('m', [result], 'base64')).toMatchObject({
    data: [{ embedding: Buffer.from(Float32Array.from([0.5, -1]).buffer).toString('base64') }],
  })
})
