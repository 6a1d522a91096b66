// A LocalAI image, from a gallery to an answer: installed, started and loaded on the first request.
import { pathToFileURL } from 'node:url'
import { copyLocalAiBackend, makeTempDir, waitFor, type LocalAiScript } from '@muster/testkit'
import { afterAll, beforeAll, expect, inject, it } from 'vitest'
import { startFleet, type Fleet } from '../fleet/fleet-world.ts'

let fleet: Fleet
const ending = new AsyncDisposableStack()

beforeAll(async () => {
  const directory = ending.use(await makeTempDir('localai'))
  await copyLocalAiBackend(`${directory.path}/image`)
  const gallery = [{ name: 'local-ai', uri: pathToFileURL(`${directory.path}/image`).href }]
  fleet = ending.use(await startFleet({ postgresUrl: inject('postgresUrl'), gallery }))
})
afterAll(() => ending.disposeAsync())

const put = (name: string, options: LocalAiScript = {}) =>
  fleet.putModel(name, {}, { backend: 'local-ai', options, parameters: { max_tokens: 50 } })
const ask = (model: string, script: LocalAiScript, more: object = {}) =>
  fleet.api.post('/v1/chat/completions', { model, messages: [{ role: 'user', content: `scripted ${JSON.stringify(script)}` }], ...more })

it('is served whole, streamed and as embeddings', async () => {
  await put('gguf')
  const cold = await ask('gguf', { tokens: 2 })
  expect(cold.status, cold.text).toBe(200)
  expect(cold.body).toMatchObject({
    model: 'gguf',
    choices: [{ message: { content: 'token-0 token-1 ' } }],
    usage: { completion_tokens: 2 },
  })
  const streamed = await ask('gguf', { tokens: 1, say: 'grüße 🦙', split: true }, { stream: true })
  expect(streamed.text).toContain('data: [DONE]')
  expect(streamed.text).not.toContain('\ufffd')
  const embedded = await fleet.api.post('/v1/embeddings', { model: 'gguf', input: ['ab', 'abc'] })
  expect(embedded.body).toMatchObject({ data: [{ embedding: [2, 0.5, -1] }, { embedding: [3, 0.5, -1] }] })
})

it('that cannot load its model fails with its own message', async () => {
  await put('broken', { refuse_load: 'no such tensor' })
  const refused = await ask('broken', {})
  expect(refused.status).toBe(503)
  expect(refused.text).toContain('no such tensor')
  expect(await fleet.model('broken')).toMatchObject({ state: 'failed', failure: { message: expect.stringContaining('no such tensor') } })
})

it('I18 that dies in the middle ends with an error, and is there again for the next', async () => {
  await put('mortal')
  expect((await ask('mortal', {})).status).toBe(200)
  const cut = await ask('mortal', { tokens: 5, delay_ms: 5, die_after: 2 }, { stream: true }).catch((error: unknown) => ({
    text: String(error),
  }))
  expect(cut.text).not.toContain('[DONE]')
  await waitFor(async () => (await ask('mortal', {})).status === 200, { what: 'it to be served again' })
})

it('with Go templates gets the prompt that they render; a parameter without effect is in its log', async () => {
  const script = { tell: 'request' } as const
  await fleet.putModel(
    'templated',
    {},
    {
      backend: 'local-ai',
      options: ['a=b', 'word'],
      parameters: { stop: ['</s>'], odd: 1 },
      roles: { user: 'User: ' },
      template: { chat: '{{.Input}}\nAssistant:' },
    },
  )
  const answer = await ask('templated', script, { stop: ['x'] })
  expect(answer.status, answer.text).toBe(200)
  expect(JSON.parse(JSON.parse(answer.text).choices[0].message.content)).toMatchObject({
    Prompt: `User: scripted ${JSON.stringify(script)}\nAssistant:`,
    StopPrompts: ['</s>', 'x'],
  })
  const [replica] = JSON.parse((await fleet.api.get('/api/models/templated/replicas')).text).replicas
  const logs = await fleet.api.get(`/api/nodes/${replica.node_id}/logs?model=templated`)
  expect(logs.text).toContain('muster: local-ai has no field for parameters odd: they have no effect')
})
