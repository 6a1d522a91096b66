// The requests that public scripts for LocalAI make, against a real fleet with a gallery of models: roles of Ansible and shell
// scripts, Terraform, dashboards. Muster answers in LocalAI's shapes.
import { createServer, request } from 'node:http'
import { createApiClient, waitFor, type ApiAnswer, type ApiClient } from '@muster/testkit'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { startFleet, type Fleet } from '../fleet/fleet-world.ts'

const ending = new AsyncDisposableStack()
let fleet: Fleet
let api: ApiClient
let files: string
const keys: Record<string, string> = {}

beforeAll(async () => {
  files = await serveFiles()
  const args = ['--model-gallery', `models=${files}/index.yaml`, '--require-api-key', '--expose-node-header']
  fleet = ending.use(await startFleet({ postgresUrl: inject('postgresUrl'), args }))
  api = fleet.api
  for (const scope of ['inference', 'read']) keys[scope] = String((await api.post('/api/keys', { name: scope, scope })).body['key'])
})
afterAll(() => ending.disposeAsync())

async function serveFiles(): Promise<string> {
  let index = ''
  const server = createServer((incoming, response) => void response.end(incoming.url === '/index.yaml' ? index : 'weights'))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  ending.defer(() => void server.close())
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('not listening on a port')
  const url = `http://127.0.0.1:${address.port}`
  index = `- { name: phi, description: A small one, license: MIT, tags: [chat], config: { backend: scripted, parameters: { model: phi.gguf } },
    files: [{ uri: "${url}/phi.gguf", filename: phi.gguf }] }`
  return url
}

const listOf = (answer: ApiAnswer): Record<string, unknown>[] => answer.body as unknown as Record<string, unknown>[]
const modelNames = async (): Promise<unknown[]> =>
  ((await api.get('/v1/models')).body['data'] as unknown as { id: string }[]).map(({ id }) => id)
/** Polls as scripts do: until `processed`. */
const untilProcessed = (url: unknown): Promise<ApiAnswer> =>
  waitFor(
    async () => {
      const job = await api.get(String(url).replace(api.url, ''))
      if (job.status === 200 && job.body['processed'] === true) return job
      throw new Error(job.text)
    },
    { what: `job ${String(url)}`, timeoutMs: 30_000 },
  )

describe('a role of Ansible', () => {
  it('applies a model, polls its job, and finds it in /v1/models', async () => {
    const applied = await api.post('/models/apply', { id: 'models@phi', description: 'ignored', overrides: {}, files: [] })
    expect(applied).toMatchObject({ status: 200, body: { uuid: expect.any(String) as string } })
    expect(applied.body['status']).toBe(`${api.url}/models/jobs/${String(applied.body['uuid'])}`)
    const job = await untilProcessed(applied.body['status'])
    expect(job.body).toMatchObject({ processed: true, message: 'completed', progress: 100, deletion: false, gallery_element_name: 'phi' })
    expect(job.body).not.toHaveProperty('error')
    expect((await api.get('/models/jobs')).body).toMatchObject({ [String(applied.body['uuid'])]: { processed: true } })
    expect(await modelNames()).toEqual(['phi'])
  })

  it('applies it again, which changes nothing', async () => {
    const { body } = await api.post('/models/apply', { id: 'phi' })
    expect((await untilProcessed(body['status'])).body).toMatchObject({ message: 'completed' })
  })

  it('sees errors in the form of LocalAI', async () => {
    const errorOf = (code: number, message: string) => ({
      status: code,
      body: { error: { code, message: expect.stringContaining(message) as string, type: '' } },
    })
    expect(await api.post('/models/apply', { id: 'nobody' })).toMatchObject(errorOf(404, 'no gallery offers a model nobody'))
    expect(await api.post('/models/apply', {})).toMatchObject(errorOf(400, '"id" is missing'))
    expect(await api.post('/models/apply', { url: 'github:a/b/c.yaml@main' })).toMatchObject(errorOf(400, 'github:a/b/c.yaml@main'))
    expect(await api.get('/models/jobs/op-neverwas')).toMatchObject(errorOf(404, 'could not find any status for ID op-neverwas'))
    expect(await createApiClient(api.url).get('/models/available')).toMatchObject(errorOf(401, 'needs a key'))
    const read = createApiClient(api.url, keys['read'])
    expect(await read.post('/models/apply', { id: 'phi' })).toMatchObject(errorOf(403, 'admin'))
    expect((await read.get('/models/available')).status).toBe(200)
  })
})

describe('a key', () => {
  it('may be in x-api-key or xi-api-key, on these routes and on /v1 only', async () => {
    const anonymous = createApiClient(api.url)
    const withHeader = (path: string, header: string, scope: string) => anonymous.get(path, { headers: { [header]: keys[scope] ?? '' } })
    for (const header of ['x-api-key', 'xi-api-key']) {
      expect((await withHeader('/v1/models', header, 'inference')).status).toBe(200)
      expect((await withHeader('/models/galleries', header, 'read')).status).toBe(200)
      expect((await withHeader('/models/galleries', header, 'inference')).status).toBe(403)
      expect((await withHeader('/api/models', header, 'read')).status).toBe(401)
    }
    expect((await anonymous.get('/v1/models', { headers: { 'x-api-key': 'wrong' } })).status).toBe(401)
  })
})

describe('a dashboard', () => {
  it('sees backends, loaded models and their state, and the node that answered', async () => {
    expect(await api.get('/backend/monitor?model=phi')).toMatchObject({ status: 500, body: { error: { code: 500 } } })
    expect((await api.get('/backend/monitor?model=nobody')).status).toBe(404)
    const loaded = await api.post('/backend/load', { model: 'phi' })
    expect(loaded).toMatchObject({ status: 200, body: { loaded: ['phi'] } })
    expect((await api.get('/system')).body).toEqual({ backends: ['scripted'], loaded_models: [{ id: 'phi', backend: 'scripted' }] })
    expect((await api.get('/backend/monitor?model=phi')).body).toEqual({ state: 2 })
    expect(await getWithBody('/v1/backend/monitor', { model: 'phi' })).toEqual({ status: 200, body: { state: 2 } })

    const chat = await api.post('/v1/chat/completions', { model: 'phi', messages: [{ role: 'user', content: 'hello' }] })
    expect(chat.headers.get('x-localai-node')).toMatch(/^n-/)
    expect((await api.get('/v1/models/capabilities')).body).toMatchObject({
      object: 'list',
      data: [{ id: 'phi', object: 'model', capabilities: ['chat', 'completion'], input_modalities: ['text'], output_modalities: ['text'] }],
    })
  })

  it('stops a model', async () => {
    expect(await api.post('/backend/shutdown', { model: 'phi' })).toMatchObject({ status: 200, body: { message: 'model stopped' } })
    expect((await api.get('/system')).body['loaded_models']).toEqual([])
    expect((await api.post('/v1/backend/shutdown', { model: 'phi' })).status).toBe(404)
  })

  it('in a browser opens the page of the same path', async () => {
    const page = await createApiClient(api.url).get('/backends', { headers: { accept: 'text/html,*/*' } })
    expect(page.text).toMatch(/^<!doctype html>/i)
    expect(page.headers.get('content-type')).toContain('text/html')
  })
})

/** `fetch` sends no body with a GET; curl does. */
function getWithBody(path: string, body: object): Promise<{ status: number | undefined; body: unknown }> {
  const text = JSON.stringify(body)
  const { promise, resolve, reject } = Promise.withResolvers<{ status: number | undefined; body: unknown }>()
  const headers = { 'content-type': 'application/json', 'content-length': String(text.length), 'x-api-key': keys['read'] ?? '' }
  const call = request(`${api.url}${path}`, { method: 'GET', headers }, (response) => {
    let content = ''
    response.on('data', (chunk: Buffer) => (content += chunk.toString()))
    response.on('end', () => resolve({ status: response.statusCode, body: JSON.parse(content) as unknown }))
  })
  call.on('error', reject).end(text)
  return promise
}

describe('a script for backends', () => {
  it('lists what is offered and installed', async () => {
    expect(listOf(await api.get('/backends'))).toMatchObject([
      { Name: 'scripted', IsMeta: false, IsSystem: false, Metadata: { name: 'scripted' }, nodes: [{ node_name: 'one' }] },
    ])
    const offered = listOf(await api.get('/backends/available'))
    expect(offered.find(({ name }) => name === 'scripted')).toMatchObject({ installed: true, gallery: { name: 'test' } })
    expect(listOf(await api.get('/backends/galleries')).map(({ name }) => name)).toEqual(['builtin', 'test'])
    expect(listOf(await api.get('/backends/known')).find(({ name }) => name === 'llama')).toMatchObject({ auto_detect: true })
    expect((await api.get('/backends/upgrades')).status).toBe(200)
    expect((await api.post('/backends/upgrades/check')).status).toBe(200)
  })

  it('installs, upgrades, repairs and deletes one', async () => {
    const change = async (path: string, body: object = {}): Promise<ApiAnswer> => {
      const answer = await api.post(path, body)
      expect(answer).toMatchObject({ status: 200, body: { id: expect.any(String) as string } })
      expect(answer.body['status_url']).toBe(`${api.url}/backends/jobs/${String(answer.body['id'])}`)
      return await untilProcessed(answer.body['status_url'])
    }
    expect((await change('/backends/apply', { id: 'echo' })).body).toMatchObject({ message: 'completed', nodes: [{ status: 'success' }] })
    expect((await change('/backends/apply', { id: 'echo', force: true })).body).toMatchObject({ message: 'completed' })
    expect((await change('/backends/upgrade/echo')).body).toMatchObject({ message: 'completed' })
    expect((await change('/backends/delete/echo')).body).toMatchObject({ message: 'completed', deletion: true })
    expect((await api.post('/backends/delete/echo')).status).toBe(404)
    expect((await api.post('/backends/apply', { id: 'a b' })).status).toBe(400)
  })
})

describe('a script for configurations', () => {
  const yaml = { headers: { 'content-type': 'application/x-yaml' } }
  const send = (path: string, raw: string): Promise<ApiAnswer> => api.call('POST', path, { raw, ...yaml })

  it('imports and edits a model; a wrong one is refused with its key', async () => {
    const config = 'name: mine\nbackend: scripted\nf16: true\nknown_usecases: [FLAG_CHAT]\nusage: "an example"\n'
    expect(await send('/models/import', config)).toMatchObject({
      status: 200,
      body: {
        ...{ success: true, filename: 'mine.yaml', pending_cleanup: false },
        message: expect.stringMatching(/^model mine is stored: .* without effect: usage$/) as string,
      },
    })
    expect(await send('/models/edit/mine', 'backend: scripted\ncontext_size: 512\n')).toMatchObject({
      status: 200,
      body: { success: true, config: { context_size: 512 }, config_revision: expect.any(String) as string },
    })
    expect(await send('/models/import', 'name: mine\nbackend: scripted\ncontext_size: much\n')).toMatchObject({
      status: 400,
      body: { success: false, error: expect.stringContaining('context_size') as string },
    })
    expect((await send('/models/edit/nobody', 'backend: scripted\n')).status).toBe(404)
    expect((await api.post('/models/reload')).body).toMatchObject({ success: true })
  })

  it('pins, unpins, enables and disables it', async () => {
    const toggle = (path: string): Promise<ApiAnswer> => api.put(`/models/${path}`, {})
    const scheduling = async (): Promise<unknown> =>
      ((await api.get('/api/models/mine')).body['config'] as unknown as { scheduling: object }).scheduling
    expect((await toggle('toggle-pinned/mine/pin')).body).toMatchObject({ success: true })
    expect(await scheduling()).toMatchObject({ min_replicas: 1 })
    expect((await toggle('toggle-pinned/mine/unpin')).body).toMatchObject({ success: true })
    expect(await scheduling()).toMatchObject({ min_replicas: 0 })
    expect((await toggle('toggle-state/mine/disable')).body).toMatchObject({ success: true })
    expect((await fleet.ask('mine')).status).toBe(403)
    expect((await toggle('toggle-state/mine/enable')).body).toMatchObject({ success: true })
    expect((await fleet.ask('mine')).status).toBe(200)
    expect((await toggle('toggle-state/mine/explode')).status).toBe(400)
  })

  it('imports a file by its URI, or is told the candidates', async () => {
    const uri = `${files}/small.gguf`
    const { body } = await api.post('/models/import-uri', { uri, preferences: { backend: 'scripted', name: 'small' } })
    expect((await untilProcessed(body['status'])).body).toMatchObject({ message: 'completed', gallery_element_name: 'small' })
    expect(await modelNames()).toContain('small')
    expect(await api.post('/models/import-uri', { uri: `${files}/small.bin` })).toMatchObject({
      status: 400,
      body: { error: 'ambiguous import', candidates: expect.arrayContaining(['scripted']) as string[], hint: expect.any(String) as string },
    })
    expect(await api.post('/models/import-uri', { uri: 'hf://owner/repo' })).toMatchObject({ status: 400, body: { error: { code: 400 } } })
  })
})

describe('Terraform', () => {
  it('deletes a model and waits until its job is done', async () => {
    const { status, body } = await api.post('/models/delete/phi')
    expect(status).toBe(200)
    expect((await untilProcessed(body['status'])).body).toMatchObject({ deletion: true, message: 'completed', gallery_element_name: 'phi' })
    expect(await modelNames()).not.toContain('phi')
    expect((await api.post('/models/delete/phi')).status).toBe(404)
    const available = listOf(await api.get('/models/available'))
    expect(available.find(({ name }) => name === 'phi')).toMatchObject({
      ...{ installed: false, description: 'A small one', license: 'MIT', backend: 'scripted', gallery: { name: 'models' } },
    })
    expect(listOf(await api.get('/models/galleries'))).toEqual([{ name: 'models', url: `${files}/index.yaml`, mirrors: [] }])
  })
})
