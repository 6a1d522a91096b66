// Faults between a request and its answer, and the errors that the client gets.
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { mkdir, readdir, rm, stat, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { connect } from 'node:net'
import { join } from 'node:path'
import { boundMs, waitFor, type ScriptedAnswer, type ScriptedLife } from '@muster/testkit'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { scriptedOf, startFleet, type Fleet } from './fleet-world.ts'

let world: Fleet
beforeAll(async () => {
  world = await startFleet({ postgresUrl: inject('postgresUrl'), args: ['--model-load-wait', '20s', '--op-stall-timeout', '4s'] })
})
afterAll(() => world[Symbol.asyncDispose]())

const errorOf = (body: Record<string, unknown>) => body['error'] as { code: string; type: string; message: string }

describe('a model that does not come up', () => {
  it.each<[string, ScriptedLife, RegExp]>([
    ['F1 crashes at its start', { crash_at_start: 'CUDA error: out of memory' }, /CUDA error: out of memory/],
    ['F1 is killed by a signal at its start', { crash_at_start: 'dying', crash_signal: 'SIGSEGV' }, /SIGSEGV/],
    ['F11 says that it serves another model', { claims_model: 'somebody-else' }, /somebody-else/],
  ])('G4 that %s: 503 with the cause, to everybody who waited', async (title, life, cause) => {
    const name = createHash('sha256').update(title).digest('hex').slice(0, 12)
    await world.putModel(name, life)
    const refused = await Promise.all(Array.from({ length: 5 }, () => world.ask(name)))
    for (const { status, body, headers } of refused) {
      expect(status).toBe(503)
      expect(errorOf(body)).toMatchObject({ code: 'model_load_failed', type: 'model_load_failed', message: expect.stringMatching(cause) })
      expect(Number(headers.get('retry-after'))).toBeGreaterThan(0)
    }
    const model = await world.model(name)
    expect(model.failure?.message).toMatch(cause)
    // Nobody hammers: what failed is told at once until its next try.
    const began = performance.now()
    expect((await world.ask(name)).status).toBe(503)
    expect(performance.now() - began).toBeLessThan(boundMs(2_000))
    await world.api.delete(`/api/models/${name}`)
  })

  it.each<[string, (file: string, size: number) => Promise<unknown>]>([
    ['was deleted', (file) => rm(file)],
    ['was changed', (file, size) => writeFile(file, '#'.repeat(size))],
  ])('S3.16 because a file of its backend %s: the backend is repaired, and the model serves', async (how, damage) => {
    await world.putModel('before')
    expect((await world.ask('before')).status).toBe(200)
    const found = (await readdir(world.directory, { recursive: true })).filter((path) => /trees\/.*\/server\.mjs$/.test(path))
    expect(found).toHaveLength(1)
    const file = join(world.directory, found[0] ?? '')
    await damage(file, (await stat(file)).size)
    const name = `after-it-${how.replaceAll(' ', '-')}`
    await world.putModel(name)
    await waitFor(async () => (await world.ask(name)).status === 200, { what: `an answer of ${name}`, timeoutMs: 60_000 })
    for (const each of ['before', name]) await world.api.delete(`/api/models/${each}`)
  })

  it('G4 whose file has another hash than configured: never retried automatically', async () => {
    const models = join(world.directory, 'models')
    await mkdir(models, { recursive: true })
    await writeFile(join(models, 'weights.bin'), 'not what was promised')
    await using served = await serveFile(join(models, 'weights.bin'))
    await world.putModel(
      'wrong-hash',
      {},
      { parameters: { model: 'weights.bin' }, files: [{ uri: served.url, filename: 'weights.bin', sha256: 'a'.repeat(64) }] },
    )
    const refused = await world.ask('wrong-hash')
    expect(refused.status).toBe(503)
    expect(errorOf(refused.body).code).toBe('model_load_failed')
    expect(errorOf(refused.body).message).toMatch(/weights\.bin/)
    expect((await world.model('wrong-hash')).failure).toMatchObject({
      code: expect.stringMatching(/integrity|invalid/),
      next_retry_at: null,
    })
  })

  it('names a backend that no gallery has', async () => {
    await world.putModel('no-backend', {}, { backend: 'no-such-backend' })
    const refused = await world.ask('no-backend')
    expect(refused.status).toBe(503)
    expect(errorOf(refused.body).message).toContain('no-such-backend')
    const placement = await world.api.get('/api/models/no-backend/placement')
    expect(placement.body['nodes']).toMatchObject([
      { node_name: 'one', eligible: false, reason: expect.stringContaining('no-such-backend') },
    ])
  })

  it('a placement is previewed with another scheduling, and nothing is stored', async () => {
    await world.putModel('previewed')
    const path = '/api/models/previewed/placement'
    const preview = await world.api.post(path, { scheduling: { node_selector: { gpu: 'yes' } } })
    expect(preview).toMatchObject({ status: 200, body: { nodes: [{ node_name: 'one', eligible: false, excluded_by: 'selector' }] } })
    const now = await world.api.get(path)
    expect(now.body).toMatchObject({ nodes: [{ node_name: 'one', eligible: true }] })
    expect((await world.api.post(path, { scheduling: {} })).body).toEqual(now.body)
  })
})

describe('an answer that goes wrong', () => {
  beforeAll(async () => {
    await world.putModel('bad')
    scriptedOf(await world.ask('bad'))
  })

  it.each<[string, ScriptedAnswer, number, RegExp]>([
    ['refuses', { status: 400, message: 'temperature is too hot' }, 400, /temperature is too hot/],
    ['is busy', { status: 503, message: 'busy' }, 503, /busy/],
    ['is no HTTP', { garbage: true }, 502, /bad/],
  ])('the backend %s', async (_, script, status, message) => {
    const answer = await world.ask('bad', script)
    expect(answer.status).toBe(status)
    expect(answer.text).toMatch(message)
  })

  it.each<[string, ScriptedAnswer]>([
    ['the connection is cut', { tokens: 10, cut_after: 3 }],
    ['the answer ends too early', { tokens: 10, end_after: 3 }],
  ])('I18 a stream of which %s has no false end', async (_, script) => {
    const { text } = await world.stream('bad', script)
    expect(text).toContain('token-2')
    expect(text).not.toContain('[DONE]')
    if (script.cut_after !== undefined) expect(text).toMatch(/\n\ndata: \{"error":/)
  })

  it('answers after long silence are waited for', async () => {
    expect(scriptedOf(await world.ask('bad', { answer_after_ms: 6_000 })).model).toBe('bad')
  })

  it('F12 W24 a busy backend is not a dead one', async () => {
    const { replica_id } = scriptedOf(await world.ask('bad', { block_ms: 8_000 }))
    expect(scriptedOf(await world.ask('bad')).replica_id).toBe(replica_id)
  })

  it('G17 a client that never reads delays only its own stream', async () => {
    const { port } = new URL(world.api.url)
    const body = JSON.stringify({
      model: 'bad',
      stream: true,
      messages: [{ role: 'user', content: `scripted ${JSON.stringify({ never_end: true, delay_ms: 0, say: 'x'.repeat(4_000) })}` }],
    })
    const socket = connect({ port: Number(port), host: '127.0.0.1' })
    socket.pause()
    socket.write(
      `POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1:${port}\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
    )
    await waitFor(async () => (await world.replicas('bad')).some(({ in_flight }) => in_flight === 1), {
      what: 'the stream',
    })
    for (let i = 0; i < 20; i += 1) expect((await world.ask('bad')).status).toBe(200)
    socket.destroy()
    await waitFor(async () => (await world.replicas('bad')).every(({ in_flight }) => in_flight === 0), {
      what: 'the stream to be over',
    })
  })
})

async function serveFile(path: string) {
  const server = createServer((_, response) => void createReadStream(path).pipe(response))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('not listening on a port')
  return {
    url: `http://127.0.0.1:${address.port}/weights.bin`,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
