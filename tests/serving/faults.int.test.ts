// Faults between a client and a backend: the client gets an honest error, and no truncated answer looks complete.
import { connect, type Socket } from 'node:net'
import { request as httpRequest, type IncomingMessage } from 'node:http'
import { createLog } from '@muster/host'
import OpenAI from 'openai'
import { adminKey, boundMs, waitFor } from '@muster/testkit'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startServingWorld, type ServingWorld } from './serving-world.ts'
import { answerJson, chunkOf, completion, startStubGateway, type StubGateway } from './stub-gateway.ts'

let world: ServingWorld
let node: StubGateway
let replica: string
const logged: string[] = []

beforeAll(async () => {
  world = await startServingWorld({ flags: { 'expose-routing': true }, log: recordingLog() })
  node = await world.addNode('gpu-1')
  await world.addModel('tiny')
  replica = await world.addReplica('tiny', node)
  await waitFor(async () => (await world.chat('tiny')).status === 200, { what: 'the first answer' })
})
afterAll(() => world[Symbol.asyncDispose]())

function recordingLog() {
  return createLog({ level: 'debug', format: 'json', stream: { write: (line: string) => void logged.push(line) } })
}
const client = () => new OpenAI({ baseURL: `${world.controller.url}/v1`, apiKey: 'none', maxRetries: 0 })
/** One request on a connection of its own; everything that comes back, and whether the connection ended. */
function raw(text: string): { socket: Socket; got: () => string; ended: Promise<void> } {
  const socket = connect(Number(new URL(world.controller.url).port), '127.0.0.1')
  let got = ''
  socket.on('data', (chunk: Buffer) => (got += chunk.toString('latin1')))
  socket.on('error', () => undefined)
  const ended = new Promise<void>((resolve) => socket.on('close', () => resolve()))
  socket.write(text)
  return { socket, got: () => got, ended }
}
function rawPost(body: string, headers = ''): ReturnType<typeof raw> {
  return raw(`POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: ${Buffer.byteLength(body)}\r\n${headers}\r\n${body}`)
}
const inFlight = async (): Promise<number> =>
  Number(/^muster_inference_in_flight(?:\{[^}]*\})? (\d+)$/m.exec((await world.controller.api.get('/metrics')).text)?.[1] ?? 0)

describe('a backend that breaks off', () => {
  it('G6 I18 in the middle of a stream: an error event on a line of its own, the end of the connection, and no [DONE]', async () => {
    for (const last of [chunkOf('two'), 'data: {"half', 'data: {}\n', 'data: {}\r\n\r\n']) {
      node.behave(replica, (_, response) => {
        response.writeHead(200, { 'content-type': 'text/event-stream' })
        response.write(chunkOf('one'))
        response.write(last, () => setImmediate(() => response.socket?.resetAndDestroy()))
      })
      const { got, ended } = rawPost('{"model":"tiny","stream":true}')
      await ended
      const text = got()
      expect(text).toContain('one')
      expect(text).toContain(last.trimEnd())
      expect(text).not.toContain('[DONE]')
      expect(text, 'the last chunk says that it is whole').not.toMatch(/\r\n0\r\n\r\n$/)
      const event = /(?:\n\n|\r\n\r\n|\n\r?\n)data: (\{"error".*\})\n\n/.exec(text.replaceAll(/\r\n[0-9a-f]+\r\n/g, ''))?.[1]
      expect(JSON.parse(event ?? 'null')).toMatchObject({
        error: { type: 'server_error', code: 'backend_cut', message: expect.stringMatching(/broke off/) },
      })
    }
    expect(node.requests.length).toBeGreaterThan(0)
  })

  it('in the middle of a stream, after an error of its own: the client gets that error, and no other', async () => {
    node.behave(replica, (_, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.write(`${chunkOf('one')}data: {"error":{"message":"CUDA out of memory"}}\n\n`, () =>
        setImmediate(() => response.socket?.resetAndDestroy()),
      )
    })
    const { got, ended } = rawPost('{"model":"tiny","stream":true}')
    await ended
    expect(got()).toContain('CUDA out of memory')
    expect(got()).not.toMatch(/backend_cut|\[DONE\]|\r\n0\r\n\r\n$/)
  })

  it("G6 which OpenAI's client throws as an error", async () => {
    node.behave(replica, (_, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.write(chunkOf('one'), () => setImmediate(() => response.socket?.resetAndDestroy()))
    })
    const stream = await client().chat.completions.create({ model: 'tiny', messages: [], stream: true })
    const seen: unknown[] = []
    const reading = (async () => {
      for await (const chunk of stream) seen.push(chunk.choices[0]?.delta.content)
    })()
    await expect(reading).rejects.toThrow(/broke off/)
    expect(seen).toEqual(['one'])
  })

  it('in the middle of a whole answer: the connection is cut', async () => {
    node.behave(replica, (_, response) => {
      response.writeHead(200, { 'content-type': 'application/json', 'content-length': '1000' })
      response.write('{"half":', () => setImmediate(() => response.socket?.resetAndDestroy()))
    })
    await expect(world.chat('tiny').then((response) => response.text())).rejects.toThrow()
  })

  it('G7 before its first byte, with no other replica: 502 with the reason after one more attempt', async () => {
    // Without the probes of a replica that failed before.
    const count = (): number => node.requests.filter(({ body }) => body.includes('hello')).length
    const before = count()
    node.behave(replica, (_, response) => void response.socket?.resetAndDestroy())
    const response = await world.chat('tiny')
    expect([response.status, response.headers.get('retry-after')]).toEqual([502, '1'])
    expect(await response.json()).toMatchObject({
      error: { type: 'model_unreachable', message: expect.stringMatching(/no replica of model tiny answered/) },
    })
    expect(count() - before).toBe(2)
  })

  it('G7 after its headers and before its first byte: another replica answers', async () => {
    const other = await world.addNode('other')
    await world.addModel('late')
    const bad = await world.addReplica('late', node)
    const good = await world.addReplica('late', other)
    node.behave(bad, (_, response) => {
      response.writeHead(200, { 'content-type': 'application/json', 'content-length': '1000' })
      response.flushHeaders()
      setImmediate(() => response.socket?.resetAndDestroy())
    })
    await waitFor(async () => (await world.chat('late')).headers.get('x-muster-replica') === good, { what: 'the good one to answer' })
    const answers = await Promise.all(Array.from({ length: 20 }, () => world.chat('late')))
    expect(answers.map((answer) => answer.status)).toEqual(answers.map(() => 200))
    await Promise.all(answers.map((answer) => answer.text()))
  })
})

it('a machine that vanishes: its requests end or are answered elsewhere within 15 s, and a slow engine keeps its own', async () => {
  const [vanishing, other] = [await world.addNode('vanishing'), await world.addNode('other-machine')]
  const [cut = '', moved = ''] = [...(await world.serve('cut', [vanishing])), ...(await world.serve('moved', [vanishing]))]
  await world.serve('slow', [other])
  vanishing.behave(cut, (_, response) => void response.writeHead(200, { 'content-type': 'text/event-stream' }).write(chunkOf('one')))
  vanishing.behave(moved, () => undefined)
  const slow = Promise.withResolvers<void>()
  other.behaveUnlessTold(async (request, response) => {
    await slow.promise
    await answerJson(completion('late'))(request, response)
  })
  const open = (node_: StubGateway): number => node_.requests.length
  const stream = rawPost('{"model":"cut","stream":true}')
  const late = world.chat('slow')
  const elsewhere = world.chat('moved')
  await waitFor(() => open(vanishing) === 2 && open(other) === 1 && stream.got().includes('one'), { what: 'all three requests' })
  const good = await world.addReplica('moved', node)
  vanishing.freeze()
  const begun = performance.now()
  const response = await elsewhere
  expect([response.status, response.headers.get('x-muster-replica')]).toEqual([200, good])
  await stream.ended
  expect(performance.now() - begun).toBeLessThan(boundMs(15_000))
  expect(stream.got()).toContain('the machine of the replica does not answer')
  slow.resolve()
  expect(await (await late).json()).toMatchObject({ choices: [{ message: { content: 'late' } }] })
})

describe('the answering replica', () => {
  it('I14 F10 another process at a recycled address never answers for the model', async () => {
    const gone = await world.addNode('recycled')
    await world.addModel('recycled')
    const id = await world.addReplica('recycled', gone)
    await waitFor(async () => (await world.chat('recycled')).status === 200, { what: 'the real one to answer' })
    await gone.stop()
    // The same address, another worker: it knows neither the secret nor the replica.
    const secret = 'another-secret'
    await using other = await startStubGateway({ nodeId: gone.nodeId, secret, port: gone.port })
    const response = await world.chat('recycled')
    expect(response.status).toBe(503)
    expect(await response.text()).toMatch(/another process answers at its address/)
    expect(other.requests).toEqual([])
    await other.stop()
    // This server accepts every request, and answers as another replica.
    const { createServer } = await import('node:http')
    const liar = createServer((_, answer) =>
      answer.writeHead(200, { 'x-muster-replica': 'r-other', 'content-type': 'application/json' }).end('{"wrong":"model"}'),
    )
    await new Promise<void>((resolve) => liar.listen(gone.port, '127.0.0.1', resolve))
    const lied = await world.chat('recycled')
    expect([lied.status, await lied.text()]).toEqual([503, expect.not.stringContaining('wrong')])
    liar.closeAllConnections()
    await new Promise((resolve) => liar.close(resolve))
    await world.db.query('update replicas set state = $2, exited_at = now() where id = $1', [id, 'exited'])
  })

  it('G19 streamed bytes of a backend pass unchanged', async () => {
    const bytes = Buffer.concat([
      Buffer.from('data: \xff\xfe\0'),
      Buffer.from('é').subarray(0, 1),
      Buffer.from('\r\rdata:x\r\n\r\n: c\n\ngarbage'),
      Buffer.alloc(200_000, 'x'),
    ])
    node.behave(replica, async (_, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      const cuts = [0, 1, 7, 9, 11, 30, 100_000, bytes.length]
      for (const [i, at] of cuts.entries()) response.write(bytes.subarray(at, cuts[i + 1] ?? at))
      response.end()
    })
    const response = await waitFor(
      async () => {
        const answer = await world.chat('tiny')
        return answer.status === 200 ? answer : null
      },
      { what: 'an answer' },
    )
    expect(Buffer.from(await response.arrayBuffer()).equals(bytes)).toBe(true)
  })
})

describe('a client that goes', () => {
  it('G5 I16 in the middle of streams: each is ended at its backend, and nothing stays counted', async () => {
    node.behave(replica, (_, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.write(chunkOf('one'))
    })
    await waitFor(() => node.open() === 0, { what: 'earlier requests to end' })
    const streams = Array.from({ length: 200 }, () => rawPost('{"model":"tiny","stream":true}'))
    await waitFor(() => node.open() === 200, { what: 'all streams to be open' })
    expect(await inFlight()).toBe(200)
    for (const { socket } of streams) socket.resetAndDestroy()
    await waitFor(() => node.open() === 0, { what: 'all streams to be ended at the backend', timeoutMs: boundMs(2_000) })
    await waitFor(async () => (await inFlight()) === 0, { what: 'nothing to be in flight' })
  })

  it('G5 before there is an answer', async () => {
    node.behave(replica, () => undefined)
    const { socket } = rawPost('{"model":"tiny"}')
    await waitFor(() => node.open() === 1, { what: 'the request to arrive' })
    socket.destroy()
    await waitFor(() => node.open() === 0, { what: 'it to be ended', timeoutMs: boundMs(2_000) })
  })

  it('G17 that does not read: the backend waits, and memory does not grow', async () => {
    let written = 0
    node.behave(replica, (_, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      const chunk = Buffer.alloc(64 * 1024, 'x')
      const more = (): void => {
        for (let goesOn = true; goesOn && written < 200e6; written += chunk.length) goesOn = response.write(chunk)
      }
      response.on('drain', more)
      more()
    })
    const slow = httpRequest(`${world.controller.url}/v1/chat/completions`, { method: 'POST' })
    const answered = new Promise<IncomingMessage>((resolve) => slow.on('response', resolve))
    slow.end('{"model":"tiny","stream":true}')
    const response = await answered
    response.pause()
    let last = -1
    await waitFor(
      async () => {
        const isSteady = written === last && written > 0
        last = written
        await new Promise((resolve) => setTimeout(resolve, 100))
        return isSteady && written === last
      },
      { what: 'the backend to be held up' },
    )
    expect(written).toBeLessThan(30e6)
    // Others are not held up meanwhile.
    expect((await world.controller.api.get('/healthz')).status).toBe(200)
    const before = written
    response.resume()
    await waitFor(() => written > before + 10e6, { what: 'it to go on when somebody reads' })
    slow.destroy()
    await waitFor(() => node.open() === 0, { what: 'the end at the backend' })
  })
})

describe('G18 a body that is wrong', () => {
  const big = 33 * 2 ** 20
  it.each<[string, string | Buffer, number, string | null]>([
    ['nothing', '', 400, 'invalid'],
    ['no JSON', '{"model":', 400, 'invalid'],
    ['no UTF-8', Buffer.from([0x7b, 0xff, 0x7d]), 400, 'invalid'],
    ['a zero in a text', '{"model":"ti\0ny"}', 400, 'invalid'],
    ['a list', '[]', 400, 'invalid'],
    ['a hundred thousand brackets', '['.repeat(100_000), 400, 'invalid'],
    ['ten thousand levels', `{"model":"tiny","x":${'['.repeat(10_000)}${']'.repeat(10_000)}}`, 400, 'invalid'],
    ['no model', '{}', 400, 'invalid'],
    ['a model that is a number', '{"model":7}', 400, 'invalid'],
    ['a prototype', '{"__proto__":{"model":"tiny"}}', 400, 'invalid'],
    ['a model that nobody has', '{"model":"nope","stream":"maybe"}', 404, 'model_not_found'],
    ['a path as model', '{"model":"../../etc/passwd"}', 404, 'model_not_found'],
    ['a model of a megabyte', `{"model":"${'x'.repeat(2 ** 20)}"}`, 404, 'model_not_found'],
    ['a stream that is a text', '{"model":"tiny","stream":"yes"}', 400, 'invalid'],
    ['more than is taken', Buffer.alloc(big, ' '), 413, 'too_large'],
  ])('%s is refused', async (_, body, status, code) => {
    const response = await fetch(`${world.controller.url}/v1/chat/completions`, {
      method: 'POST',
      body: body as NonNullable<RequestInit['body']>,
    })
    expect(response.status).toBe(status)
    expect(await response.json()).toMatchObject({ error: { message: expect.any(String), type: 'invalid_request_error', code } })
    expect(response.headers.get('x-request-id')).toBeTruthy()
    expect(response.headers.get('server-timing')).toBeTruthy()
  })

  it.each([
    ['of a request', '/v1/chat/completions', ''],
    ['of a command', '/api/backends/install', `authorization: Bearer ${adminKey}\r\ncontent-type: application/json\r\n`],
  ])('50 MB %s are answered 413, also to a client that sends all before it reads', async (_, path, headers) => {
    const bytes = 50 * 2 ** 20
    const socket = connect(Number(new URL(world.controller.url).port), '127.0.0.1').pause()
    const failure = Promise.withResolvers<string>()
    socket.on('error', (error) => failure.resolve(String(error)))
    socket.write(`POST ${path} HTTP/1.1\r\nhost: 127.0.0.1\r\n${headers}content-length: ${bytes}\r\n\r\n`)
    const piece = Buffer.alloc(bytes / 10, ' ')
    const send = async (): Promise<string> => {
      for (let i = 0; i < 10; i += 1) await new Promise((resolve) => socket.write(piece, resolve))
      return await new Promise((resolve) => socket.once('data', (chunk: Buffer) => resolve(chunk.toString())).resume())
    }
    expect(await Promise.race([send(), failure.promise])).toMatch(/^HTTP\/1.1 413 /)
    socket.destroy()
  })

  it.each<[string, string]>([
    ['lone surrogates', String.raw`{"model":"tiny","messages":[{"role":"user","content":"\ud800"}]}`],
    ['numbers beyond all', '{"model":"tiny","temperature":1e999}'],
    ['the same key twice', '{"model":"nope","model":"tiny"}'],
  ])('%s is for the backend to judge', async (_, body) => {
    node.behave(replica, answerJson(completion('fine')))
    await waitFor(async () => (await world.chat('tiny')).status === 200, { what: 'an answer' })
    const response = await fetch(`${world.controller.url}/v1/chat/completions`, { method: 'POST', body })
    expect(response.status).toBe(200)
    expect(node.requests.at(-1)?.body).toBe(body)
  })

  it('more and fewer bytes than announced', async () => {
    const { got, ended } = raw(
      'POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ntransfer-encoding: chunked\r\n\r\n' +
        `${big.toString(16)}\r\n${'x'.repeat(big)}`,
    )
    await ended
    expect(got()).toMatch(/^HTTP\/1.1 413 /)
  })
})

describe('G20 two conflicting lengths of a request', () => {
  it.each([
    ['both', 'content-length: 4\r\ntransfer-encoding: chunked\r\n'],
    ['two lengths', 'content-length: 4\r\ncontent-length: 5\r\n'],
    ['a folded line', 'x-a: b\r\n c\r\ncontent-length: 4\r\ntransfer-encoding: chunked\r\n'],
    ['an unknown encoding', 'transfer-encoding: chunked, x\r\n'],
  ])('%s: 400, and the connection ends', async (_, headers) => {
    const { got, ended } = raw(
      `POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\n${headers}\r\n0\r\n\r\nGET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n`,
    )
    await ended
    expect(got()).toMatch(/^HTTP\/1.1 400 /)
    expect(got()).not.toContain('"ok"')
  })
})

describe('SEC28 private content', () => {
  it('neither prompts nor completions are in the log, also when it goes wrong', async () => {
    const secret = 'canary-prompt-8f3a'
    const prompt = { messages: [{ role: 'user', content: secret }] }
    node.behave(replica, answerJson(completion('canary-completion-77b1')))
    await waitFor(async () => (await world.chat('tiny', prompt)).status === 200, { what: 'an answer' })
    node.behave(replica, (_, response) => void response.socket?.resetAndDestroy())
    await world.chat('tiny', prompt)
    await fetch(`${world.controller.url}/v1/chat/completions`, { method: 'POST', body: `{"model":"tiny","${secret}` })
    await waitFor(() => logged.some((line) => line.includes('replica refused a request')), { what: 'the log to tell of the trouble' })
    expect(logged.filter((line) => line.includes('canary-'))).toEqual([])
  })
})
