// Files that are sent for a model, through a controller to the gateways of workers. The gateways are bare HTTP servers, so
// that each test says what they do.
import { createHash, randomBytes } from 'node:crypto'
import { createServer, request as httpRequest, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { buffer } from 'node:stream/consumers'
import { checkGatewayToken } from '@muster/host'
import { gatewayScope } from '@muster/protocol'
import { adminKey, administer, waitFor } from '@muster/testkit'
import { afterAll, afterEach, beforeAll, expect, inject, it } from 'vitest'
import { startOperationsWorld, type OperationsWorld, type WireWorker } from '../operations/operations-world.ts'

type Behave = (request: IncomingMessage, response: ServerResponse) => void
interface Gateway {
  readonly worker: WireWorker
  readonly received: { body: Buffer; token: string }[]
  behave: Behave | null
  broken: number
}

let world: OperationsWorld
const servers: Server[] = []
let one: Gateway
let two: Gateway

beforeAll(async () => {
  world = await startOperationsWorld({ postgresUrl: inject('postgresUrl') })
})
afterAll(async () => {
  await world[Symbol.asyncDispose]()
  for (const server of servers) server.closeAllConnections()
  await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))))
})
afterEach(() => {
  for (const gateway of [one, two]) if (gateway !== undefined) gateway.behave = null
})

async function addGateway(name: string): Promise<Gateway> {
  const received: Gateway['received'] = []
  const state: { gateway: Gateway | null } = { gateway: null }
  const server = createServer((request, response) => {
    const behave = state.gateway?.behave
    if (behave !== null && behave !== undefined) return behave(request, response)
    void buffer(request).then(
      (body) => {
        received.push({ body, token: request.headers.authorization?.replace('Bearer ', '') ?? '' })
        response.end(JSON.stringify({ digest: digestOf(body), size: body.length }))
      },
      () => state.gateway !== null && (state.gateway.broken += 1),
    )
  })
  servers.push(server)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('not listening on a port')
  const worker = await world.addWireWorker(name, { features: ['async'], gateway_url: `http://127.0.0.1:${address.port}` })
  state.gateway = { worker, received, behave: null, broken: 0 }
  return state.gateway
}

const digestOf = (body: Buffer): string => `sha256:${createHash('sha256').update(body).digest('hex')}`
const upload = (model: string, filename: string, raw: Uint8Array) =>
  world.api().call('PUT', `/api/models/${model}/files/${filename}`, { raw, headers: { 'content-type': 'application/octet-stream' } })
const query = async (text: string): Promise<Record<string, unknown>[]> =>
  await administer(world.database.url, async (client) => (await client.query<Record<string, unknown>>(text)).rows)

it('without a node that could keep it there is no capacity', async () => {
  await world.api().put('/api/models/first', { backend: 'llama' })
  expect(await upload('first', 'f', Buffer.from('x'))).toMatchObject({ status: 503, body: { error: { code: 'no_capacity' } } })
  one = await addGateway('one')
  two = await addGateway('two')
})

it('goes to two nodes as it comes, with a token for uploads alone, and into the configuration', async () => {
  const { body: before } = await world
    .api()
    .put('/api/models/sent', { backend: 'llama', files: [{ uri: 'https://h/old', filename: 'dir/f.gguf' }] })
  const content = randomBytes(3_000_000)
  const answer = await upload('sent', 'dir%2Ff.gguf', content)
  const digest = digestOf(content)
  expect(answer).toMatchObject({ status: 200, body: { filename: 'dir/f.gguf', digest, size: content.length } })
  expect([...(answer.body['nodes'] as unknown as string[])].toSorted()).toEqual([one.worker.id, two.worker.id].toSorted())
  for (const { worker, received } of [one, two]) {
    expect(received.at(-1)?.body.equals(content)).toBe(true)
    const [{ gateway_secret: secret } = {}] = await query(`select gateway_secret from nodes where id = '${worker.id}'`)
    const grant = { secret: String(secret), nodeId: worker.id, scope: gatewayScope.upload }
    expect(checkGatewayToken(received.at(-1)?.token ?? '', grant)).not.toBeNull()
  }
  const { body } = await world.api().get('/api/models/sent')
  expect(body).toMatchObject({ config: { files: [{ uri: `upload:${digest}`, filename: 'dir/f.gguf', sha256: digest.slice(7) }] } })
  expect(body['revision']).not.toBe(before['revision'])
  expect(await query(`select filename, digest, size_bytes::int from model_uploads where model = 'sent'`)).toEqual([
    { filename: 'dir/f.gguf', digest, size_bytes: content.length },
  ])
  await upload('sent', 'another', Buffer.from('y'))
  expect((await world.api().get('/api/models/sent')).body).toMatchObject({
    config: { files: [{ filename: 'dir/f.gguf' }, { filename: 'another' }] },
  })
})

it('one node that fails is tolerated', async () => {
  await world.api().put('/api/models/half', { backend: 'llama' })
  for (const behave of [
    (request, response) => void response.writeHead(507).end(JSON.stringify({ error: { code: 'disk_full', message: 'no room' } })),
    (request) => void request.socket.destroy(),
    (request, response) => void buffer(request).then(() => response.end(JSON.stringify({ digest: `sha256:${'0'.repeat(64)}`, size: 1 }))),
  ] satisfies Behave[]) {
    one.behave = behave
    expect(await upload('half', 'f', randomBytes(2_000_000))).toMatchObject({ status: 200, body: { nodes: [two.worker.id] } })
  }
})

it('if both nodes fail, the error has both reasons, and nothing changes', async () => {
  await world.api().put('/api/models/none', { backend: 'llama' })
  const full: Behave = (_, response) =>
    void response.writeHead(507).end(JSON.stringify({ error: { code: 'disk_full', message: 'no room' } }))
  one.behave = full
  two.behave = full
  const answer = await upload('none', 'f', randomBytes(2_000_000))
  expect(answer).toMatchObject({ status: 507, body: { error: { code: 'disk_full' } } })
  for (const part of ['one: ', 'two: ', 'no room']) expect(answer.text).toContain(part)
  expect((await world.api().get('/api/models/none')).body).toMatchObject({ config: { files: [] } })
})

it('a sender that goes away leaves nothing behind', async () => {
  await world.api().put('/api/models/left', { backend: 'llama' })
  const before = one.broken
  const { hostname, port } = new URL(world.api().url)
  const sending = httpRequest({
    hostname,
    port,
    method: 'PUT',
    path: '/api/models/left/files/f',
    headers: { authorization: `Bearer ${adminKey}`, 'content-length': 10_000_000 },
  })
  sending.on('error', () => undefined)
  sending.write(randomBytes(1_000_000))
  await waitFor(() => one.worker !== undefined && sending.writableLength === 0, { what: 'some of it to be sent' })
  sending.destroy()
  await waitFor(() => one.broken > before, { what: 'the gateway to see it break off' })
  expect((await world.api().get('/api/models/left')).body).toMatchObject({ config: { files: [] } })
})

it('is refused for an unknown model, and for a name that leads out of the folder', async () => {
  expect((await upload('nobody', 'f', Buffer.from('x'))).status).toBe(404)
  expect((await upload('sent', '..%2Ff', Buffer.from('x'))).status).toBe(400)
  expect(await upload('sent', 'dir', Buffer.from('x'))).toMatchObject({ status: 400, body: { error: { code: 'invalid' } } })
})
