// Models over the HTTP API of a real controller: how they are configured, and what is refused.
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { readEvents, waitFor } from '@muster/testkit'
import { startOperationsWorld, type OperationsWorld } from '../operations/operations-world.ts'

let world: OperationsWorld
beforeAll(async () => {
  world = await startOperationsWorld({ postgresUrl: inject('postgresUrl'), controllers: 2 })
})
afterAll(() => world[Symbol.asyncDispose]())

const yaml = (name: string, text: string, headers: Record<string, string> = {}) =>
  world.api().call('PUT', `/api/models/${name}`, { raw: text, headers: { 'content-type': 'application/yaml', ...headers } })

describe('a configuration', () => {
  it('is put as YAML or JSON: 201 when it is new, 200 when it is changed or the same', async () => {
    const text = 'name: tiny\nbackend: llama\ncontext_size: 512\n'
    const created = await yaml('tiny', text)
    expect(created).toMatchObject({
      status: 201,
      body: {
        name: 'tiny',
        backend: 'llama',
        state: 'unloaded',
        replicas_ready: 0,
        replicas_desired: 0,
        failure: null,
        config: { context_size: 512 },
      },
    })
    const again = await world.api(1).put('/api/models/tiny', { context_size: 512, backend: 'llama' })
    expect(again).toMatchObject({ status: 200, body: { revision: created.body['revision'] } })
    const changed = await world.api(1).put('/api/models/tiny', { context_size: 1024, backend: 'llama' })
    expect(changed.status).toBe(200)
    expect(changed.body['revision']).not.toBe(created.body['revision'])
    expect((await world.api().get('/api/models/tiny')).body).toEqual({ ...changed.body, last_loaded: null })
    expect((await world.api().get('/api/models')).body['models']).toEqual([changed.body])
  })

  it('has a name with slashes', async () => {
    expect((await world.api().put('/api/models/org%2Fname:q4', { backend: 'llama' })).status).toBe(201)
    expect((await world.api().get('/api/models/org%2Fname:q4')).body).toMatchObject({ name: 'org/name:q4' })
    expect((await world.api().get('/api/models/org%2F%2Fname')).status).toBe(400)
  })

  it('has a name of letters of any script, in one form', async () => {
    const path = `/api/models/${encodeURIComponent('voice-tug\u00e3o/模型')}`
    expect((await world.api().put(path, { backend: 'llama' })).status).toBe(201)
    expect((await world.api(1).get(path)).body).toMatchObject({ name: 'voice-tug\u00e3o/模型' })
    expect(await world.api().put(`/api/models/${encodeURIComponent('tuga\u0303o')}`, { backend: 'llama' })).toMatchObject({
      status: 400,
      body: { error: { message: expect.stringContaining('normal form NFC') as string } },
    })
  })

  it('of LocalAI is converted, stored as one of Muster, and refused at the line of its own key', async () => {
    const text = 'name: from-localai\nbackend: whisper\nf16: true\nstopwords: [x]\nusage: none\noptions: [b=1, a]\n'
    const created = await yaml('from-localai', text)
    expect(created).toMatchObject({
      status: 201,
      body: {
        config: { backend: 'whisper', parameters: { f16: true, stop: ['x'] }, options: ['b=1', 'a'] },
        keys: [{}, {}, {}, {}, { outcome: 'no_effect' }, {}],
      },
    })
    const again = await world.api(1).put('/api/models/from-localai', created.body['config'] ?? {})
    expect(again).toMatchObject({ status: 200, body: { revision: created.body['revision'] } })
    expect(await yaml('from-localai', `${text}pipeline: { llm: x }\n`)).toMatchObject({
      status: 400,
      body: { error: { code: 'invalid', details: { key: 'pipeline', line: 7 } } },
    })
    expect(await world.api().put('/api/models/forced?from=localai', { backend: 'llama' })).toMatchObject({
      body: { config: { backend: 'llama-cpp', options: ['cache_reuse:256', 'use_jinja:true'] } },
    })
  })

  it('can be disabled: no replica runs, a load ends, and requests are refused', async () => {
    await world.api().put('/api/models/off', { backend: 'llama', scheduling: { disabled: true, min_replicas: 1 } })
    const ask = () => world.api().post('/v1/chat/completions', { model: 'off', messages: [] })
    expect(await ask()).toMatchObject({ status: 403, body: { error: { code: 'model_disabled' } } })
    expect((await world.api().get('/api/models/off')).body).toMatchObject({ state: 'unloaded', replicas_desired: 0 })
    const { body } = await world.api().post('/api/models/off/load', {})
    const operation = await waitFor(
      async () => {
        const found = (await world.api().get(`/api/operations/${String(body['operation_id'])}`)).body
        return found['state'] === 'cancelled' ? found : null
      },
      { what: 'the load ends' },
    )
    expect(operation).toMatchObject({ message: expect.stringContaining('disabled') as string })
  })

  it('#11566 is changed only from the revision that the caller has seen, with quotes or without', async () => {
    const { body } = await world.api().put('/api/models/matched', { backend: 'llama' })
    const revision = String(body['revision'])
    const put = (contextSize: number, match: string) =>
      world
        .api()
        .call('PUT', '/api/models/matched', { body: { backend: 'llama', context_size: contextSize }, headers: { 'if-match': match } })
    const second = await put(1, revision)
    expect(second.status).toBe(200)
    expect((await put(2, `"${String(second.body['revision'])}"`)).status).toBe(200)
    expect(await put(3, revision)).toMatchObject({ status: 409, body: { error: { code: 'revision_conflict' } } })
    expect(
      await world.api().call('PUT', '/api/models/absent', { body: { backend: 'llama' }, headers: { 'if-match': revision } }),
    ).toMatchObject({
      ...{ status: 409, body: { error: { code: 'revision_conflict', details: { revision: null } } } },
    })
    expect((await world.api().get('/api/models/absent')).status).toBe(404)
  })

  it('is refused with the key, its line and the closest known one', async () => {
    expect(await yaml('wrong', 'backend: llama\n\ncontext_sise: 5\n')).toMatchObject({
      status: 400,
      body: { error: { code: 'invalid', details: { key: 'context_sise', line: 3, closest: 'context_size' } } },
    })
    for (const [text, part] of [
      ['name: other\nbackend: llama', 'line 1: name'],
      ['backend: a\nbackend: b', 'line 2: duplicate key "backend"'],
      ['backend: [', 'line 1'],
      ['files: []', 'backend'],
    ] as const)
      expect(await yaml('wrong', text)).toMatchObject({
        status: 400,
        body: { error: { message: expect.stringContaining(part) as string } },
      })
    expect((await world.api().call('PUT', '/api/models/wrong', { raw: 'x', headers: { 'content-type': 'text/html' } })).status).toBe(415)
    expect((await world.api().get('/api/models/wrong')).status).toBe(404)
  })
})

describe('a configuration that is only looked at', () => {
  const validate = (text: string, query = '', type = 'application/yaml') =>
    world.api().call('POST', `/api/models/validate${query}`, { raw: text, headers: { 'content-type': type } })

  it('is validated as YAML or JSON, and nothing is stored', async () => {
    const text = 'name: looked-at\nbackend: llama\ncontext_size: 5\n'
    const looked = await validate(text)
    expect(looked).toMatchObject({ status: 200, body: { valid: true, config: { name: 'looked-at', context_size: 5, files: [] } } })
    const json = await validate('{"backend":"llama","context_size":5}', '?name=looked-at', 'application/json')
    expect(json.body).toEqual(looked.body)
    expect((await world.api().get('/api/models/looked-at')).status).toBe(404)
    expect((await yaml('looked-at', text)).body['revision']).toBe(looked.body['revision'])
  })

  it('of LocalAI is reported key by key, also when it is refused', async () => {
    expect((await validate('name: x\nbackend: whisper\nthreads: 2\nusage: u')).body).toMatchObject({
      valid: true,
      config: { parameters: { threads: 2 } },
      keys: [
        { key: 'name' },
        { key: 'backend' },
        { key: 'threads', outcome: 'carried', to: 'parameters.threads' },
        { outcome: 'no_effect', to: null },
      ],
    })
    expect((await validate('name: x\nbackend: whisper\nalias: y')).body).toMatchObject({
      valid: false,
      problems: [{ key: 'alias', line: 3 }],
      keys: [{ key: 'name' }, { key: 'backend' }, { key: 'alias', outcome: 'refused' }],
    })
    expect((await validate('name: x\nbackend: llama')).body).not.toHaveProperty('keys')
    expect((await validate('name: x\nbackend: llama', '?from=localai')).body).toMatchObject({ config: { backend: 'llama-cpp' } })
  })

  it.each([
    ['an unknown key', 'name: x\nbackend: llama\ncontext_sise: 5', { line: 3, key: 'context_sise', closest: 'context_size' }],
    ['no name', 'backend: llama', { key: 'name' }],
    ['something that is not YAML', 'name: x\nbackend: [', { line: 2 }],
    ['a list', '- a', { key: '' }],
    ['nothing', '', { key: '' }],
  ])('says what is wrong, and where: %s', async (_, text, problem) => {
    expect(await validate(text)).toMatchObject({ status: 200, body: { valid: false, problems: [problem] } })
  })

  it('is held to the name it is meant for, and to the size that is kept', async () => {
    expect((await validate('name: a\nbackend: llama', '?name=b')).body).toMatchObject({
      valid: false,
      problems: [{ line: 1, key: 'name' }],
    })
    const message = expect.stringContaining('at most') as string
    expect((await validate(`name: a\n#${'x'.repeat(1_100_000)}`)).body).toMatchObject({ valid: false, problems: [{ message }] })
    expect((await validate('#'.repeat(9 * 2 ** 20))).status).toBe(413)
    expect((await validate('x', '', 'text/html')).status).toBe(415)
  })
})

it('scheduling changes nothing of its meaning, and is refused as strictly', async () => {
  const { body } = await world.api().put('/api/models/scheduled', { backend: 'llama' })
  const put = (scheduling: object) => world.api().put('/api/models/scheduled/scheduling', scheduling)
  expect(await put({ min_replicas: 2, max_replicas: 4 })).toMatchObject({
    ...{
      status: 200,
      body: { revision: body['revision'], replicas_desired: 2, config: { scheduling: { min_replicas: 2, max_replicas: 4 } } },
    },
  })
  for (const wrong of [{ min_replicas: 5, max_replicas: 4 }, { replicas: 'all', min_replicas: 1 }, { minimum: 1 }, { policy: 'random' }])
    expect((await put(wrong)).status).toBe(400)
  expect((await world.api().put('/api/models/nobody/scheduling', {})).status).toBe(404)
  const preview = (name: string, scheduling: object) => world.api().post(`/api/models/${name}/placement`, { scheduling })
  expect((await preview('scheduled', { min_replicas: 5, max_replicas: 4 })).status).toBe(400)
  expect((await preview('nobody', {})).status).toBe(404)
})

it('is published to all listeners on every controller', async () => {
  await using reader = await readEvents(world.api(1))
  await world.api().put('/api/models/told', { backend: 'llama' })
  const seen = await reader.until('the model', ({ event, data }) => event === 'model' && data['name'] === 'told')
  expect(seen.data).toMatchObject({ name: 'told', state: 'unloaded', replicas_desired: 0 })
})
