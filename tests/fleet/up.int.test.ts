// A newcomer's first minute: `muster up` on an empty directory, and the official client of OpenAI asks the model that
// comes with Muster. Nothing is installed before the first request.
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import {
  createApiClient,
  createProcesses,
  freePort,
  makeTempDir,
  waitFor,
  type ApiClient,
  type Processes,
  type TempDir,
} from '@muster/testkit'
import OpenAI from 'openai'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'

const question = [{ role: 'user' as const, content: 'What is the capital of France?' }]
const answer = 'The capital of France is Paris.'
const processes: Processes = createProcesses()
let directory: TempDir
let api: ApiClient
let client: OpenAI
let port: number

beforeAll(async () => {
  directory = await makeTempDir('up-serving')
  port = await freePort()
  const dataDir = join(directory.path, 'data')
  const up = await processes.muster(['up', '--port', String(port), '--data-dir', dataDir])
  await up.waitForOutput(/curl/)
  api = createApiClient(`http://127.0.0.1:${port}`, (await readFile(join(dataDir, 'admin.key'), 'utf8')).trim())
  await waitFor(async () => (await api.get('/readyz').catch(() => null))?.status === 200, { what: 'the controller' })
  client = new OpenAI({ baseURL: `http://127.0.0.1:${port}/v1`, apiKey: 'whatever', maxRetries: 0 })
})
afterAll(async () => {
  await processes.stopAll()
  await directory[Symbol.asyncDispose]()
})

describe('muster up, on an empty directory', () => {
  it('knows the model, and has installed nothing for it', async () => {
    expect((await client.models.list()).data.map(({ id }) => id)).toEqual(['tiny'])
    expect((await api.get('/api/backends')).body['backends']).toEqual([])
    expect((await api.get('/api/models/tiny')).body).toMatchObject({ state: 'unloaded', replicas_ready: 0 })
  })

  it('answers the first, cold request', async () => {
    const completion = await client.chat.completions.create({ model: 'tiny', temperature: 0, messages: question })
    expect(completion.choices[0]?.message.content).toBe(answer)
    expect(completion.usage).toMatchObject({ prompt_tokens: expect.any(Number), completion_tokens: expect.any(Number) })
    expect((await api.get('/api/models/tiny')).body).toMatchObject({ state: 'ready', replicas_ready: 1 })
  })

  it('streams the same, with usage at the end', async () => {
    const stream = await client.chat.completions.create({
      ...{ model: 'tiny', temperature: 0, messages: question, stream: true },
      stream_options: { include_usage: true },
    })
    const chunks = []
    for await (const chunk of stream) chunks.push(chunk)
    expect(chunks.map((chunk) => chunk.choices[0]?.delta.content ?? '').join('')).toBe(answer)
    expect(chunks.length).toBeGreaterThan(3)
    expect(chunks.findLast((chunk) => chunk.choices.length > 0)?.choices[0]?.finish_reason).toBe('stop')
    expect(chunks.at(-1)?.usage?.total_tokens).toBeGreaterThan(5)
  })

  it('completes text', async () => {
    const { choices } = await client.completions.create({ model: 'tiny', prompt: 'ping', max_tokens: 4, temperature: 0 })
    expect(choices[0]?.text).toEqual(expect.any(String))
  })

  it('embeds, as numbers and as base64, which are the same', async () => {
    const ask = async (encoding_format: 'float' | 'base64') =>
      (await client.embeddings.create({ model: 'tiny', input: ['one', 'two'], encoding_format })).data
    const floats = await ask('float')
    const encoded = await ask('base64')
    expect(floats.map(({ embedding }) => embedding.length)).toEqual([160, 160])
    const [first] = encoded as unknown as { embedding: string }[]
    const decoded = new Float32Array(new Uint8Array(Buffer.from(first?.embedding ?? '', 'base64')).buffer)
    for (const [at, value] of decoded.entries()) expect(value).toBeCloseTo(floats[0]?.embedding[at] ?? NaN, 4)
  })

  it('reports an unknown model in the format of OpenAI', async () => {
    const refused = client.chat.completions.create({ model: 'no-such-model', messages: question })
    await expect(refused).rejects.toMatchObject({ status: 404, code: 'model_not_found', type: 'invalid_request_error' })
  })

  it('serves 20 streams at once', async () => {
    const read = async (): Promise<string> => {
      const stream = await client.chat.completions.create({ model: 'tiny', temperature: 0, messages: question, stream: true })
      let text = ''
      for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? ''
      return text
    }
    const texts = await Promise.all(Array.from({ length: 20 }, read))
    expect(new Set(texts)).toEqual(new Set([answer]))
  })

  it('G5 stops generating when the client goes away in the middle', async () => {
    const stream = await client.chat.completions.create({
      ...{ model: 'tiny', stream: true, max_tokens: 400 },
      messages: [{ role: 'user', content: 'Tell me a story.' }],
    })
    for await (const _ of stream) {
      stream.controller.abort()
      break
    }
    const inFlight = async (): Promise<number> => {
      const { body } = await api.get('/api/models/tiny/replicas')
      return (body['replicas'] as unknown as { in_flight: number }[]).reduce((sum, replica) => sum + replica.in_flight, 0)
    }
    await waitFor(async () => (await inFlight()) === 0, { what: 'nothing to be in flight' })
  })
})
