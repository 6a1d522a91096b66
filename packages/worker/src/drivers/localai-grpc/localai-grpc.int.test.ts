// The gateway and the localai-grpc driver in front of real processes that speak gRPC.
import { once } from 'node:events'
import { boundMs, copyLocalAiBackend, localAiBackend, makeTempDir, waitFor, type LocalAiScript } from '@muster/testkit'
import { FleetError } from '@muster/protocol'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  ask,
  chat,
  driverClock,
  openServingWorld,
  readText,
  specOf,
  type ServedReplica,
  type ServingWorld,
} from '../../../test/serving-world.ts'
import type { ReplicaSpec } from '../driver.ts'
import { createLocalAiGrpcDriver } from './localai-grpc.ts'

const driver = createLocalAiGrpcDriver({ clock: driverClock, threads: () => 2 })
let world: ServingWorld
let shared: ServedReplica
let count = 0

const spec = (options: LocalAiScript = {}, parameters: Record<string, unknown> = {}): ReplicaSpec =>
  specOf(`g-${++count}`, {
    directory: localAiBackend,
    description: null,
    options: { ...options } as ReplicaSpec['config']['options'],
    parameters: { model: 'x.gguf', ...parameters },
    modelPath: '/models/x.gguf',
    contextSize: 99,
  })
const told = (script: LocalAiScript): string => `scripted ${JSON.stringify(script)}`
const watch = (ms = 10_000) => ({ signal: AbortSignal.timeout(ms), onSign: () => undefined })
const say = (script: LocalAiScript, more: object = {}, replica = shared) =>
  ask(world, { replica: replica.spec.replicaId, body: chat(told(script), more) })
const counts = async (replica: ServedReplica): Promise<{ cancelled: number; running: number; written: number }> =>
  JSON.parse(JSON.parse((await readText(await say({ tell: 'counts' }, {}, replica))).text).choices[0].message.content)
const events = (
  text: string,
): { choices: { delta?: { content?: string }; text?: string; finish_reason: string | null }[]; usage?: object }[] =>
  text
    .split('\n\n')
    .filter((event) => event.startsWith('data: {'))
    .map((event) => JSON.parse(event.slice('data: '.length)))
const contentOf = (text: string): string =>
  events(text)
    .map(({ choices }) => choices[0]?.delta?.content ?? '')
    .join('')

beforeAll(async () => {
  world = await openServingWorld(driver)
  shared = await world.serve(spec())
})
afterAll(() => world[Symbol.asyncDispose]())

describe('loading', () => {
  it('starts run.sh as LocalAI does, with the Node to run on', () => {
    const launch = driver.launch(spec(), { kind: 'tcp', host: '127.0.0.1', port: 9000 })
    expect(launch.argv).toEqual([`${localAiBackend}/run.sh`, '--addr', '127.0.0.1:9000'])
    expect(launch.env).toMatchObject({ MUSTER_NODE: process.execPath, MUSTER_MODEL_NAME: 'm' })
  })

  it('passes the model: file, directory, context, options, parameters', async () => {
    const replica = await world.serve(spec({ tokens: 2 }, { gpu_layers: 3, temperature: 0.5 }))
    const loaded = JSON.parse(JSON.parse((await readText(await say({ tell: 'load' }, {}, replica))).text).choices[0].message.content)
    expect(loaded).toMatchObject({
      Model: 'x.gguf',
      ModelFile: '/models/x.gguf',
      ModelPath: replica.spec.modelDirectory,
      ContextSize: 99,
      NGPULayers: 3,
      Threads: 2,
      Options: ['tokens:2'],
    })
  })

  it.each([
    ['says no', { refuse_load: 'out of memory' }],
    ['fails', { fail_load: 'out of memory' }],
  ])('a backend that %s is a failure with its own words', async (_, script) => {
    const given = spec(script)
    const { address } = await world.start(given)
    await expect(driver.waitUntilReady(given, address, watch())).rejects.toThrow(/scripted cannot load the model m: out of memory/)
    expect(await driver.recognizes(given, address, AbortSignal.timeout(5_000))).toBe(false)
  })

  it('a backend that ends while it loads is a lost connection, not an answer of the backend', async () => {
    const given = spec({ die_load: 'no such tensor' })
    const { address } = await world.start(given)
    await expect(driver.waitUntilReady(given, address, watch())).rejects.toMatchObject({
      failure: {
        code: 'unavailable',
        retry: 'backoff',
        message: expect.stringMatching(/^the connection to scripted was lost while it loaded/),
      },
    })
  })

  it('ends on abort, while it waits and while it loads', async () => {
    const given = spec({ load_ms: 60_000 })
    const { address } = await world.start(given)
    await expect(driver.waitUntilReady(given, address, watch(1_500))).rejects.toBeInstanceOf(FleetError)
    await expect(driver.waitUntilReady(given, await world.newAddress(given), watch(300))).rejects.toThrow(/did not become ready/)
  })

  it('F11 recognizes its own model and no other', async () => {
    expect(await driver.recognizes(shared.spec, shared.address, AbortSignal.timeout(5_000))).toBe(true)
    const other = { ...shared.spec, config: { ...shared.spec.config, parameters: { model: 'y.gguf' } } }
    expect(await driver.recognizes(other, shared.address, AbortSignal.timeout(5_000))).toBe(false)
  })

  it('runs from wherever it was installed', async () => {
    await using directory = await makeTempDir('localai')
    await copyLocalAiBackend(`${directory.path}/tree`)
    const replica = await world.serve({ ...spec(), directory: `${directory.path}/tree` })
    expect((await say({}, {}, replica)).statusCode).toBe(200)
    await replica.process.stop()
  })
})

describe('a chat', () => {
  it('is answered as a whole, with usage', async () => {
    const answer = await say({ tokens: 2 })
    expect(answer.headers).toMatchObject({
      ...{ 'x-muster-replica': shared.spec.replicaId, 'x-muster-in-flight': '1' },
      'content-type': 'application/json',
    })
    expect(JSON.parse((await readText(answer)).text)).toMatchObject({
      object: 'chat.completion',
      model: 'm',
      choices: [{ message: { role: 'assistant', content: 'token-0 token-1 ' }, finish_reason: 'stop' }],
      usage: { prompt_tokens: 4, completion_tokens: 2, total_tokens: 6 },
    })
  })

  it('passes the request and the model identity', async () => {
    const answer = await say({ tell: 'request' }, { temperature: 0, max_tokens: 7, stop: ['x'], seed: 5, tools: [{ type: 'function' }] })
    const request = JSON.parse(JSON.parse((await readText(answer)).text).choices[0].message.content)
    expect(request).toMatchObject({
      ModelIdentity: 'x.gguf',
      UseTokenizerTemplate: true,
      Temperature: 0,
      Tokens: 7,
      StopPrompts: ['x'],
      Seed: 5,
      Tools: '[{"type":"function"}]',
    })
  })

  it('streams, with usage on request', async () => {
    const answer = await say({ tokens: 3 }, { stream: true, stream_options: { include_usage: true }, max_tokens: 3 })
    expect(answer.headers['content-type']).toBe('text/event-stream')
    const { text, isWhole } = await readText(answer)
    expect(isWhole).toBe(true)
    expect(contentOf(text)).toBe('token-0 token-1 token-2 ')
    expect(events(text).at(-2)?.choices[0]?.finish_reason).toBe('length')
    expect(events(text).at(-1)).toMatchObject({ choices: [], usage: { prompt_tokens: 4, completion_tokens: 3 } })
    expect(text.endsWith('data: [DONE]\n\n')).toBe(true)
  })

  it('G19 characters split between replies are joined', async () => {
    const { text } = await readText(await say({ tokens: 1, say: 'grüße 🦙 日本', split: true }, { stream: true }))
    expect(contentOf(text)).toBe('grüße 🦙 日本')
    expect(text).not.toContain('\ufffd')
  })

  it('passes tool calls from deltas', async () => {
    const deltas = [
      { content: 'a', tool_calls: [{ index: 0, id: 'c', name: 'f', arguments: '{' }] },
      { tool_calls: [{ index: 0, arguments: '}' }] },
    ]
    const { text } = await readText(await say({ deltas }, { stream: true }))
    expect(text).not.toContain('raw')
    expect(events(text).at(-1)?.choices[0]?.finish_reason).toBe('tool_calls')
    const whole = JSON.parse((await readText(await say({ deltas }))).text)
    expect(whole.choices[0].message.tool_calls).toEqual([{ id: 'c', type: 'function', function: { name: 'f', arguments: '{}' } }])
  })

  it('20 streams at once are each whole', async () => {
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, at) => say({ tokens: 20, say: `s${at} `, delay_ms: 1 }, { stream: true })),
    )
    const texts = await Promise.all(answers.map(readText))
    texts.forEach(({ text, isWhole }, at) => expect([isWhole, contentOf(text)]).toEqual([true, `s${at} `.repeat(20)]))
  })
})

describe('other routes', () => {
  const post = (path: string, body: unknown) => ask(world, { replica: shared.spec.replicaId, path, body })
  const json = async (path: string, body: unknown) => JSON.parse((await readText(await post(path, body))).text)

  it('completions, whole and streamed', async () => {
    expect(await json('/v1/completions', { model: 'm', prompt: 'x' })).toMatchObject({
      object: 'text_completion',
      choices: [{ text: 'token-0 token-1 token-2 ' }],
    })
    const { text } = await readText(await post('/v1/completions', { model: 'm', prompt: 'x', stream: true }))
    expect(
      events(text)
        .map(({ choices }) => choices[0]?.text)
        .join(''),
    ).toBe('token-0 token-1 token-2 ')
  })

  it('embeddings of texts and of tokens, as numbers and in base64', async () => {
    expect(await json('/v1/embeddings', { model: 'm', input: ['ab', [7, 8]] })).toMatchObject({
      data: [{ embedding: [2, 0.5, -1] }, { embedding: [7, 0.5, -1] }],
      usage: { prompt_tokens: 4, total_tokens: 4 },
    })
    const { data } = await json('/v1/embeddings', { model: 'm', input: 'ab', encoding_format: 'base64' })
    expect([...new Float32Array(Uint8Array.from(Buffer.from(data[0].embedding, 'base64')).buffer)]).toEqual([2, 0.5, -1])
    expect((await post('/v1/embeddings', { model: 'm', input: told({ per_token: true }) })).statusCode).toBe(501)
  })

  it('tokens, models, and nothing else', async () => {
    expect(await json('/tokenize', { content: 'ab' })).toEqual({ tokens: [97, 98] })
    const models = await ask(world, { replica: shared.spec.replicaId, path: '/v1/models', method: 'GET' })
    expect(JSON.parse((await readText(models)).text)).toMatchObject({ data: [{ id: 'm' }] })
    expect((await post('/v1/audio/speech', {})).statusCode).toBe(404)
    expect((await ask(world, { replica: shared.spec.replicaId, path: '/v1/embeddings', method: 'GET' })).statusCode).toBe(405)
  })

  it.each([
    ['no JSON', '/v1/chat/completions', '{'],
    ['no messages', '/v1/chat/completions', { model: 'm' }],
    ['a format that it cannot guarantee', '/v1/chat/completions', chat('x', { response_format: { type: 'json_object' } })],
    ['several prompts', '/v1/completions', { prompt: ['a', 'b'] }],
    ['dimensions', '/v1/embeddings', { input: 'a', dimensions: 3 }],
  ])('refuses %s in the envelope of OpenAI', async (_, path, body) => {
    const answer = await post(path, body)
    expect(answer.statusCode).toBe(400)
    expect(JSON.parse((await readText(answer)).text)).toMatchObject({
      error: { type: 'invalid_request_error', message: expect.any(String) },
    })
  })
})

describe('failures', () => {
  it.each([
    ['UNIMPLEMENTED', 501],
    ['INVALID_ARGUMENT', 400],
    ['RESOURCE_EXHAUSTED', 429],
    ['INTERNAL', 500],
  ])('%s is %i, streamed or not', async (refuse, status) => {
    for (const stream of [false, true]) {
      const answer = await say({ refuse, message: 'its own words' }, { stream })
      expect(answer.statusCode).toBe(status)
      expect(answer.headers).not.toHaveProperty('x-muster-refused')
      expect((await readText(answer)).text).toContain('its own words')
    }
  })

  it.each([true, false])(
    'F10 I14 W16 a process with another model answers nothing: another replica is tried (stream %s)',
    async (stream) => {
      const wrong = await world.serve(spec({ actual_model: 'other.gguf' }))
      const answer = await say({}, { stream }, wrong)
      expect([answer.statusCode, answer.headers['x-muster-refused']]).toEqual([502, 'unreachable'])
      expect((await readText(answer)).text).toContain('model identity mismatch')
    },
  )

  it('F10 another process without a model gets no request', async () => {
    const replica = await world.serve(spec())
    replica.process.kill('SIGKILL')
    await replica.process.exited
    const fresh = await world.start(spec(), replica.address)
    await fresh.process.waitForOutput(/a test double/)
    const answer = await waitFor(
      async () => {
        const tried = await say({}, { stream: true }, replica)
        const { text } = await readText(tried)
        return text.includes('model not loaded') && tried
      },
      { what: 'the new process to be asked' },
    )
    expect([answer.statusCode, answer.headers['x-muster-refused']]).toEqual([502, 'unreachable'])
  })

  it.each([true, false])('G7 a process that dies before its first reply is unreachable (stream %s)', async (stream) => {
    const replica = await world.serve(spec())
    for (let round = 0; round < 2; round += 1) {
      const answer = await say({ die: true }, { stream }, replica)
      expect([answer.statusCode, answer.headers['x-muster-refused']]).toEqual([502, 'unreachable'])
    }
    expect(world.inFlight()).toBe(0)
  })

  it.each([
    ['G6 dies', { die_after: 2 }, /the process of replica g-\d+ gave no answer/],
    ['fails', { refuse_after: 2 }, /"message":"the backend scripted failed: told to fail in the middle"/],
  ])('I18 a backend that %s in the middle leaves an answer that is visibly cut', async (_, script, error) => {
    const replica = await world.serve(spec())
    const { text, isWhole } = await readText(await say({ tokens: 5, delay_ms: 5, ...script }, { stream: true }, replica))
    expect(isWhole).toBe(false)
    expect(text).not.toMatch(/token-2|\[DONE\]|finish_reason":"/)
    // The last event is the error, in the backend's own words where it has some.
    expect(text.trimEnd().split('\n\n').at(-1)).toMatch(/^data: \{"error":/)
    expect(text).toMatch(error)
    await waitFor(() => world.inFlight() === 0, { what: 'nothing in flight' })
  })

  it.each([
    ['a stream', { never_end: true }, true],
    ['a whole answer', { hang: true }, false],
  ] as const)('G5 I16 a client that disconnects from %s ends the work within a second', async (_, script, stream) => {
    const replica = await world.serve(spec())
    const asker = new AbortController()
    const answer = ask(world, { replica: replica.spec.replicaId, body: chat(told(script), { stream }), signal: asker.signal })
    if (stream) await once(await answer, 'data')
    else await waitFor(async () => (await counts(replica)).running === 2, { what: 'it to work' })
    const leftAt = performance.now()
    asker.abort()
    await answer.catch(() => undefined)
    await waitFor(async () => (await counts(replica)).cancelled === 1, { what: 'the backend to notice' })
    expect(performance.now() - leftAt).toBeLessThan(boundMs(1_000))
    await waitFor(() => world.inFlight() === 0, { what: 'nothing in flight' })
  })

  it('G17 a reader that does not read stops the backend', async () => {
    const replica = await world.serve(spec())
    const before = process.memoryUsage().rss
    const answer = await say({ tokens: 3_000, say: 'x'.repeat(100_000) }, { stream: true }, replica)
    answer.pause()
    let [last, looks] = [-1, 0]
    await waitFor(
      async () => {
        const { written } = await counts(replica)
        looks = written === last ? looks + 1 : 0
        last = written
        return looks >= 10
      },
      { what: 'it to stand still' },
    )
    // 300 MB in total.
    expect(last).toBeLessThan(1_000)
    expect(process.memoryUsage().rss - before).toBeLessThan(150_000_000)
    answer.destroy()
  })
})
