import { backendList, backendStop, heartbeat, NodeId, nodeStop, opStatus, OperationId } from '@muster/protocol'
import { systemClock } from '@muster/host'
import type { Log } from '@muster/host'
import { connect, headers } from '@nats-io/transport-node'
import type { NatsConnection } from '@nats-io/transport-node'
import { writeFile } from 'node:fs/promises'
import { connect as dial } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { boundMs, makeTempDir, startNats, waitFor } from '@muster/testkit'
import type { NatsServer } from '@muster/testkit'
import type { Bus } from './bus.ts'
import { beat, busContract, codeOf, newNode, recordingLog } from '../test/contract-suite.ts'
import { connectNats } from './nats/connect-nats.ts'

const op_id = OperationId.parse('op-1')
const soon = { timeoutMs: 60_000 }

const open = (url: string, log: Log = recordingLog()): Promise<Bus> =>
  connectNats({ url, name: 'test', inboxPrefix: '_INBOX_test', log, clock: systemClock })

async function connected(url: string, log?: Log): Promise<Bus> {
  const bus = await open(url, log)
  await waitFor(() => bus.isConnected(), { what: 'a connection to the bus' })
  return bus
}

describe('the bus over NATS', () => {
  let server: NatsServer
  beforeAll(async () => {
    server = await startNats()
  })
  afterAll(() => server.stop())
  busContract({
    connect: (log) => connected(server.url, log),
    breakServer: () => server.kill('SIGKILL'),
    healServer: () => server.restart(),
  })
})

describe('connectNats', () => {
  let server: NatsServer
  let raw: NatsConnection
  beforeAll(async () => {
    server = await startNats()
    raw = await connect({ servers: server.url })
  })
  afterAll(async () => {
    await raw.close()
    await server.stop()
  })

  it('C15 answers or drops whatever bytes come, and goes on', async () => {
    const bus = await connected(server.url)
    const node = newNode()
    const seen: number[] = []
    bus.subscribe(heartbeat, { node: '*' }, ({ seq }, to) => void (to.node === node && seen.push(seq)))
    bus.serve(opStatus, { node }, (body) => ({ ...body, state: 'running' as const }))
    await bus.ping(60_000)
    const badHeader = headers()
    badHeader.set('muster-failure', '1')
    const nested = '['.repeat(500_000)
    const bad: (string | Uint8Array)[] = [
      '{',
      '"text"',
      '7',
      '[]',
      nested,
      '{"seq":1e999}',
      Uint8Array.of(0xff, 0xfe, 0x00),
      Uint8Array.of(0xc3),
    ]
    for (const bytes of bad) raw.publish(`nodes.${node}.heartbeat`, bytes)
    raw.publish('nodes.NOT_A_NODE.heartbeat', JSON.stringify(beat(node, 1)))
    raw.publish(`nodes.${node}.heartbeat`, '{}', { headers: badHeader })
    for (const bytes of bad) {
      const answer = await raw.request(`nodes.${node}.op.status`, bytes, { timeout: 5000 })
      expect(answer.json()).toMatchObject({ accepted: false, success: false, failure: { code: 'invalid', retry: 'never' } })
      expect(answer.headers?.get('muster-failure')).toBe('1')
    }
    raw.publish(`nodes.${node}.op.status`, JSON.stringify({ op_id }))
    raw.publish(`nodes.${node}.heartbeat`, JSON.stringify(beat(node, 9)))
    await waitFor(() => seen.length > 0, { what: 'the good message' })
    expect(seen).toEqual([9])
    expect(bus.stats().malformed).toBe(2 * bad.length + 3)
    await bus.close()
  })

  it('C15 survives malformed headers, on which the client library throws', async () => {
    const bus = await connected(server.url)
    const node = newNode()
    const seen: number[] = []
    bus.subscribe(heartbeat, { node }, ({ seq }) => void seen.push(seq))
    await bus.ping(60_000)
    const body = JSON.stringify(beat(node, 1))
    const block = 'NATS/1.0\r\na bad key: 1\r\n\r\n'
    await sendLines(server.port, [`HPUB nodes.${node}.heartbeat ${block.length} ${block.length + body.length}`, `${block}${body}`])
    raw.publish(`nodes.${node}.heartbeat`, JSON.stringify(beat(node, 2)))
    await waitFor(() => seen.includes(2), { what: 'the message after it' })
    expect(seen).toEqual([1, 2])
    expect(bus.isConnected()).toBe(true)
    await bus.close()
  })

  it('S1.13 a body of null or nothing is a command without arguments, as the original sends it', async () => {
    const bus = await connected(server.url)
    const node = newNode()
    const seen: unknown[] = []
    bus.subscribe(nodeStop, { node }, (message) => void seen.push(message))
    bus.subscribe(backendStop, { node }, (message) => void seen.push(message))
    await bus.ping(60_000)
    raw.publish(`nodes.${node}.stop`, 'null')
    raw.publish(`nodes.${node}.backend.stop`, '')
    await waitFor(() => seen.length === 2, { what: 'both' })
    expect(seen).toEqual([{}, {}])
    await bus.close()
  })

  it('S1.13 the failure of a handler is readable for a caller that knows only success and error', async () => {
    const bus = await connected(server.url)
    const node = newNode()
    bus.serve(opStatus, { node }, () => {
      throw new Error('out of luck')
    })
    await bus.ping(60_000)
    const answer = await raw.request(`nodes.${node}.op.status`, JSON.stringify({ op_id }), { timeout: 5000 })
    expect(answer.json()).toEqual({
      accepted: false,
      success: false,
      error: 'out of luck',
      failure: { code: 'internal', retry: 'backoff', message: 'out of luck' },
    })
    await bus.close()
  })

  it('an answer marked as failure that is unreadable is invalid', async () => {
    const bus = await connected(server.url)
    const node = newNode()
    const marked = headers()
    marked.set('muster-failure', '1')
    raw.subscribe(`nodes.${node}.op.status`, {
      max: 1,
      callback: (_, message) => void message.respond('{"success":false}', { headers: marked }),
    })
    await raw.flush()
    expect(await codeOf(bus.request(opStatus, { node }, { op_id }, soon))).toBe('invalid')
    await bus.close()
  })

  it('answers go to a private inbox below the given prefix', async () => {
    const bus = await connected(server.url)
    const node = newNode()
    const replies: string[] = []
    raw.subscribe(`nodes.${node}.op.status`, {
      callback: (_, message) => {
        replies.push(message.reply ?? '')
        message.respond(JSON.stringify({ op_id, state: 'unknown' }))
      },
    })
    await raw.flush()
    await bus.request(opStatus, { node }, { op_id }, soon)
    const other = await connected(server.url)
    await other.request(opStatus, { node }, { op_id }, soon)
    expect(replies).toEqual([expect.stringMatching(/^_INBOX_test\.[^.]+\.1$/), expect.stringMatching(/^_INBOX_test\.[^.]+\.1$/)])
    expect(replies[0]).not.toBe(replies[1])
    await Promise.all([bus.close(), other.close()])
  })

  it('refuses a wrong URL at once, without repeating a possible password', async () => {
    for (const url of ['http://127.0.0.1:4222', 'nats://user:secret@', '', 'ws://h']) {
      await expect(open(url), url).rejects.toThrow(/NATS URL/)
      await expect(open(url), url).rejects.not.toThrow(/secret/)
    }
  })
})

describe('connectNats to a server that takes less than 1 MiB', () => {
  it('C8 refuses larger messages before sending, and answers when a reply is too large', async () => {
    await using dir = await makeTempDir('nats')
    const config = join(dir.path, 'nats.conf')
    await writeFile(config, 'max_payload: 10000')
    await using server = await startNats({ args: ['-c', config] })
    const bus = await connected(server.url)
    const node = newNode()
    const backends = Array.from({ length: 100 }, (_, i) => ({ name: `backend-${i}` }))
    bus.serve(backendList, { node }, () => ({ backends }))
    await bus.ping(60_000)
    const ops = Array.from({ length: 1000 }, (_, i) => `operation-${i}`)
    expect(() => bus.publish(heartbeat, { node }, { ...beat(node, 1), ops })).toThrow(expect.objectContaining({ code: 'too_large' }))
    expect(await bus.request(backendList, { node }, {}, soon).catch((reason: unknown) => reason)).toMatchObject({
      failure: { code: 'internal', message: expect.stringContaining('larger') },
    })
    expect(bus.isConnected()).toBe(true)
    await bus.close()
  })
})

// Each has a server of its own.
describe.concurrent('connectNats while NATS is not well', () => {
  it('C2 starts while NATS is down, logs that, and connects soon after it is back', async () => {
    await using server = await startNats()
    await server.kill('SIGKILL')
    const log = recordingLog()
    const bus = await open(server.url, log)
    const node = newNode()
    const seen: number[] = []
    bus.subscribe(heartbeat, { node }, ({ seq }) => void seen.push(seq))
    bus.serve(opStatus, { node }, (body) => ({ ...body, state: 'running' as const }))
    expect(bus.isConnected()).toBe(false)
    expect(await codeOf(bus.request(opStatus, { node }, { op_id }, { timeoutMs: 60_000 }))).toBe('disconnected')
    bus.publish(heartbeat, { node }, beat(node, 1))
    await waitFor(() => log.lines.some((line) => line.message.includes('cannot connect to the bus') && line.fields['reason']), {
      what: 'a line in the log that says why',
    })
    await server.restart()
    await waitFor(() => bus.isConnected(), { what: 'the connection' })
    await bus.ping(60_000)
    expect(await bus.request(opStatus, { node }, { op_id }, soon)).toMatchObject({ state: 'running' })
    bus.publish(heartbeat, { node }, beat(node, 2))
    await waitFor(() => seen.length > 0, { what: 'the message' })
    expect(seen).toEqual([2])
    await bus.close()
  })

  it('closes at once while it was never connected', async () => {
    await using server = await startNats()
    await server.stop()
    const bus = await open(server.url)
    const since = performance.now()
    await bus.close()
    expect(performance.now() - since).toBeLessThan(boundMs(2000))
  })

  it('C1 is back within two seconds after each of ten kills, and requests work again', async () => {
    await using server = await startNats()
    const [asker, worker] = await Promise.all([connected(server.url), connected(server.url)])
    const node = newNode()
    worker.serve(opStatus, { node }, (body) => ({ ...body, state: 'running' as const }))
    const back: number[] = []
    for (let round = 0; round < 10; round += 1) {
      await server.restart()
      const since = performance.now()
      await waitFor(() => asker.isConnected() && worker.isConnected(), { what: 'both connections to be back' })
      await waitFor(() => asker.request(opStatus, { node }, { op_id }, { timeoutMs: 1000 }), { what: 'an answer' })
      back.push(performance.now() - since)
    }
    expect(back.toSorted((a, b) => a - b)[5], 'the median in ms').toBeLessThan(boundMs(2_000))
    await Promise.all([asker.close(), worker.close()])
  })

  it('C6 with a frozen server ping and requests fail at their deadline, and all is well when it goes on', async () => {
    await using server = await startNats()
    const [asker, worker] = await Promise.all([connected(server.url), connected(server.url)])
    const node = newNode()
    worker.serve(opStatus, { node }, (body) => ({ ...body, state: 'running' as const }))
    await worker.ping(60_000)
    await server.kill('SIGSTOP')
    const since = performance.now()
    const [ping, request] = await Promise.all([
      codeOf(asker.ping(300)),
      codeOf(asker.request(opStatus, { node }, { op_id }, { timeoutMs: 300 })),
    ])
    expect([ping, request]).toEqual(['timeout', 'timeout'])
    expect(performance.now() - since).toBeLessThan(boundMs(4000))
    await server.kill('SIGCONT')
    await asker.ping(60_000)
    expect(await asker.request(opStatus, { node }, { op_id }, soon)).toMatchObject({ state: 'running' })
    await Promise.all([asker.close(), worker.close()])
  })

  it('C6 closes in time although the server is frozen', async () => {
    await using server = await startNats()
    const bus = await connected(server.url)
    bus.serve(opStatus, { node: NodeId.parse('n') }, (body) => ({ ...body, state: 'running' as const }))
    await server.kill('SIGSTOP')
    const since = performance.now()
    await bus.close()
    expect(performance.now() - since).toBeLessThan(boundMs(8000))
  })

  it('C3 notices a server that went silent within 15 s, also with a full socket, and does not hang in it', async () => {
    await using server = await startNats()
    const bus = await connected(server.url)
    const node = newNode()
    await server.kill('SIGSTOP')
    // More than the kernel takes: the client can't flush this any more.
    const large = { ...beat(node, 1), version: 'v'.repeat(60), ops: Array.from({ length: 4000 }, (_, i) => `op-${i}`.padEnd(60, 'x')) }
    for (let i = 0; i < 60; i += 1) bus.publish(heartbeat, { node }, large)
    const since = performance.now()
    await waitFor(() => !bus.isConnected(), { what: 'the loss to be noticed' })
    expect(performance.now() - since).toBeLessThan(boundMs(20_000))
    await server.restart()
    await waitFor(() => bus.isConnected(), { what: 'the connection to be back' })
    await bus.close()
  })
})

async function sendLines(port: number, lines: readonly string[]): Promise<void> {
  const socket = dial(port, '127.0.0.1')
  socket.write(['CONNECT {"verbose":false,"headers":true,"protocol":1}', ...lines, 'PING', ''].join('\r\n'))
  await new Promise<void>((resolve) => {
    let text = ''
    socket.setEncoding('utf8').on('data', (chunk: string) => {
      text += chunk
      if (text.includes('PONG')) resolve()
    })
  })
  socket.destroy()
}
