// Files and logs behind the gateway, with tokens of their own, and its limits.
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { Readable } from 'node:stream'
import { mintGatewayToken } from '@muster/host'
import { Digest, FleetError, gatewayScope } from '@muster/protocol'
import { waitFor } from '@muster/testkit'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ask, chat, driverClock, identity, openServingWorld, type ServingWorld } from '../../test/serving-world.ts'
import { createOpenAiHttpDriver } from '../drivers/openai-http.ts'
import type { GatewayIdentity } from './authorize.ts'
import type { RouteDeps } from './gateway.ts'
import type { LogQuery } from '../supervisor/replicas.ts'

const content = Buffer.from('0123456789')
const digest = Digest.parse(`sha256:${createHash('sha256').update(content).digest('hex')}`)
const other = Digest.parse(`sha256:${'0'.repeat(64)}`)
let world: ServingWorld
let now: GatewayIdentity | null = identity
let received: { bytes: string; about: { digest?: Digest; size?: number } } | null = null
let asked: LogQuery | null = null

const files: RouteDeps['files'] = {
  size: async (wanted) => (wanted === digest ? content.length : null),
  open: async (wanted, range) =>
    wanted === digest
      ? { size: content.length, stream: Readable.from([content.subarray(range?.start ?? 0, (range?.end ?? content.length) + 1)]) }
      : null,
  receive: async (bytes, { digest: named, size }) => {
    const about = { ...(named === undefined ? {} : { digest: named }), ...(size === undefined ? {} : { size }) }
    received = { bytes: Buffer.concat(await Array.fromAsync(bytes)).toString(), about }
    if (received.bytes === 'wrong') throw new FleetError({ code: 'integrity', retry: 'never', message: 'another digest' })
    return { digest, size: received.bytes.length }
  },
}
const openLog: RouteDeps['openLog'] = (question) => {
  asked = question
  return question.follow ? follow(question.signal) : Readable.from(['line 1\n', 'line 2\n'])
}
function follow(signal: AbortSignal): Readable {
  const stream = new Readable({ read: () => undefined })
  stream.push('so far\n')
  signal.addEventListener('abort', () => stream.push(null))
  return stream
}

beforeAll(async () => {
  world = await openServingWorld(createOpenAiHttpDriver({ clock: driverClock }), { files, openLog, identity: () => now })
})
afterAll(() => world[Symbol.asyncDispose]())

const bearer = (scope: string) => ({ authorization: `Bearer ${mintGatewayToken({ ...identity, scope, controller: 'c-1' })}` })
const call = (path: string, init: RequestInit = {}): Promise<Response> => fetch(`http://127.0.0.1:${world.gateway.port}${path}`, init)

describe('files', () => {
  const get = (headers: Record<string, string> = {}, method = 'GET') =>
    call(`/files/${digest}`, { method, headers: { ...bearer(gatewayScope.file(digest)), ...headers } })

  it('are served by digest, also in ranges', async () => {
    const whole = await get()
    expect([whole.status, whole.headers.get('accept-ranges'), await whole.text()]).toEqual([200, 'bytes', '0123456789'])
    const part = await get({ range: 'bytes=7-' })
    expect([part.status, part.headers.get('content-range'), await part.text()]).toEqual([206, 'bytes 7-9/10', '789'])
    const head = await get({}, 'HEAD')
    expect([head.status, head.headers.get('content-length')]).toEqual([200, '10'])
    expect((await get({ range: 'bytes=10-' })).status).toBe(416)
  })

  it('need a token for exactly that file, and are 404 when missing', async () => {
    expect((await call(`/files/${digest}`)).status).toBe(401)
    for (const scope of [gatewayScope.file(other), gatewayScope.upload, gatewayScope.logs]) {
      expect((await call(`/files/${digest}`, { headers: bearer(scope) })).status, scope).toBe(401)
    }
    expect((await call(`/files/${other}`, { headers: bearer(gatewayScope.file(other)) })).status).toBe(404)
    expect((await call('/files/sha256:..', { headers: bearer(gatewayScope.upload) })).status).toBe(404)
    expect((await call(`/files/${digest}`, { method: 'DELETE', headers: bearer(gatewayScope.file(digest)) })).status).toBe(404)
  })

  it('are received with digest and model', async () => {
    const headers = bearer(gatewayScope.upload)
    const kept = await call(`/files?digest=${digest}`, { method: 'PUT', body: content, headers })
    expect([kept.status, await kept.json()]).toEqual([200, { digest, size: 10 }])
    expect(received).toEqual({ bytes: '0123456789', about: { digest, size: 10 } })
    const wrong = await call('/files', { method: 'PUT', body: 'wrong', headers })
    expect([wrong.status, await wrong.json()]).toEqual([400, { error: { code: 'integrity', message: 'another digest' } }])
    expect((await call('/files?digest=x', { method: 'PUT', body: 'x', headers })).status).toBe(400)
  })

  it('are not received without a token', async () => {
    received = null
    const refused = await call('/files', { method: 'PUT', body: content, headers: bearer(gatewayScope.file(digest)) })
    expect([refused.status, received]).toEqual([401, null])
  })
})

describe('logs', () => {
  it('are text of the requested replicas', async () => {
    const answer = await call('/logs?model=a%2Fb&replica=r-1', { headers: bearer(gatewayScope.logs) })
    expect([answer.status, answer.headers.get('content-type'), await answer.text()]).toEqual([
      200,
      'text/plain; charset=utf-8',
      'line 1\nline 2\n',
    ])
    expect(asked).toMatchObject({ model: 'a/b', replicaId: 'r-1', follow: false })
    expect((await call('/logs')).status).toBe(401)
    expect((await call('/logs?model=..', { headers: bearer(gatewayScope.logs) })).status).toBe(400)
  })

  it('are followed until the reader disconnects', async () => {
    const leaving = new AbortController()
    const answer = await call('/logs?follow=true', { headers: bearer(gatewayScope.logs), signal: leaving.signal })
    const { value } = (await answer.body?.getReader().read()) ?? {}
    expect(Buffer.from(value ?? []).toString()).toBe('so far\n')
    expect(asked?.signal.aborted).toBe(false)
    leaving.abort()
    await waitFor(() => asked?.signal.aborted, { what: 'the log to be closed' })
  })
})

it('refuses everything until the worker has its secret, and follows a new one', async () => {
  now = null
  for (const path of [`/files/${digest}`, '/logs']) expect((await call(path, { headers: bearer(gatewayScope.logs) })).status).toBe(503)
  expect((await ask(world, { replica: 'r-1', body: chat('x') })).statusCode).toBe(503)
  expect((await call('/healthz')).status).toBe(200)
  now = identity
  expect((await call('/logs', { headers: bearer(gatewayScope.logs) })).status).toBe(200)
  now = { ...identity, secret: 'b'.repeat(64) }
  expect((await call('/logs', { headers: bearer(gatewayScope.logs) })).status).toBe(401)
  now = identity
})

it('G21 1,500 silent or half-sent connections are closed, and others are served meanwhile', async () => {
  const sockets: Socket[] = []
  let closed = 0
  for (let at = 0; at < 1_500; at += 1) {
    const socket = connect(world.gateway.port, '127.0.0.1')
    socket.on('error', () => undefined).on('close', () => (closed += 1))
    socket.resume()
    sockets.push(socket)
    if (at % 2 === 0) socket.write('GET /healthz HTTP/1.1\r\nx-slow: ')
  }
  await Promise.all(sockets.filter((socket) => socket.connecting).map((socket) => once(socket, 'connect')))
  expect((await call('/healthz')).status).toBe(200)
  await waitFor(() => closed === sockets.length, { what: 'them to be let go' })
})
