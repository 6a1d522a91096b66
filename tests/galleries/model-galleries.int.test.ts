// Galleries of models: what they offer, and what becomes of it when somebody takes one.
import { createServer, type Server } from 'node:http'
import { join } from 'node:path'
import { createLocalHub } from '@muster/bus'
import { controllerSettings, startController } from '@muster/controller'
import { openDataDir, resolveSettings, silentLog, systemClock } from '@muster/host'
import { adminKey, createApiClient, createTestDatabase, joinToken, makeTempDir, type ApiClient } from '@muster/testkit'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { startOperationsWorld, type OperationsWorld } from '../operations/operations-world.ts'

let world: OperationsWorld
let server: Server
const texts = new Map<string, string>()

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
  world = await startOperationsWorld({ postgresUrl: inject('postgresUrl'), flags: { 'model-gallery': `good=${url}/good.yaml` } })
  for (const [name, path] of [
    ['bad', 'bad.yaml'],
    ['absent', 'absent.yaml'],
  ] as const)
    expect((await world.api().put(`/api/galleries/${name}`, { url: `${url}/${path}`, kind: 'model' })).status).toBe(200)
})
afterAll(async () => {
  await world[Symbol.asyncDispose]()
  server.closeAllConnections()
  await new Promise((resolve) => server.close(resolve))
})

const offered = async (api: ApiClient = world.api()) =>
  (await api.get('/api/models/gallery')).body as unknown as { models: { name: string }[]; problems: { gallery: string; message: string }[] }

describe('a gallery of models', () => {
  it('is listed with the built-in one; one that cannot be read hides no other', async () => {
    const { models, problems } = await offered()
    expect(models.map(({ name }) => name)).toEqual(['tiny', 'small', 'bare', 'wrong'])
    expect(models[1]).toEqual({
      ...{
        name: 'small',
        description: 'A small one',
        license: 'MIT',
        icon: '',
        tags: ['chat'],
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
