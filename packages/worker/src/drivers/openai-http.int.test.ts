// The gateway and the openai-http driver in front of real processes.
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { connect, createServer as createTcpServer, type Server } from 'node:net'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { FleetError } from '@muster/protocol'
import { boundMs, scriptedBackend, waitFor, type ScriptedAnswer, type ScriptedLife, type ScriptedState } from '@muster/testkit'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  ask,
  chat,
  driverClock,
  openServingWorld,
  readText,
  specOf,
  tokenFor,
  type ServedReplica,
  type ServingWorld,
} from '../../test/serving-world.ts'
import { BackendDescription } from '../storage/unpack/tree-manifest.ts'
import type { BackendAddress, ReplicaSpec } from './driver.ts'
import { createOpenAiHttpDriver } from './openai-http.ts'

const driver = createOpenAiHttpDriver({ clock: driverClock })
const description = BackendDescription.parse(JSON.parse(await readFile(join(scriptedBackend, 'backend.json'), 'utf8')))
let world: ServingWorld
let shared: ServedReplica
let count = 0

const scripted = (options: ScriptedLife & ScriptedAnswer = {}, over: Partial<ReplicaSpec> = {}): ReplicaSpec => ({
  ...specOf(`r-${++count}`, { directory: scriptedBackend, description, options, contextSize: 77, modelPath: '/models/x.gguf' }),
  ...over,
})
const told = (how: ScriptedAnswer): string => `scripted ${JSON.stringify(how)}`
const streamed = (how: ScriptedAnswer) => chat(told(how), { stream: true })

async function stateOf({ spec }: Pick<ServedReplica, 'spec'>): Promise<ScriptedState> {
  const answer = await ask(world, { replica: spec.replicaId, path: '/scripted/state', method: 'GET' })
  return JSON.parse((await readText(answer)).text)
}

beforeAll(async () => {
  world = await openServingWorld(driver)
  shared = await world.serve(scripted())
})
afterAll(() => world[Symbol.asyncDispose]())

describe('starting', () => {
  const address: BackendAddress = { kind: 'tcp', host: '127.0.0.1', port: 9000 }
  const withCommand = (command: string[], env = {}): ReplicaSpec => ({
    ...scripted({ tokens: 1 }),
    description: { ...description, command, env },
  })

  it('SEC27 fills in the placeholders, and starts nothing but a file of the tree or Node', () => {
    expect(driver.launch(withCommand(['{node}', './x.mjs', '--addr={addr}']), address).argv).toEqual([
      process.execPath,
      './x.mjs',
      '--addr=127.0.0.1:9000',
    ])
    expect(driver.launch(withCommand(['./bin/run', '{model}']), address).argv).toEqual([join(scriptedBackend, 'bin/run'), '{model}'])
    for (const program of ['/bin/sh', '../sh', 'a/../../sh', '.'])
      expect(() => driver.launch(withCommand([program]), address)).toThrow(FleetError)
  })

  it('gives a unix socket to a command with {socket}', () => {
    const spec = withCommand(['./run', '--listen', '{socket}', '{addr}'])
    expect(driver.addressKind(spec)).toBe('unix')
    expect(driver.launch(spec, { kind: 'unix', path: '/run/a.sock' }).argv.slice(1)).toEqual([
      '--listen',
      '/run/a.sock',
      'unix:/run/a.sock',
    ])
    expect(driver.addressKind(withCommand(['./run', '{addr}']))).toBe('tcp')
  })

  it('sets the model variables over those of backend.json', () => {
    expect(driver.launch(withCommand(['./run'], { A: 'b', MUSTER_MODEL_NAME: 'other' }), address).env).toMatchObject({
      A: 'b',
      MUSTER_MODEL_NAME: 'm',
      MUSTER_MODEL_PATH: '/models/x.gguf',
      MUSTER_MODEL_OPTIONS: '{"tokens":1}',
      MUSTER_CONTEXT_SIZE: '77',
    })
  })
})

describe('becoming ready', () => {
  const watch = (signal = AbortSignal.timeout(10_000)) => ({ signal, onSign: () => undefined })

  it('waits for a process that is slow to listen', async () => {
    const spec = scripted({ start_delay_ms: 300 })
    const { address } = await world.start(spec)
    await driver.waitUntilReady(spec, address, watch())
    expect(await driver.recognizes(spec, address, AbortSignal.timeout(5_000))).toBe(true)
  })

  it('F2 is not ready while it answers 503, and the failure names it', async () => {
    const spec = scripted({ unhealthy: true })
    const { address } = await world.start(spec)
    await expect(driver.waitUntilReady(spec, address, watch(AbortSignal.timeout(1_500)))).rejects.toThrow(/did not become ready.*503/)
    expect(await driver.recognizes(spec, address, AbortSignal.timeout(5_000))).toBe(false)
  })

  it('F11 fails at once when it answers for another model', async () => {
    const spec = scripted({ claims_model: 'other' })
    const { address } = await world.start(spec)
    await expect(driver.waitUntilReady(spec, address, watch())).rejects.toThrow(/is not scripted with the model m.*"other"/)
    expect(await driver.recognizes(spec, address, AbortSignal.timeout(5_000))).toBe(false)
  })

  it('F10 does not accept another program at its port', async () => {
    const garbage = createTcpServer((socket) => socket.on('error', () => undefined).end('SSH-2.0-nothing\r\n')).listen(0, '127.0.0.1')
    await once(garbage, 'listening')
    const address = { kind: 'tcp', host: '127.0.0.1', port: portOf(garbage) } as const
    await expect(driver.waitUntilReady(scripted(), address, watch(AbortSignal.timeout(700)))).rejects.toMatchObject({
      failure: { code: 'unavailable' },
    })
    garbage.close()
  })
})

const portOf = (server: Server): number => {
  const bound = server.address()
  if (bound === null || typeof bound === 'string') throw new Error('no port')
  return bound.port
}

describe('a replica behind the gateway', () => {
  it('answers, and every response names it', async () => {
    const answer = await ask(world, { replica: shared.spec.replicaId, body: chat('hello') })
    expect(answer.statusCode).toBe(200)
    expect(answer.headers).toMatchObject({
      ...{ 'x-muster-replica': shared.spec.replicaId, 'x-muster-in-flight': '1' },
      'content-type': 'application/json',
    })
    const { text, isWhole } = await readText(answer)
    expect(isWhole).toBe(true)
    expect(JSON.parse(text)).toMatchObject({ model: 'm', scripted: { pid: shared.process.pid } })
  })

  it('streams, and passes errors of the backend unchanged', async () => {
    const answer = await ask(world, { replica: shared.spec.replicaId, body: streamed({ tokens: 3 }) })
    expect(answer.headers['content-type']).toBe('text/event-stream')
    expect((await readText(answer)).text).toMatch(/token-0.*token-1.*token-2.*data: \[DONE\]\n\n$/s)
    const refused = await ask(world, { replica: shared.spec.replicaId, body: chat(told({ status: 429, message: 'busy' })) })
    expect(refused.statusCode).toBe(429)
    expect(refused.headers).not.toHaveProperty('x-muster-refused')
    expect((await readText(refused)).text).toContain('busy')
  })

  it('is reached over a unix socket', async () => {
    const command = ['{node}', './server.mjs', '--addr', 'unix:{socket}']
    const replica = await world.serve(scripted({}, { description: { ...description, command } }))
    expect(replica.address.kind).toBe('unix')
    const answer = await ask(world, { replica: replica.spec.replicaId, body: chat('x') })
    expect((await readText(answer)).text).toContain('token-0')
  })

  it('sends the head of a response before the body', async () => {
    const answer = await ask(world, { replica: shared.spec.replicaId, body: streamed({ hang_after: 0 }) })
    expect(answer.statusCode).toBe(200)
    answer.destroy()
  })

  it('G5 I16 when the caller disconnects the backend is aborted within a second, and nothing stays in flight', async () => {
    const replica = await world.serve(scripted())
    const askers = Array.from({ length: 10 }, () => new AbortController())
    const answers = await Promise.all(
      askers.map(({ signal }) => ask(world, { replica: replica.spec.replicaId, body: streamed({ never_end: true }), signal })),
    )
    await once(answers[0] ?? expect.unreachable(), 'data')
    expect(world.inFlight()).toBe(10)
    const leftAt = performance.now()
    for (const each of askers) each.abort()
    await waitFor(async () => (await stateOf(replica)).aborted === 10, { what: 'the backend to notice' })
    expect(performance.now() - leftAt).toBeLessThan(boundMs(1_000))
    await waitFor(() => world.inFlight() === 0, { what: 'nothing in flight' })
    expect((await stateOf(replica)).running).toBe(0)
  })

  it('G5 a caller that disconnects before the response ends the work too', async () => {
    const replica = await world.serve(scripted())
    const asker = new AbortController()
    const answer = ask(world, { replica: replica.spec.replicaId, body: chat(told({ hang: true })), signal: asker.signal })
    await waitFor(async () => (await stateOf(replica)).running === 1, { what: 'it to work' })
    asker.abort()
    await expect(answer).rejects.toThrow(/abort/)
    await waitFor(async () => (await stateOf(replica)).aborted === 1, { what: 'the backend to notice', timeoutMs: boundMs(1_000) })
    expect(world.inFlight()).toBe(0)
  })

  it('G7 a process that dies before its first byte is unreachable', async () => {
    const replica = await world.serve(scripted())
    for (let round = 0; round < 2; round += 1) {
      const answer = await ask(world, { replica: replica.spec.replicaId, body: chat(told({ die: true })) })
      expect(answer.statusCode).toBe(502)
      expect(answer.headers).toMatchObject({ 'x-muster-refused': 'unreachable', 'x-muster-replica': replica.spec.replicaId })
      expect(JSON.parse((await readText(answer)).text)).toMatchObject({ error: { code: 'replica_unreachable' } })
    }
    expect(world.inFlight()).toBe(0)
  })

  it('G7 is unreachable also for a caller that sends a large body', async () => {
    const spec = scripted()
    world.admit(spec.replicaId, driver.connect(spec, await world.newAddress(spec)))
    const answer = await ask(world, { replica: spec.replicaId, body: Buffer.alloc(300_000, 'x') })
    expect(answer.headers['x-muster-refused']).toBe('unreachable')
  })

  it.each([
    ['G6 I18 dies', { die_after: 2 }],
    ['I18 cuts the connection', { cut_after: 2 }],
  ] as const)('a backend that %s in the middle leaves an answer that is visibly cut', async (_, how) => {
    const replica = await world.serve(scripted())
    const answer = await ask(world, { replica: replica.spec.replicaId, body: streamed({ tokens: 5, ...how }) })
    const { text, isWhole } = await readText(answer)
    expect(isWhole).toBe(false)
    expect(text).toContain('token-1')
    expect(text).not.toMatch(/token-2|\[DONE\]/)
    await waitFor(() => world.inFlight() === 0, { what: 'nothing in flight' })
  })

  it('a backend that does not speak HTTP is unreachable', async () => {
    const answer = await ask(world, { replica: shared.spec.replicaId, body: chat(told({ garbage: true })) })
    expect([answer.statusCode, answer.headers['x-muster-refused']]).toEqual([502, 'unreachable'])
  })

  it('I18 a response shorter than its length is visibly cut', async () => {
    const liar = createServer((_, response) => {
      response.writeHead(200, { 'content-length': 100 }).write('only this', () => response.destroy())
    }).listen(0, '127.0.0.1')
    await once(liar, 'listening')
    const spec = scripted()
    world.admit(spec.replicaId, driver.connect(spec, { kind: 'tcp', host: '127.0.0.1', port: portOf(liar) }))
    const answer = await ask(world, { replica: spec.replicaId, body: chat('x') })
    // Its health is cut as well: it is not even reached.
    expect((await readText(answer)).text).toContain('gave no answer')
    liar.close()
  })

  it('I18 a response without framing is refused: a crash would look the same', async () => {
    const bare = createTcpServer((socket) => {
      socket.on('error', () => undefined)
      socket.once('data', (asked) =>
        socket.end(`HTTP/1.1 200 OK\r\n${asked.includes('/health') ? 'content-length: 2\r\n\r\n{}' : '\r\nhalf of it'}`),
      )
    }).listen(0, '127.0.0.1')
    await once(bare, 'listening')
    const spec = scripted()
    world.admit(spec.replicaId, driver.connect(spec, { kind: 'tcp', host: '127.0.0.1', port: portOf(bare) }))
    const answer = await ask(world, { replica: spec.replicaId, body: chat('x') })
    expect(answer.statusCode).toBe(502)
    expect(answer.headers).not.toHaveProperty('x-muster-refused')
    expect((await readText(answer)).text).toContain('neither a length nor chunks')
    bare.close()
  })

  it('G17 a reader that does not read stops the backend, and memory stays bounded', async () => {
    const replica = await world.serve(scripted())
    const before = process.memoryUsage().rss
    const body = streamed({ tokens: 2_000, say: 'x'.repeat(100_000) })
    const answer = await ask(world, { replica: replica.spec.replicaId, body })
    answer.pause()
    let [last, looks] = [-1, 0]
    // 200 MB are to be said; it stops when the buffers between are full.
    const standsStill = (): boolean => {
      looks = answer.socket.bytesRead === last ? looks + 1 : 0
      last = answer.socket.bytesRead
      return looks >= 10
    }
    await waitFor(standsStill, { what: 'the stream to stand still' })
    expect(answer.socket.bytesRead).toBeLessThan(20_000_000)
    expect(process.memoryUsage().rss - before).toBeLessThan(100_000_000)
    expect(await stateOf(replica)).toMatchObject({ running: 1, answered: 0 })
    answer.destroy()
    await waitFor(async () => (await stateOf(replica)).aborted === 1, { what: 'the backend to notice' })
  })

  it('G17 a large body is sent as fast as the backend reads', async () => {
    const padding = 'x'.repeat(3_000_000)
    const answer = await ask(world, { replica: shared.spec.replicaId, body: chat('hello', { padding }) })
    expect(answer.statusCode).toBe(200)
    const chunked = await ask(world, { replica: shared.spec.replicaId, body: chat('hello'), headers: { 'transfer-encoding': 'chunked' } })
    expect(chunked.statusCode).toBe(200)
  })

  it('G17 a backend that answers before it has read the body leaves the connection usable', async () => {
    const hasty = createTcpServer((socket) => {
      socket.on('error', () => undefined)
      socket.on('data', (asked) => {
        if (asked.includes('/health')) return void socket.write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}')
        socket.pause()
        socket.write('HTTP/1.1 413 Too Large\r\ncontent-length: 3\r\n\r\nbig')
      })
    }).listen(0, '127.0.0.1')
    await once(hasty, 'listening')
    const spec = scripted()
    world.admit(spec.replicaId, driver.connect(spec, { kind: 'tcp', host: '127.0.0.1', port: portOf(hasty) }))
    const socket = connect(world.gateway.port, '127.0.0.1')
    let answered = ''
    socket.on('data', (data) => (answered += data.toString('latin1'))).on('error', () => undefined)
    const head = `POST /replicas/${spec.replicaId}/x HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${tokenFor(spec.replicaId)}\r\n`
    socket.write(`${head}content-length: 20000000\r\n\r\n`)
    socket.write(Buffer.alloc(20_000_000, 'x'))
    socket.write('GET /version HTTP/1.1\r\nhost: x\r\n\r\n')
    await waitFor(() => answered.includes('"version"'), { what: 'the next answer on the same connection' })
    expect(answered).toMatch(/^HTTP\/1\.1 413 /)
    expect(world.inFlight()).toBe(0)
    socket.destroy()
    hasty.close()
  })

  it('20 streams at once are each whole', async () => {
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, at) =>
        ask(world, { replica: shared.spec.replicaId, body: streamed({ tokens: 30, say: `s${at} `, delay_ms: 1 }) }),
      ),
    )
    const texts = await Promise.all(answers.map(readText))
    texts.forEach(({ text, isWhole }, at) => {
      expect(isWhole).toBe(true)
      expect(text.match(new RegExp(`"content":"s${at} "`, 'g'))).toHaveLength(30)
      expect(text.endsWith('data: [DONE]\n\n')).toBe(true)
    })
  })
})

it('G21 1,200 streams are open at once, other requests are served meanwhile, and all of them end', async () => {
  const replica = await world.serve(scripted())
  const leaving = new AbortController()
  const body = streamed({ hang_after: 1 })
  const asked = Array.from({ length: 1_200 }, () => ask(world, { replica: replica.spec.replicaId, body, signal: leaving.signal }))
  const answers = await Promise.all(asked)
  expect(answers.every(({ statusCode }) => statusCode === 200)).toBe(true)
  expect(world.inFlight()).toBe(1_200)
  expect((await ask(world, { replica: replica.spec.replicaId, body: chat('x') })).statusCode).toBe(200)
  leaving.abort()
  await waitFor(async () => (await stateOf(replica)).aborted === 1_200, { what: 'all of them to end' })
  expect(world.inFlight()).toBe(0)
})

describe('F10 I14 another process at its address', () => {
  it('gets no request: a port that another process took', async () => {
    const replica = await world.serve(scripted())
    expect((await ask(world, { replica: replica.spec.replicaId, body: chat('x') })).statusCode).toBe(200)
    replica.process.kill('SIGKILL')
    await replica.process.exited
    const other = scripted({}, { model: specOf('x', { directory: scriptedBackend, description, model: 'another' }).model })
    await world.start(other, replica.address)
    await driver.waitUntilReady(other, replica.address, { signal: AbortSignal.timeout(10_000), onSign: () => undefined })
    const answer = await ask(world, { replica: replica.spec.replicaId, body: chat('secret words') })
    expect([answer.statusCode, answer.headers['x-muster-refused']]).toEqual([502, 'unreachable'])
    expect((await readText(answer)).text).toContain('another')
    const direct = driver.connect(other, replica.address)
    world.admit(other.replicaId, direct)
    expect(await stateOf({ spec: other })).toMatchObject({ requests: 0 })
  })

  it('gets no request: a program without an identity where one had it', async () => {
    const replica = await world.serve(scripted())
    expect((await ask(world, { replica: replica.spec.replicaId, body: chat('x') })).statusCode).toBe(200)
    replica.process.kill('SIGKILL')
    await replica.process.exited
    let asked = 0
    const other = createServer((request, response) => {
      if (request.url !== '/health') asked += 1
      response.end('ok')
    })
    if (replica.address.kind === 'tcp') other.listen(replica.address.port, '127.0.0.1')
    await once(other, 'listening')
    const answer = await ask(world, { replica: replica.spec.replicaId, body: chat('secret words') })
    expect(answer.headers['x-muster-refused']).toBe('unreachable')
    expect(asked).toBe(0)
    other.close()
  })
})

describe('I14 SEC19 tokens', () => {
  it.each([
    ['none', { token: '' }],
    ['of another replica', { token: tokenFor('r-other') }],
    ['of another node', { token: tokenFor('r-1', { nodeId: 'n-2' }) }],
    ['with another secret', { token: tokenFor('r-1', { secret: 'b'.repeat(64) }) }],
    ['the secret itself', { token: 'a'.repeat(64) }],
  ])('refuses %s, twice, without reading on', async (_, { token }) => {
    for (let round = 0; round < 2; round += 1) {
      const before = await stateOf(shared)
      const answer = await ask(world, { replica: 'r-1', body: chat('x'), token })
      expect(answer.statusCode).toBe(401)
      expect(answer.headers['connection']).toBe('close')
      expect((await stateOf(shared)).requests).toBe(before.requests)
    }
  })

  it('reports gone and draining, each only for a valid token', async () => {
    const gone = await ask(world, { replica: 'r-gone', body: chat('x') })
    expect([gone.statusCode, gone.headers['x-muster-refused'], gone.headers['x-muster-replica']]).toEqual([404, 'gone', 'r-gone'])
    world.admit('r-draining', 'draining')
    const draining = await ask(world, { replica: 'r-draining', body: chat('x') })
    expect([draining.statusCode, draining.headers['x-muster-refused']]).toEqual([503, 'draining'])
    expect((await ask(world, { replica: 'r-gone', body: chat('x'), token: 'bad' })).headers).not.toHaveProperty('x-muster-refused')
  })
})

describe('bytes', () => {
  it('G19 pass unchanged, and headers of the connection do not', async () => {
    const said = Buffer.concat([
      Buffer.from('data: {"a":"\u00e4'),
      Buffer.from([0xff, 0xfe, 0x00, 0xe2, 0x82]),
      Buffer.from('\r\ndata:\u0000x\n\n: comment\r\n\r\n'),
      Buffer.alloc(100_000, 'y'),
    ])
    const seen: { headers: Record<string, unknown>; body: Buffer; url: string }[] = []
    const answer207 = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
      seen.push({ headers: request.headers, url: request.url ?? '', body: Buffer.concat(await Array.fromAsync(request)) })
      response.writeHead(207, { 'X-Custom': 'Yes', 'Set-Cookie': 'a=b', 'x-muster-refused': 'gone', 'x-muster-replica': 'forged' })
      for (let at = 0; at < said.length; at += 9_973) response.write(said.subarray(at, at + 9_973))
      response.end()
    }
    const backend = createServer((request, response) => {
      if (request.url === '/health') response.end()
      else void answer207(request, response)
    }).listen(0, '127.0.0.1')
    await once(backend, 'listening')
    const spec = scripted()
    world.admit(spec.replicaId, driver.connect(spec, { kind: 'tcp', host: '127.0.0.1', port: portOf(backend) }))
    const body = Buffer.from([0, 255, 13, 10, 0xc3])
    const answer = await ask(world, {
      replica: spec.replicaId,
      path: '/v1/x/%2e%2e/y?a=%20b&c',
      method: 'PATCH',
      body,
      headers: { cookie: 'muster=1', 'X-Odd': '\u00e9', connection: 'keep-alive, x-hop', 'x-hop': '1' },
    })
    const chunks: Buffer[] = await Array.fromAsync(answer)
    expect(Buffer.concat(chunks).equals(said)).toBe(true)
    expect(answer.statusCode).toBe(207)
    expect(answer.headers).toMatchObject({ 'x-custom': 'Yes', 'x-muster-replica': spec.replicaId })
    for (const name of ['set-cookie', 'x-muster-refused']) expect(answer.headers).not.toHaveProperty(name)
    expect(seen).toHaveLength(1)
    expect(seen[0]).toMatchObject({ url: '/v1/x/%2e%2e/y?a=%20b&c', headers: { 'content-length': '5', 'x-odd': '\u00e9' } })
    expect(seen[0]?.body.equals(body)).toBe(true)
    for (const name of ['authorization', 'cookie', 'x-hop']) expect(seen[0]?.headers).not.toHaveProperty(name)
    backend.close()
  })

  const head = `POST /replicas/r-1/v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${tokenFor('r-1')}\r\n`
  it.each([
    ['two ways to tell its length', `${head}content-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\nGET /x HTTP/1.1\r\n\r\n`],
    ['two lengths', `${head}content-length: 4\r\ncontent-length: 5\r\n\r\nabcde`],
    ['a length that is no number', `${head}content-length: +4\r\n\r\nabcd`],
    ['a folded header', `${head}x: a\r\n b\r\n: c\r\ncontent-length: 0\r\n\r\n`],
    ['chunked in disguise', `${head}transfer-encoding: xchunked\r\n\r\n0\r\n\r\n`],
    ['chunked not last', `${head}transfer-encoding: chunked, identity\r\n\r\n0\r\n\r\n`],
    ['a bare line feed', `${head}x: a\n\ncontent-length: 0\r\n\r\n`],
  ])('G20 a request with %s is refused and its connection closed', async (_, raw) => {
    const before = (await stateOf(shared)).requests
    const socket = connect(world.gateway.port, '127.0.0.1')
    socket.on('error', () => undefined)
    let answered = ''
    socket.on('data', (data) => (answered += data.toString('latin1')))
    socket.write(raw)
    await once(socket, 'close')
    expect(answered).toMatch(/^HTTP\/1\.1 400 /)
    expect(answered.match(/HTTP\/1\.1/g)).toHaveLength(1)
    expect((await stateOf(shared)).requests).toBe(before)
  })

  it('G20 an endless chunk extension is cut off', async () => {
    const socket = connect(world.gateway.port, '127.0.0.1')
    socket.on('error', () => undefined)
    socket.write(`${head}transfer-encoding: chunked\r\n\r\n1;${'x'.repeat(20_000)}\r\na\r\n`)
    let answered = ''
    socket.on('data', (data) => (answered += data.toString('latin1')))
    await once(socket, 'close')
    expect(answered).toMatch(/^HTTP\/1\.1 413 |^$/)
  })

  it('takes HTTP/1.1 only: without chunks a cut response would look complete', async () => {
    const socket = connect(world.gateway.port, '127.0.0.1')
    socket.write(`${head.replace('HTTP/1.1', 'HTTP/1.0')}content-length: 2\r\n\r\n{}`)
    const [data] = await once(socket, 'data')
    expect(String(data)).toMatch(/ 505 /)
    socket.destroy()
  })

  it('requests no body before the caller is authorized', async () => {
    const expecting = (token: string): string =>
      `POST /replicas/r-1/v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${token}\r\nexpect: 100-continue\r\ncontent-length: 5\r\n\r\n`
    for (const [token, want] of [
      ['bad', /^HTTP\/1\.1 401 /],
      [tokenFor('r-1'), /^HTTP\/1\.1 100 /],
    ] as const) {
      const socket = connect(world.gateway.port, '127.0.0.1')
      socket.write(expecting(token))
      const [data] = await once(socket, 'data')
      expect(String(data)).toMatch(want)
      socket.destroy()
    }
  })
})
