// The llama backend: completions, embeddings, models, and what it refuses.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createProcesses } from '../../packages/testkit/src/index.ts'
import { startLlama, untilLoaded, type LlamaServer } from './server.ts'

const processes = createProcesses()
let llama: LlamaServer
beforeAll(async () => {
  llama = await untilLoaded(await startLlama(processes))
})
afterAll(() => processes.stopAll())

describe('completions', () => {
  const prompt = '<|im_start|>user\nping<|im_end|>\n<|im_start|>assistant\n'

  it('continue the unchanged text', async () => {
    const answer = await llama.openai.completions.create({ model: 'tiny', prompt, temperature: 0 })
    expect(answer).toMatchObject({ object: 'text_completion', choices: [{ index: 0, text: 'pong', finish_reason: 'stop' }] })
    expect(answer.usage).toMatchObject({ prompt_tokens: 10, completion_tokens: 3, total_tokens: 13 })
  })

  it('take several prompts, and echo them on request', async () => {
    const answer = await llama.openai.completions.create({
      ...{ model: 'tiny', prompt: ['Once there was', 'The capital'], temperature: 0, max_tokens: 4, echo: true, n: 2 },
    })
    expect(answer.choices.map(({ index }) => index)).toEqual([0, 1, 2, 3])
    expect(answer.choices.map(({ text }) => /^(Once there was|The capital)/.exec(text)?.[1])).toEqual([
      ...['Once there was', 'Once there was', 'The capital', 'The capital'],
    ])
    expect(answer.usage?.completion_tokens).toBe(16)
  })

  it('stream', async () => {
    const stream = await llama.openai.completions.create({
      ...{ model: 'tiny', prompt, temperature: 0, stream: true },
      stream_options: { include_usage: true },
    })
    const chunks = await Array.fromAsync(stream)
    expect(chunks.map(({ choices }) => choices[0]?.text ?? '').join('')).toBe('pong')
    expect(chunks.at(-2)?.choices[0]?.finish_reason).toBe('stop')
    expect(chunks.at(-1)).toMatchObject({ choices: [], usage: { total_tokens: 13 } })
  })
})

describe('embeddings', () => {
  it('are equal in both encodings, and nearly equal for similar texts', async () => {
    const { url } = llama
    const raw = async (format: string): Promise<unknown> => {
      const body = JSON.stringify({ model: 'tiny', input: 'What is the capital of France?', encoding_format: format })
      const answer = (await (await fetch(`${url}/v1/embeddings`, { method: 'POST', body })).json()) as { data: { embedding: unknown }[] }
      return answer.data[0]?.embedding
    }
    const floats = (await raw('float')) as number[]
    const bytes = Buffer.from(String(await raw('base64')), 'base64')
    expect(floats).toHaveLength(160)
    expect([...new Float32Array(Uint8Array.from(bytes).buffer)]).toEqual(floats)
    expect(Math.hypot(...floats)).toBeCloseTo(1, 5)
  })

  it('take lists and tokens, each with its own place and all counted', async () => {
    const answer = await llama.openai.embeddings.create({ model: 'tiny', input: ['ping', 'pong', 'ping'] })
    expect(answer.data.map(({ index }) => index)).toEqual([0, 1, 2])
    expect(answer.data[0]?.embedding).toEqual(answer.data[2]?.embedding)
    expect(answer.data[0]?.embedding).not.toEqual(answer.data[1]?.embedding)
    const tokens = await llama.openai.embeddings.create({ model: 'tiny', input: [388, 356, 311] })
    expect(tokens.data[0]?.embedding).toHaveLength(160)
    expect(tokens.usage).toEqual({ prompt_tokens: 3, total_tokens: 3 })
  })
})

it('lists the one model it has', async () => {
  const { data } = await llama.openai.models.list()
  expect(data.map(({ id }) => id)).toEqual(['tiny'])
  expect(await llama.openai.models.retrieve('tiny')).toMatchObject({ id: 'tiny', object: 'model' })
  await expect(llama.openai.models.retrieve('other')).rejects.toMatchObject({ status: 404, code: 'model_not_found' })
})

describe('refused requests', () => {
  const messages = [{ role: 'user', content: 'ping' }]
  const chat = '/v1/chat/completions'
  const tools = [{ type: 'function', function: { name: 'f' } }]
  it.each<[string, string, unknown, string]>([
    ['no JSON', chat, '{ half', '400'],
    ['no object', chat, [], '400'],
    ['no messages', chat, {}, '400'],
    ['empty messages', chat, { messages: [] }, '400'],
    ['an unknown role', chat, { messages: [{ role: 'king', content: 'x' }] }, '400'],
    ['an image', chat, { messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'x' } }] }] }, '400'],
    ['a result without a call', chat, { messages: [...messages, { role: 'tool', tool_call_id: 'x', content: '' }] }, '400'],
    ['calls that are no list', chat, { messages: [...messages, { role: 'assistant', tool_calls: 5 }] }, '400'],
    ['a call that is none', chat, { messages: [...messages, { role: 'assistant', tool_calls: [null] }] }, '400'],
    ['a choice of no type', chat, { messages, response_format: jsonSchema({ type: [] }) }, '400'],
    ['a schema with a choice among nothing', chat, { messages, response_format: jsonSchema({ oneOf: [] }) }, '400'],
    [
      'a schema that is itself',
      chat,
      { messages, response_format: jsonSchema({ $ref: '#/$defs/a', $defs: { a: { $ref: '#/$defs/a' } } }) },
      '400',
    ],
    ['another model', chat, { model: 'other', messages }, '404 model_not_found'],
    ['a temperature that is a text', chat, { messages, temperature: 'hot' }, '400'],
    ['a temperature that is too high', chat, { messages, temperature: 3 }, '400'],
    ['no tokens at all', chat, { messages, max_tokens: 0 }, '400'],
    ['half an answer', chat, { messages, n: 0.5 }, '400'],
    ['an empty stop word', chat, { messages, stop: '' }, '400'],
    ['logprobs', chat, { messages, logprobs: true }, '400'],
    ['an unknown format', chat, { messages, response_format: { type: 'xml' } }, '400'],
    ['a format without a schema', chat, { messages, response_format: { type: 'json_schema' } }, '400'],
    ['a schema that is none', chat, { messages, response_format: jsonSchema({ type: 'nonsense' }) }, '400'],
    ['a schema that refers to nothing', chat, { messages, response_format: jsonSchema({ $ref: '#/$defs/x' }) }, '400'],
    ['a schema that repeats too often', chat, { messages, response_format: jsonSchema({ type: 'array', minItems: 1e9 }) }, '400'],
    ['a bias for a token that is none', chat, { messages, logit_bias: { 1000000: 1 } }, '400'],
    ['a choice among no tools', chat, { messages, tool_choice: 'required' }, '400'],
    ['a choice of no tool', chat, { messages, tools, tool_choice: { type: 'function', function: { name: 'g' } } }, '400'],
    ['a tool without a name', chat, { messages, tools: [{ type: 'function' }] }, '400'],
    ['a long prompt', chat, { messages: [{ role: 'user', content: 'word '.repeat(600) }] }, '400 context_length_exceeded'],
    ['a long completion', '/v1/completions', { prompt: 'word '.repeat(600) }, '400 context_length_exceeded'],
    ['no prompt', '/v1/completions', {}, '400'],
    ['a token that is none', '/v1/completions', { prompt: [1_000_000] }, '400'],
    ['an embedding of a token that is none', '/v1/embeddings', { input: [960] }, '400'],
    ['no input', '/v1/embeddings', {}, '400'],
    ['an empty input', '/v1/embeddings', { input: '' }, '400'],
    ['a long input', '/v1/embeddings', { input: 'word '.repeat(600) }, '400 context_length_exceeded'],
    ['another encoding', '/v1/embeddings', { input: 'x', encoding_format: 'hex' }, '400'],
    ['other dimensions', '/v1/embeddings', { input: 'x', dimensions: 3 }, '400'],
    ['a path that is none', '/v1/models/%zz', {}, '400'],
    ['an unknown path', '/v1/images', {}, '404 not_found'],
    ['a property of all objects', '/constructor', {}, '404 not_found'],
    ['the wrong method', '/v1/models', {}, '405 method_not_allowed'],
  ])('%s', async (_, path, body, want) => {
    const [status, code = null] = want.split(' ')
    const answer = await llama.post(path, body)
    expect(answer).toMatchObject({
      status: Number(status),
      error: { type: 'invalid_request_error', message: expect.stringMatching(/\w+ \w+/), code },
    })
  })

  it('a body that is too large', async () => {
    const answer = await llama.post(chat, `{"x":"${'x'.repeat(17 * 1024 * 1024)}"}`)
    expect(answer).toMatchObject({ status: 413, error: { code: 'request_too_large' } })
  })

  it('and nothing of that is a fault of the backend, which goes on', async () => {
    expect(await llama.metric('requests_failed_total')).toBe(0)
    const answer = await llama.openai.chat.completions.create({
      model: 'tiny',
      temperature: 0,
      messages: [{ role: 'user', content: 'ping' }],
    })
    expect(answer.choices[0]?.message.content).toBe('pong')
  })
})

function jsonSchema(schema: object): object {
  return { type: 'json_schema', json_schema: { name: 'x', schema } }
}
