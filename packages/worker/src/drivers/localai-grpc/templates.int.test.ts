// Models with Go templates in front of a real process that speaks gRPC: it shows the prompts that it gets.
import { mkdir, writeFile } from 'node:fs/promises'
import { localAiBackend, makeTempDir, type LocalAiScript } from '@muster/testkit'
import { BackendName } from '@muster/protocol'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ggufHead } from '../../../test/gguf.ts'
import {
  ask,
  driverClock,
  openServingWorld,
  readText,
  specOf,
  type ServedReplica,
  type ServingWorld,
  type SpecFacts,
} from '../../../test/serving-world.ts'
import { conversation, templateFamilies } from '../../../test/template-families.ts'
import type { ReplicaSpec } from '../driver.ts'
import { createLocalAiGrpcDriver } from './localai-grpc.ts'

const driver = createLocalAiGrpcDriver({ clock: driverClock, threads: () => 2, smallestGpuBytes: () => 8 * 2 ** 30 })
let world: ServingWorld
let shared: ServedReplica
let count = 0

const spec = (facts: Partial<SpecFacts>): ReplicaSpec => ({
  ...specOf(`t-${++count}`, { directory: localAiBackend, description: null, parameters: { model: 'x.gguf' }, ...facts }),
  backend: BackendName.parse('llama-cpp'),
})
const script = (told: LocalAiScript): string => `scripted ${JSON.stringify(told)}`

/** Another model at the same process: only requests differ. */
function served(facts: Partial<SpecFacts>): string {
  const given = spec(facts)
  world.admit(given.replicaId, driver.connect(given, shared.address))
  return given.replicaId
}
type Answer = { choices: { message: { content: string | null; tool_calls?: object[]; function_call?: object }; finish_reason: string }[] }
const chat = async (replica: string, messages: object[], more: object = {}): Promise<Answer> => {
  const answer = await ask(world, { replica, body: { model: 'm', messages, ...more } })
  const { text } = await readText(answer)
  expect(answer.statusCode, text).toBe(200)
  return JSON.parse(text)
}
const user = (told: LocalAiScript) => [{ role: 'user', content: script(told) }]
const received = (answer: Answer) => JSON.parse(answer.choices[0]?.message.content ?? '')
type Delta = { content?: string; tool_calls?: { function: { name: string; arguments: string } }[] }
const streamed = async (replica: string, messages: object[], more: object = {}) => {
  const { text } = await readText(await ask(world, { replica, body: { model: 'm', messages, stream: true, ...more } }))
  const events: { choices: { delta: Delta; finish_reason: string | null }[] }[] = text
    .split('\n\n')
    .filter((event) => event.startsWith('data: {'))
    .map((event) => JSON.parse(event.slice('data: '.length)))
  const deltas = events.flatMap(({ choices }) => choices)
  return {
    contents: deltas.flatMap(({ delta }) => delta.content ?? []).filter((content) => content !== ''),
    calls: deltas.flatMap(({ delta }) => delta.tool_calls ?? []),
    finish: deltas.at(-1)?.finish_reason,
  }
}
const tools = [{ type: 'function', function: { name: 'weather', description: 'the weather', parameters: { type: 'object' } } }]
const familyOf = (name: string) => templateFamilies.find((family) => family.name === name)?.config ?? {}

beforeAll(async () => {
  world = await openServingWorld(driver)
  shared = await world.serve(spec({ options: ['media_marker:<media-7>'] }))
})
afterAll(() => world[Symbol.asyncDispose]())

describe.each(templateFamilies)('a model with templates of the family $name', ({ config, prompt }) => {
  it('gets the prompt of its templates, whole and streamed, and embeds texts unchanged', async () => {
    const replica = served(config)
    const messages = conversation(script({ tell: 'request' }))
    const request = received(await chat(replica, messages))
    expect(request.Prompt).toBe(prompt(script({ tell: 'request' })))
    expect(request).toMatchObject({ UseTokenizerTemplate: false, Messages: [], PromptCacheAll: true })
    const { contents } = await streamed(replica, messages)
    expect(JSON.parse(contents.join('')).Prompt).toBe(request.Prompt)
    const embedded = await ask(world, { replica, path: '/v1/embeddings', body: { model: 'm', input: 'abc' } })
    expect(JSON.parse((await readText(embedded)).text)).toMatchObject({ data: [{ embedding: [3, 0.5, -1] }] })
  })
})

describe('templates', () => {
  it('render completions', async () => {
    const replica = served(familyOf('plain roles'))
    const answer = await ask(world, { replica, path: '/v1/completions', body: { model: 'm', prompt: script({ tell: 'request' }) } })
    const { choices } = JSON.parse((await readText(answer)).text)
    expect(JSON.parse(choices[0].text).Prompt).toBe(`Go on: ${script({ tell: 'request' })}`)
  })

  it('are left to the backend with use_tokenizer_template', async () => {
    const { template } = familyOf('ChatML')
    const replica = served({ template: { ...template, use_tokenizer_template: true } })
    expect(received(await chat(replica, user({ tell: 'request' })))).toMatchObject({ Prompt: '', UseTokenizerTemplate: true })
  })

  it('have the prompt of functions when tools may be called', async () => {
    const replica = served(familyOf('ChatML'))
    const request = received(await chat(replica, user({ tell: 'request' }), { tools }))
    expect(request.Prompt).toContain('Tools:\nweather: the weather {"type":"object"}\n<|im_end|>')
    expect(JSON.parse(request.Tools)).toEqual(tools)
    const none = received(await chat(replica, user({ tell: 'request' }), { tools, tool_choice: 'none' }))
    expect(none.Prompt).not.toContain('Tools:')
  })

  it('have the marker of this process for each medium', async () => {
    const replica = served(familyOf('plain roles'))
    const content = [
      { type: 'text', text: script({ tell: 'request' }) },
      { type: 'image_url', image_url: { url: 'data:image/png;base64,QUJD' } },
    ]
    expect(received(await chat(replica, [{ role: 'user', content }]))).toMatchObject({
      Prompt: `User: <media-7>${script({ tell: 'request' })}\nAssistant: `,
      Images: ['QUJD'],
    })
  })

  it('put the reply prefix before the answer', async () => {
    const replica = served({ template: { ...familyOf('plain roles').template, reply_prefix: '> ' } })
    expect(await chat(replica, user({ tokens: 1, say: 'yes' }))).toMatchObject({ choices: [{ message: { content: '> yes' } }] })
    expect((await streamed(replica, user({ tokens: 1, say: 'yes' }))).contents).toEqual(['> yes'])
  })
})

describe('tool calls', () => {
  const call = { name: 'weather', arguments: '{"city":"Rom"}' }
  it.each([
    ['Llama 3', `<function=weather>${call.arguments}</function>`, null],
    ['Mistral', `[TOOL_CALLS] [{"name":"weather","arguments":${call.arguments}}] [/TOOL_CALLS]`, null],
    ['ChatML', `<note>hm</note><tool_call>{"name":"weather","arguments":${call.arguments}}</tool_call>`, 'hm'],
    ['Gemma', `{"name": "weather", "parameters": ${call.arguments}}`, null],
  ])('of the family %s are read out of the text, whole and streamed', async (family, say, content) => {
    const replica = served(familyOf(family))
    const answer = await chat(replica, user({ tokens: 1, say }), { tools })
    expect(answer.choices[0]).toMatchObject({
      finish_reason: 'tool_calls',
      message: { content, tool_calls: [{ type: 'function', function: call }] },
    })
    const { contents, calls, finish } = await streamed(replica, user({ tokens: 1, say, split: true }), { tools })
    expect([contents, calls.map((each) => each.function), finish]).toEqual([content === null ? [] : [content], [call], 'tool_calls'])
  })

  it('are not looked for without tools, and a text without calls is whole', async () => {
    const replica = served(familyOf('Llama 3'))
    const say = `<function=weather>${call.arguments}</function>`
    expect((await streamed(replica, user({ tokens: 1, say }))).contents.join('')).toBe(say)
    const { contents, finish } = await streamed(replica, user({ tokens: 3 }), { tools })
    expect([contents, finish]).toEqual([['token-0 token-1 token-2 '], 'stop'])
  })

  it('that the backend reports itself pass at once, and a text that is too long for a call too', async () => {
    const replica = served(familyOf('Llama 3'))
    const deltas = [{ content: 'a', tool_calls: [{ index: 0, id: 'c', name: 'weather', arguments: '{}' }] }, { content: 'b' }]
    const native = await streamed(replica, user({ deltas }), { tools })
    expect([native.contents, native.calls.length, native.finish]).toEqual([['a', 'b'], 1, 'tool_calls'])
    const long = await streamed(replica, user({ tokens: 30, say: 'x'.repeat(10_000) }), { tools })
    expect([long.contents.join('').length, long.contents.length > 1, long.finish]).toEqual([300_000, true, 'stop'])
  })

  it('answer a request of the older API as its one function call', async () => {
    const replica = served(familyOf('Llama 3'))
    const say = `<function=weather>${call.arguments}</function>`
    const answer = await chat(replica, user({ tokens: 1, say }), { functions: [{ name: 'weather' }], function_call: 'auto' })
    expect(answer.choices[0]).toMatchObject({ finish_reason: 'function_call', message: { content: null, function_call: call } })
  })
})

describe('loading', () => {
  it('reads the trained context, finds companions, adds serving options, and notes parameters without effect', async () => {
    await using directory = await makeTempDir('localai-model')
    await mkdir(`${directory.path}/sub`)
    await writeFile(
      `${directory.path}/x.gguf`,
      ggufHead([
        ['general.architecture', 'llama'],
        ['llama.context_length', 12_345],
      ]),
    )
    await writeFile(`${directory.path}/sub/p.gguf`, '')
    const given: ReplicaSpec = {
      ...spec({
        function: { grammar: { triggers: [{ word: '<tool>' }] } },
        contextSize: -1,
        parameters: { model: 'x.gguf', mmproj: 'sub/p.gguf', draft_model: '../d.gguf', odd: 1 },
      }),
      modelDirectory: directory.path,
      modelPath: `${directory.path}/x.gguf`,
    }
    const { address, process } = await world.start(given)
    const notes: string[] = []
    await driver.waitUntilReady(given, address, {
      signal: AbortSignal.timeout(15_000),
      onSign: () => undefined,
      onNote: (line) => notes.push(line),
    })
    expect(notes).toEqual(['llama-cpp has no field for parameters odd: they have no effect'])
    world.admit(given.replicaId, driver.connect(given, address))
    expect(received(await chat(given.replicaId, user({ tell: 'load' })))).toMatchObject({
      ContextSize: 12_345,
      MMProj: `${directory.path}/sub/p.gguf`,
      DraftModel: '../d.gguf',
      GrammarTriggers: [{ word: '<tool>' }],
      Options: ['cache_reuse:256', 'parallel:4', 'use_jinja:true'],
    })
    await process.stop()
  })

  it.each<[string, Partial<SpecFacts>, RegExp]>([
    ['a template', { template: { chat: '{{upper .Input}}' } }, /template\.chat: the template uses upper/],
    ['an expression', { template: { chat: 'x' }, function: { response_regex: ['('] } }, /function\.response_regex: the regular expression/],
    ['a parameter', { parameters: { temperature: 'hot' } }, /parameters\.temperature of the model m/],
  ])('fails for %s that cannot be used', async (_, facts, message) => {
    const watch = { signal: AbortSignal.timeout(5_000), onSign: () => undefined }
    await expect(driver.waitUntilReady(spec(facts), shared.address, watch)).rejects.toMatchObject({
      failure: { code: 'invalid', retry: 'never', message: expect.stringMatching(message) },
    })
  })
})

it('a JSON schema is a grammar for llama-cpp, and an unknown keyword is refused', async () => {
  const replica = served({})
  const format = (schema: object) => ({ response_format: { type: 'json_schema', json_schema: { name: 'x', schema } } })
  expect(received(await chat(replica, user({ tell: 'request' }), format({ type: 'boolean' }))).Grammar).toContain('"true" | "false"')
  const refused = await ask(world, { replica, body: { model: 'm', messages: user({}), ...format({ pattern: 'a' }) } })
  expect([refused.statusCode, (await readText(refused)).text]).toEqual([400, expect.stringContaining('has pattern')])
})
