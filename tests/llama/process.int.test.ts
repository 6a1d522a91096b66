// The llama backend as a process: loading, many at once, clients that leave, and its end.
import { request } from 'node:http'
import { availableParallelism } from 'node:os'
import { json } from 'node:stream/consumers'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createProcesses, makeTempDir, waitFor } from '../../packages/testkit/src/index.ts'
import { environment, repository, startLlama, untilLoaded, type LlamaServer } from './server.ts'

const processes = createProcesses()
let llama: LlamaServer
beforeAll(async () => {
  llama = await untilLoaded(await startLlama(processes, { options: { parallel: 2, colour: 'blue' } }))
})
afterAll(() => processes.stopAll())

/** A list of numbers that the grammar does not let end: as long as the context. */
const endless = {
  ...{ model: 'tiny', messages: [{ role: 'user' as const, content: 'count' }], stream: true as const },
  response_format: {
    type: 'json_schema' as const,
    json_schema: { name: 'numbers', schema: { type: 'array', items: { type: 'integer' }, minItems: 400 } },
  },
}

describe('many at once', () => {
  it('are all answered, though only two fit', async () => {
    const asked = Array.from({ length: 20 }, async (_, at) => {
      const [content, want] = at % 2 === 0 ? ['ping', 'pong'] : ['What is 2+3?', '2 + 3 = 5.']
      const stream = await llama.openai.chat.completions.create({
        ...{ model: 'tiny', messages: [{ role: 'user', content }], temperature: 0, stream: true },
      })
      const chunks = await Array.fromAsync(stream)
      return [chunks.map(({ choices }) => choices[0]?.delta.content ?? '').join(''), want]
    })
    for (const [said, want] of await Promise.all(asked)) expect(said).toBe(want)
    expect(await llama.health()).toMatchObject({ body: { slots: 2, slots_busy: 0, waiting: 0, in_flight: 0 } })
  })

  it('wait for a slot no longer than their client does', async () => {
    const before = await llama.metric('requests_aborted_total')
    const clients = Array.from({ length: 5 }, () => new AbortController())
    const asked = clients.map(({ signal }) => llama.openai.chat.completions.create(endless, { signal }).catch(() => null))
    await waitFor(async () => (await llama.health()).body['waiting'] === 3, { what: 'three to wait' })
    for (const client of clients) client.abort()
    await Promise.all(asked)
    await waitFor(async () => (await llama.health()).body['in_flight'] === 0, { what: 'nobody to be worked for' })
    expect(await llama.metric('requests_aborted_total')).toBe(before + 5)
    expect(await llama.health()).toMatchObject({ body: { slots_busy: 0, waiting: 0 } })
  })
})

it('two conversations by turns each find the slot that remembers them', async () => {
  const talks = ['What is a reconciler?', 'Tell me a story'].map((content) => [{ role: 'user' as const, content }])
  const cached: number[][] = [[], []]
  for (const _ of [1, 2, 3]) {
    for (const [at, messages] of talks.entries()) {
      const { usage } = await llama.openai.chat.completions.create({ model: 'tiny', messages: messages ?? [], temperature: 0 })
      cached[at]?.push((usage?.prompt_tokens ?? 0) - (usage?.prompt_tokens_details?.cached_tokens ?? 0))
    }
  }
  // All but the last token, which is read again to go on from it.
  expect(cached).toEqual([
    [expect.any(Number), 1, 1],
    [expect.any(Number), 1, 1],
  ])
})

describe('a client that leaves', () => {
  it('stops the generation, and the slot is free for others', async () => {
    const before = await llama.metric('tokens_generated_total')
    const stream = await llama.openai.chat.completions.create(endless)
    let seen = 0
    for await (const _ of stream) if (++seen === 5) break
    await waitFor(async () => (await llama.health()).body['slots_busy'] === 0, { what: 'the slot to be free' })
    const generated = (await llama.metric('tokens_generated_total')) - before
    expect(generated).toBeGreaterThanOrEqual(4)
    // Left alone it goes on to the end of the context.
    expect(generated).toBeLessThan(400)
    const answer = await llama.openai.chat.completions.create({ ...endless, stream: false })
    expect(answer).toMatchObject({ choices: [{ finish_reason: 'length' }] })
    expect(answer.usage?.total_tokens).toBeGreaterThan(500)
  })
})

describe('the beginning and the end', () => {
  it('listens before it has loaded, and reports that', async () => {
    const starting = await startLlama(processes)
    const first = await waitFor(() => starting.health(), { what: 'an answer' })
    expect(first).toMatchObject({ status: 503, body: { status: 'loading', model: 'tiny', progress: expect.any(Number) } })
    expect(await starting.post('/v1/chat/completions', {})).toMatchObject({ status: 503, error: { code: 'model_loading' } })
    await untilLoaded(starting)
    expect(await starting.health()).toMatchObject({ status: 200, body: { status: 'ok', model: 'tiny' } })
    expect(await starting.process.stop()).toEqual({ code: 0, signal: null })
  })

  it('ends at a SIGTERM while it generates', async () => {
    const busy = await untilLoaded(await startLlama(processes))
    const stream = await busy.openai.chat.completions.create(endless)
    const reading = Array.fromAsync(stream).catch(() => null)
    busy.process.kill('SIGTERM')
    expect(await busy.process.exited).toEqual({ code: 0, signal: null })
    await reading
  })

  it('listens on a unix socket as well', async () => {
    await using directory = await makeTempDir('llama')
    const path = `${directory.path}/socket`
    await processes.start(process.execPath, {
      ...{ args: ['server.mjs', '--addr', `unix:${path}`], cwd: `${repository}/backends/llama`, env: environment({}) },
    })
    const status = await waitFor(() => ask(path), { what: 'an answer from the socket' })
    expect(status).toMatchObject({ model: 'tiny' })
  })

  it('uses no more threads than there are cores by default', async () => {
    const free = await startLlama(processes, { env: { MUSTER_MODEL_OPTIONS: '{}' } })
    const [, threads] = await free.process.waitForOutput(/(\d+) threads/)
    expect(Number(threads)).toBeGreaterThanOrEqual(1)
    expect(Number(threads)).toBeLessThanOrEqual(availableParallelism())
  })

  it('ignores unknown options, and logs them', () => {
    expect(llama.process.stderr()).toContain('the option "colour" is unknown to the llama backend and ignored')
  })

  it('uses the configured values that a request leaves out', async () => {
    const parameters = { model: 'tiny.gguf', temperature: 0, max_tokens: 3, stop: ['never said'], colour: 'blue' }
    const set = await untilLoaded(await startLlama(processes, { env: { MUSTER_MODEL_PARAMETERS: JSON.stringify(parameters) } }))
    const question = { model: 'tiny', messages: [{ role: 'user' as const, content: 'What is the capital of France?' }] }
    const cut = await set.openai.chat.completions.create({ ...question, temperature: null })
    expect(cut.choices[0]).toMatchObject({ finish_reason: 'length', message: { content: 'The capital of' } })
    const whole = await set.openai.chat.completions.create({ ...question, max_completion_tokens: 50 })
    expect(whole.choices[0]?.message.content).toBe('The capital of France is Paris.')
    expect(set.process.stderr()).toContain('the parameter "colour" is unknown')
  })

  it.each([
    ['a parameter with a wrong value', { MUSTER_MODEL_PARAMETERS: '{"temperature":"hot"}' }, /temperature must be a number/],
    ['a model that is not there', { MUSTER_MODEL_PATH: '/nowhere/model.gguf' }, /can't load \/nowhere\/model.gguf/],
    ['a file that is no model', { MUSTER_MODEL_PATH: `${repository}/package.json` }, /can't load .*package.json/],
    ['no model', { MUSTER_MODEL_PATH: '' }, /MUSTER_MODEL_PATH must be/],
    ['options that are no JSON', { MUSTER_MODEL_OPTIONS: 'threads=1' }, /MUSTER_MODEL_OPTIONS must be a JSON object/],
    ['an option with a wrong value', { MUSTER_MODEL_OPTIONS: '{"threads":0}' }, /option threads must be a whole number from 1/],
    ['a context that is no number', { MUSTER_CONTEXT_SIZE: 'large' }, /MUSTER_CONTEXT_SIZE must be/],
  ])('ends with the reason: %s', async (_, env, reason) => {
    const failing = await startLlama(processes, { env })
    expect(await failing.process.exited).toEqual({ code: 1, signal: null })
    expect(failing.process.stderr()).toMatch(reason)
  })
})

async function ask(socketPath: string): Promise<unknown> {
  const { promise, resolve, reject } = Promise.withResolvers<unknown>()
  request({ socketPath, path: '/health' }, (response) => resolve(json(response)))
    .on('error', reject)
    .end()
  return await promise
}
