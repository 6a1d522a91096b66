// Galleries of models: what they offer, and what becomes of it when somebody takes one.
import { createServer, type Server } from 'node:http'
import { join } from 'node:path'
import { createLocalHub } from '@muster/bus'
import { controllerSettings, startController } from '@muster/controller'
import { openDataDir, resolveSettings, silentLog, systemClock } from '@muster/host'
import { adminKey, createApiClient, createTestDatabase, digestOf, joinToken, makeTempDir, waitFor, type ApiClient } from '@muster/testkit'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { startOperationsWorld, type OperationsWorld } from '../operations/operations-world.ts'

let world: OperationsWorld
let server: Server
const texts = new Map<string, string>()
const commit = 'c'.repeat(40)
const sha256 = (bytes: Buffer): string => digestOf(bytes).slice('sha256:'.length)
const voice = Buffer.from('an archive')

beforeAll(async () => {
  server = createServer((request, response) => {
    const text = texts.get(request.url ?? '')
    response.writeHead(text === undefined ? 404 : 200).end(text)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('not listening on a port')
  const url = `http://127.0.0.1:${address.port}`
  texts.set(
    '/good.yaml',
    `
- name: small
  description: A small one
  license: MIT
  tags: [chat]
  files: [{ uri: "https://h.example/small.gguf", filename: small.gguf }]
  config: { backend: llama, context_size: 256, parameters: { model: small.gguf } }
- name: bare
  config: { backend: llama }
- name: wrong
  config: { backend: llama, context_sise: 1 }
`,
  )
  texts.set('/bad.yaml', '- name: [')
  texts.set('/chat.yaml', 'config_file: |\n  backend: llama-cpp\n  context_size: 1024\n  parameters: { model: base.gguf }\n')
  texts.set('/sly.yaml', 'files: [{ filename: p, uri: "file:///etc/passwd" }]')
  texts.set('/api/models/o/whole/revision/main', JSON.stringify({ sha: commit }))
  texts.set(
    `/api/models/o/whole/tree/${commit}?recursive=true`,
    JSON.stringify([
      { type: 'file', path: 'config.json', size: 2 },
      { type: 'file', path: 'w.safetensors', size: 9, lfs: { oid: 'a'.repeat(64), size: 9, pointerSize: 1 } },
      { type: 'file', path: 'README.md', size: 2 },
    ]),
  )
  texts.set(
    '/localai.yaml',
    `
- &chat
  name: chat
  url: ${url}/chat.yaml
  variants: [{ model: chat-large }]
  size: 1MB
  overrides: { parameters: { temperature: 0.5 } }
- !!merge <<: *chat
  name: chat-large
  size: 900TB
  variants: []
  overrides: { backend: llama, parameters: { model: large.gguf } }
- name: spoken
  overrides: { backend: echo, parameters: { model: voice.onnx } }
  files: [{ filename: voice.tar.gz, uri: ${url}/voice.tar.gz, sha256: ${sha256(voice)} }]
- name: whole
  overrides:
    backend: vllm
    parameters: { model: o/whole }
    artifacts: [{ name: model, target: model, source: { type: huggingface, repo: o/whole, ignore_patterns: ["*.md"] } }]
- name: torn
  url: ${url}/absent-base.yaml
  overrides: { backend: llama }
- name: sly
  overrides: { backend: llama-cpp, parameters: { model: p }, download_files: [{ filename: p, uri: "file:///etc/passwd" }] }
- name: sly-base
  url: ${url}/sly.yaml
  overrides: { backend: llama-cpp, parameters: { model: p } }
- name: broken
  overrides: [wrong]
`,
  )
  world = await startOperationsWorld({
    postgresUrl: inject('postgresUrl'),
    flags: { 'model-gallery': `good=${url}/good.yaml`, 'hf-endpoint': url },
  })
  for (const [name, path] of [
    ['bad', 'bad.yaml'],
    ['absent', 'absent.yaml'],
    ['localai', 'localai.yaml'],
  ] as const)
    expect((await world.api().put(`/api/galleries/${name}`, { url: `${url}/${path}`, kind: 'model' })).status).toBe(200)
})
afterAll(async () => {
  await world[Symbol.asyncDispose]()
  server.closeAllConnections()
  await new Promise((resolve) => server.close(resolve))
})

const offered = async (api: ApiClient = world.api()) =>
  (await api.get('/api/models/gallery')).body as unknown as {
    models: { name: string; backend: string }[]
    problems: { gallery: string; message: string }[]
  }

describe('a gallery of models', () => {
  it('is listed with the built-in one; one that cannot be read hides no other', async () => {
    const { models, problems } = await offered()
    expect(models.map(({ name }) => name)).toEqual([
      'tiny',
      'small',
      'bare',
      'wrong',
      'chat',
      'chat-large',
      'spoken',
      'whole',
      'torn',
      'sly',
      'sly-base',
    ])
    expect(models[1]).toEqual({
      ...{
        name: 'small',
        description: 'A small one',
        license: 'MIT',
        icon: '',
        tags: ['chat'],
        urls: [],
        size_bytes: null,
        variants: [],
        gallery: 'good',
        backend: 'llama',
        installed: false,
      },
    })
    expect(models[0]).toMatchObject({ gallery: 'builtin', backend: 'llama' })
    expect(problems.map(({ gallery }) => gallery)).toEqual(['bad', 'absent'])
  })

  it('is no offer of backends, nor the other way round', async () => {
    expect(JSON.stringify((await world.api().get('/api/backends/gallery')).body)).not.toContain('small.gguf')
  })
})

describe('S0.38 an install', () => {
  const install = (model: string) => world.api().post('/api/models/install', { model })

  it('creates the model of the gallery entry, and is an operation without nodes', async () => {
    const answer = await install('small')
    expect(answer.status).toBe(202)
    const id = String(answer.body['operation_id'])
    expect(await world.operation(id)).toMatchObject({ kind: 'model.install', model: 'small', nodes: [], finished_at: null })
    expect((await world.api().get('/api/models/small')).body).toMatchObject({
      config: {
        context_size: 256,
        files: [{ uri: 'https://h.example/small.gguf', filename: 'small.gguf' }],
        parameters: { model: 'small.gguf' },
      },
    })
    expect((await offered()).models.find(({ name }) => name === 'small')).toMatchObject({ installed: true })
    expect((await world.api().post(`/api/operations/${id}/cancel`, {})).status).toBe(202)
    expect(await world.ended(id)).toMatchObject({ state: 'cancelled', nodes: [] })
  })

  it('of a model without files ends at once; a repeated one is a new operation', async () => {
    const first = String((await install('bare')).body['operation_id'])
    const second = String((await install('bare')).body['operation_id'])
    expect(second).not.toBe(first)
    for (const id of [first, second]) expect(await world.ended(id)).toMatchObject({ state: 'succeeded', progress: 100 })
  })

  it('of an unknown entry, of an invalid configuration, and of a model that exists with another configuration, is refused', async () => {
    expect(await install('nobody')).toMatchObject({ status: 404, body: { error: { message: expect.stringContaining('bad (') as string } } })
    expect(await install('wrong')).toMatchObject({
      status: 400,
      body: { error: { message: expect.stringContaining('context_size') as string } },
    })
    await world.api().put('/api/models/tiny', { backend: 'other' })
    expect(await install('tiny')).toMatchObject({ status: 409, body: { error: { code: 'conflict' } } })
    expect((await world.api().get('/api/models/wrong')).status).toBe(404)
  })
})

describe("a gallery in LocalAI's format", () => {
  const install = (model: string, more: object = {}) => world.api().post('/api/models/install', { model: `localai@${model}`, ...more })

  it('is listed with the entries that are left out, and their number', async () => {
    const { left_out: leftOut } = (await world.api().get('/api/models/gallery')).body
    const message = expect.stringContaining('overrides: expected a mapping') as string
    expect(leftOut).toEqual([{ gallery: 'localai', count: 1, entries: [{ index: 7, name: 'broken', message }] }])
    const { galleries } = (await world.api().get('/api/galleries')).body as unknown as { galleries: { name: string }[] }
    expect(galleries.find(({ name }) => name === 'localai')).toMatchObject({ entries: 7, left_out: 1 })
    expect(galleries.find(({ name }) => name === 'bad')).toMatchObject({ entries: null, left_out: null })
  })

  it('names the backend of an entry once its base file was read', async () => {
    const chat = async () => (await offered()).models.find(({ name }) => name === 'chat')
    await waitFor(async () => (await chat())?.backend === 'llama-cpp', { what: 'the backend of the base file' })
  })

  it('installs an entry: base file, overrides and the changes of the request', async () => {
    const answer = await install('chat', { name: 'mine', variant: 'chat', overrides: { parameters: { top_k: 7 } }, dry_run: true })
    expect(answer).toMatchObject({
      status: 200,
      body: {
        config: { name: 'mine', backend: 'llama-cpp', context_size: 1024, parameters: { model: 'base.gguf', temperature: 0.5, top_k: 7 } },
        variant: { chosen: 'chat', reason: 'the request names it' },
      },
    })
    expect((await world.api().get('/api/models/mine')).status, 'a dry run stores nothing').toBe(404)
    const installed = await install('chat', { name: 'mine', variant: 'chat-large' })
    expect((await world.api().get('/api/models/mine')).body).toMatchObject({ config: { parameters: { model: 'large.gguf' } } })
    const operation = await world.ended(String(installed.body['operation_id']))
    expect(operation).toMatchObject({ state: 'succeeded', model: 'mine', note: expect.stringContaining('variant chat-large') as string })
  })

  it('marks an archive, which workers unpack', async () => {
    expect(await install('spoken', { dry_run: true })).toMatchObject({
      body: { config: { files: [{ filename: 'voice.tar.gz', sha256: sha256(voice), unpack: true }] } },
    })
  })

  it('turns a repository into files at one commit, by its patterns', async () => {
    expect(await install('whole', { dry_run: true })).toMatchObject({
      body: {
        config: {
          parameters: { model: 'o/whole' },
          files: [
            { uri: `hf://o/whole@${commit}/config.json`, filename: 'o/whole/config.json' },
            { uri: `hf://o/whole@${commit}/w.safetensors`, filename: 'o/whole/w.safetensors', sha256: 'a'.repeat(64) },
          ],
        },
      },
    })
  })

  it.each<[string, object, number, RegExp]>([
    ['torn', {}, 404, /absent-base.yaml does not exist/],
    ['sly', {}, 400, /p: file:.*names a file of the node/],
    ['sly-base', {}, 400, /p: file:.*names a file of the node/],
    ['broken', {}, 404, /its entry in localai cannot be read: overrides/],
    ['chat', { variant: 'gone' }, 400, /chat has no variant gone; it has chat, chat-large/],
    ['chat', { overides: {} }, 400, /overides/],
    ['chat', { name: 'a/../b' }, 400, /name/],
  ])('refuses %s with %j: %i', async (model, more, status, reason) => {
    const answer = await install(model, more)
    expect(answer.status).toBe(status)
    expect(JSON.stringify(answer.body)).toMatch(reason)
  })

  it('chooses a build for the nodes', async () => {
    await world.addWorker('one')
    const chat = await install('chat', { dry_run: true })
    const { models } = (await world.api().get('/api/models/gallery')).body as unknown as { models: { name: string; variants: unknown[] }[] }
    expect(models.find(({ name }) => name === 'chat')?.variants).toMatchObject([
      { name: 'chat', size_bytes: 1_000_000, chosen: true, reason: expect.stringContaining('one has') as string },
      { name: 'chat-large', chosen: false },
    ])
    expect(chat.body).toMatchObject({
      variant: { chosen: 'chat', all: [{ name: 'chat' }, { reason: expect.stringContaining('no node') as string }] },
    })
  })
})

it('an empty database gets the first models once: a deleted one stays deleted', async () => {
  await using directory = await makeTempDir('first-models')
  await using database = await createTestDatabase()
  const run = async (number: number, work: (api: ApiClient) => Promise<void>): Promise<void> => {
    const dataDir = await openDataDir({ path: join(directory.path, String(number)), role: 'controller' })
    const env = { MUSTER_DATABASE_URL: database.url, MUSTER_ADMIN_KEY: adminKey, MUSTER_JOIN_TOKEN: joinToken }
    const settings = resolveSettings(controllerSettings, { flags: { port: '0' }, env })
    const localHub = createLocalHub({ log: silentLog })
    const controller = await startController({ settings, dataDir, log: silentLog, clock: systemClock, localHub, firstModels: ['tiny'] })
    await controller.ready(AbortSignal.timeout(120_000))
    await work(createApiClient(`http://127.0.0.1:${controller.port}`, adminKey))
    await controller.stop()
    await dataDir.release()
  }
  await run(1, async (api) => {
    expect((await api.get('/api/models/tiny')).body).toMatchObject({
      backend: 'llama',
      state: 'unloaded',
      config: { files: [{ filename: 'tiny.gguf' }] },
    })
    expect((await api.delete('/api/models/tiny')).status).toBe(202)
  })
  await run(2, async (api) => {
    expect((await api.get('/api/models')).body).toEqual({ models: [] })
  })
})
