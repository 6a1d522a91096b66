import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { createNodeKey, createRequestVerifier, silentLog, systemClock, type Clock } from '@muster/host'
import { nodeAgentRoutes } from '@muster/protocol'
import { waitFor } from '@muster/testkit'
import { afterEach, describe, expect, it } from 'vitest'
import { createManualClock } from '../../test/manual-clock.ts'
import { createControllerClient } from './controller-client.ts'

const servers: Server[] = []
afterEach(() => {
  for (const server of servers.splice(0)) {
    server.close()
    server.closeAllConnections()
  }
})

type Handle = (request: IncomingMessage, response: ServerResponse) => void
interface Served {
  readonly url: string
  readonly requests: IncomingMessage[]
}
async function serve(handle: Handle): Promise<Served> {
  const requests: IncomingMessage[] = []
  const server = createServer((request, response) => {
    requests.push(request)
    handle(request, response)
  }).listen(0, '127.0.0.1')
  servers.push(server)
  await once(server, 'listening')
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('no address')
  return { url: `http://127.0.0.1:${address.port}`, requests }
}
const refuse =
  (status: number, code: string, details?: object): Handle =>
  (_, response) =>
    void response.writeHead(status).end(JSON.stringify({ error: { code, message: 'why', details } }))
const bytes = Buffer.from('0123456789')
const blob: Handle = (request, response) => {
  const from = Number(/^bytes=(\d+)-$/.exec(request.headers.range ?? '')?.[1] ?? 0)
  response.writeHead(from === 0 ? 200 : 206, from === 0 ? {} : { 'content-range': `bytes ${from}-9/10` }).end(bytes.subarray(from))
}

const digest = `sha256:${'a'.repeat(64)}`
const key = createNodeKey()
const wanted = {
  route: nodeAgentRoutes.blob,
  params: { id: 'n-1', digest },
  headers: {},
  okStatuses: [200, 206],
  what: 'it',
  signal: new AbortController().signal,
}
const client = (urls: readonly [string, ...string[]], clock: Clock = systemClock) =>
  createControllerClient({ key, urls: () => urls, clock, log: silentLog })
const nobody = 'http://127.0.0.1:1'

describe('a download', () => {
  it('starts with the named controller, if it is one', async () => {
    const [one, two, stranger] = [await serve(blob), await serve(blob), await serve(blob)]
    const { open } = client([one.url, two.url])
    for (const first of [two.url, stranger.url]) (await open({ ...wanted, first })).body.destroy()
    expect([one, two, stranger].map(({ requests }) => requests.length)).toEqual([1, 1, 0])
  })

  it('is signed, and begins at the requested offset', async () => {
    const verify = createRequestVerifier()
    const { url, requests } = await serve((request, response) => {
      const { method = '', url: path = '', headers } = request
      const verified = verify({ method, path, headers, body: new Uint8Array(), now: new Date() })
      if (verified.ok && verified.publicKey === key.publicKey) blob(request, response)
      else refuse(401, 'bad_signature')(request, response)
    })
    const response = await client([url]).open({ ...wanted, headers: { range: 'bytes=4-' } })
    expect([response.status, response.headers['content-range'], await response.text(100)]).toEqual([206, 'bytes 4-9/10', '456789'])
    expect(requests[0]?.url).toContain('/api/node/n-1/blobs/')
  })

  it.each<[string, Handle | null]>([
    ['can’t be reached', null],
    ['does not have it', refuse(404, 'not_found')],
    ['can’t do its part', refuse(503, 'unavailable')],
    ['is none', (_, response) => void response.writeHead(200 + 4).end()],
    ['sends us elsewhere', (_, response) => void response.writeHead(307, { location: nobody }).end()],
    ['hangs up', (_, response) => void response.destroy()],
  ])('comes from the next controller when one %s', async (_, handle) => {
    const broken = handle === null ? nobody : (await serve(handle)).url
    const good = await serve(blob)
    expect(await (await client([broken, good.url]).open(wanted)).text(100)).toBe('0123456789')
  })

  it('follows no redirect', async () => {
    const elsewhere = await serve(blob)
    const { url } = await serve((request, response) => void response.writeHead(302, { location: elsewhere.url + request.url }).end())
    await expect(client([url]).open(wanted)).rejects.toMatchObject({ failure: { code: 'unavailable', retry: 'backoff' } })
    expect(elsewhere.requests).toEqual([])
  })

  it('keeps the controller that lacks only this content, and leaves one that is unreachable', async () => {
    const lacking = await serve(refuse(404, 'not_found'))
    const good = await serve(blob)
    const asking = client([lacking.url, good.url])
    await (await asking.open(wanted)).text(100)
    expect(asking.current()).toBe(lacking.url)
    const other = client([nobody, good.url])
    await (await other.open(wanted)).text(100)
    expect(other.current()).toBe(good.url)
  })

  it('that no controller has is not found, and without a reachable controller it is unavailable; both are retried', async () => {
    const lacking = await serve(refuse(404, 'not_found'))
    await expect(client([lacking.url]).open(wanted)).rejects.toMatchObject({ failure: { code: 'not_found', retry: 'backoff' } })
    await expect(client([lacking.url, nobody]).open(wanted)).rejects.toMatchObject({ failure: { code: 'unavailable', retry: 'backoff' } })
    const proxy = await serve((_, response) => void response.writeHead(404).end('<h1>not here</h1>'))
    await expect(client([proxy.url]).open(wanted)).rejects.toMatchObject({ failure: { code: 'unavailable' } })
  })

  it('is signed with the controllers’ clock once one complained', async () => {
    const theirs = Date.now() - 7_200_000
    const { url, requests } = await serve((request, response) => {
      const isOff = Math.abs(Date.parse(String(request.headers['x-muster-timestamp'])) - theirs) > 60_000
      const answer = isOff ? refuse(401, 'clock_skew', { now: new Date(theirs).toISOString() }) : blob
      answer(request, response)
    })
    const asking = client([url])
    await (await asking.open(wanted)).text(100)
    await (await asking.open(wanted)).text(100)
    expect(requests).toHaveLength(3)
  })

  it('that is cut off fails with a retry, and the next one goes to another controller', async () => {
    const cut = await serve((_, response) => {
      response.writeHead(200, { 'content-length': '10' }).write(bytes.subarray(0, 5))
      setImmediate(() => response.destroy())
    })
    const good = await serve(blob)
    const asking = client([cut.url, good.url])
    const response = await asking.open(wanted)
    await expect(response.text(100)).rejects.toMatchObject({ failure: { code: 'unavailable', retry: 'backoff' } })
    expect(asking.current()).toBe(good.url)
  })

  it('that stalls fails after its time, before and after it has begun', async () => {
    const clock = createManualClock()
    const mute = await serve(() => undefined)
    const asked = client([mute.url], clock).open(wanted)
    asked.catch(() => undefined)
    await waitFor(() => mute.requests.length === 1, { what: 'the request' })
    await clock.advance(10_001)
    await expect(asked).rejects.toThrow(/took longer than 10 s/)

    const stalling = await serve((_, response) => void response.writeHead(200, { 'content-length': '10' }).write('0'))
    const text = client([stalling.url], clock)
      .open(wanted)
      .then((response) => response.text(100))
    text.catch(() => undefined)
    await waitFor(() => clock.sleeps.includes(2_500), { what: 'somebody to watch the body' })
    await clock.advance(45_000)
    await expect(text).rejects.toThrow(/bytes came in 20000 ms/)
  })

  it('ends with its signal', async () => {
    const { url } = await serve((_, response) => void response.writeHead(200, { 'content-length': '10' }).write('0'))
    const stop = new AbortController()
    const response = await client([url]).open({ ...wanted, signal: stop.signal })
    const text = response.text(100)
    stop.abort(new Error('enough'))
    await expect(text).rejects.toThrow('enough')
    await expect(client([url]).open({ ...wanted, signal: stop.signal })).rejects.toThrow('enough')
  })
})
