import { createServer, type AddressInfo } from 'node:net'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { silentLog, systemClock } from '@muster/host'
import { digestOf, makeCertificate, startHostileRegistry, waitFor, type HostileRegistry } from '@muster/testkit'
import { createOutbound, type OutboundOptions } from './create-outbound.ts'
import type { Outbound, OutboundRequest, OutboundResponse } from './outbound.ts'

const never = new AbortController().signal
const content = Buffer.alloc(300_000, 'content')
const blob = { bytes: content, digest: digestOf(content) }
const path = `/v2/x/blobs/${blob.digest}`

let registry: HostileRegistry
let other: HostileRegistry
beforeEach(async () => {
  registry = await startHostileRegistry()
  other = await startHostileRegistry()
  registry.addBlob(blob)
  other.addBlob(blob)
})
afterEach(async () => {
  await registry.stop()
  await other.stop()
})

const create = (options: Partial<OutboundOptions> = {}): Outbound =>
  createOutbound({ allow: ['127.0.0.0/8'], clock: systemClock, log: silentLog, ...options })

const get = async (url: string, options: Partial<OutboundRequest> = {}, outbound = create()): Promise<OutboundResponse> =>
  await outbound.request({ url: new URL(url), signal: never, ...options })

describe('a request', () => {
  it('is answered with status, headers, the final URL and the body', async () => {
    const response = await get(`${registry.url}${path}`)
    expect(response).toMatchObject({ status: 200, url: { href: `${registry.url}${path}` } })
    expect(response.headers['content-length']).toBe('300000')
    await expect(response.bytes(300_000)).resolves.toEqual(content)
    expect(registry.requests[0]?.headers).toMatchObject({ 'user-agent': expect.stringMatching(/^muster\//), host: registry.host })
  })

  it('an error status is an answer', async () => {
    await expect(get(`${registry.url}/v2/x/blobs/none`)).resolves.toMatchObject({ status: 404 })
  })

  it('to a server that closes every connection at once is worth another try', async () => {
    const server = createServer((socket) => void socket.on('error', () => undefined).destroy())
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const { port } = server.address() as AddressInfo
    for (const scheme of ['https', 'http'])
      await expect(get(`${scheme}://127.0.0.1:${port}/`)).rejects.toMatchObject({ failure: { code: 'unavailable', retry: 'backoff' } })
    server.close()
  })

  it('carries a body of bytes or of pieces', async () => {
    async function* pieces(): AsyncGenerator<Uint8Array> {
      yield Buffer.from('one')
      yield Buffer.from('two')
    }
    for (const body of [Buffer.from('bytes'), pieces()]) {
      const response = await get(`${registry.url}/v2/`, { method: 'POST', body })
      await expect(response.text(10)).resolves.toBe('{}')
    }
    expect(registry.requests.map(({ headers }) => headers['content-length'] ?? headers['transfer-encoding'])).toEqual(['5', 'chunked'])
  })

  it('SEC21 without a list this machine is closed, and nothing is sent', async () => {
    await expect(get(`${registry.url}/v2/`, {}, create({ allow: [] }))).rejects.toThrow(
      /^source_forbidden: 127.0.0.1 is a loopback address/,
    )
    expect(registry.requests).toEqual([])
  })

  it('reads no more of a body than it is allowed to', async () => {
    registry.on(path, { do: 'endless' })
    const response = await get(`${registry.url}${path}`)
    await expect(response.bytes(1_000_000)).rejects.toMatchObject({
      failure: { code: 'invalid', message: expect.stringContaining('larger than') },
    })
    expect(response.body.destroyed).toBe(true)
  })

  it('E7 a body that ends early is a failure that may be tried again', async () => {
    registry.on(path, { do: 'truncate', atBytes: 100_000 })
    const response = await get(`${registry.url}${path}`)
    await expect(response.bytes(300_000)).rejects.toMatchObject({ failure: { code: 'unavailable', retry: 'backoff' } })
  })

  it('a body that fails need not be read', async () => {
    registry.on(path, { do: 'truncate', atBytes: 10 })
    const response = await get(`${registry.url}${path}`)
    response.body.resume()
    await waitFor(() => response.body.closed, { what: 'the body to close' })
    expect(response.body.errored).toMatchObject({ failure: { code: 'unavailable' } })
  })

  it.each([
    ['closes without a word', { do: 'reset' }],
    ['does not speak HTTP', { do: 'answer', status: 200, headers: { 'x-long': 'x'.repeat(20_000) } }],
  ] as const)('a server that %s is unavailable', async (_what, behaviour) => {
    registry.on('/v2/', behaviour)
    await expect(get(`${registry.url}/v2/`)).rejects.toMatchObject({ failure: { code: 'unavailable', retry: 'backoff' } })
  })

  it('a host that does not listen is unavailable', async () => {
    await other.stop()
    await expect(get(`${other.url}/v2/`)).rejects.toMatchObject({
      failure: { code: 'unavailable', retry: 'backoff', message: expect.stringContaining('ECONNREFUSED') },
    })
  })

  it('a name that does not resolve is unavailable', async () => {
    await expect(get('https://no-such-name.invalid/')).rejects.toMatchObject({ failure: { code: 'unavailable', retry: 'backoff' } })
  })
})

describe('E15 time', () => {
  it('a server that never answers is left after headersMs', async () => {
    registry.on('/v2/', { do: 'hang' })
    await expect(get(`${registry.url}/v2/`, { limits: { headersMs: 50 } })).rejects.toThrow('no answer within 50 ms')
  })

  it('a resolver that never answers is left after headersMs', async () => {
    const outbound = create({ lookup: () => new Promise(() => undefined) })
    await expect(get('https://slow.test/', { limits: { headersMs: 50 } }, outbound)).rejects.toThrow(
      'resolving slow.test took longer than 0.05 s',
    )
  })

  it('a body that stops is left after stallMs', async () => {
    registry.on(path, { do: 'stall', atBytes: 100_000 })
    const response = await get(`${registry.url}${path}`, { limits: { stallMs: 200 } })
    await expect(response.bytes(300_000)).rejects.toMatchObject({
      failure: { code: 'unavailable', retry: 'backoff', message: expect.stringContaining('only 0 bytes came in 200 ms') },
    })
  })

  it('a body of a byte now and then is left too', async () => {
    registry.on(path, { do: 'slow', chunkBytes: 1, everyMs: 20 })
    const response = await get(`${registry.url}${path}`, { limits: { stallMs: 400 } })
    await expect(response.bytes(300_000)).rejects.toThrow(/only \d+ bytes came in 400 ms/)
  })

  it('a slow reader is not a stalled sender', async () => {
    const large = Buffer.alloc(8_000_000, 'x')
    registry.addBlob({ bytes: large, digest: digestOf(large) })
    const response = await get(`${registry.url}/v2/x/blobs/${digestOf(large)}`, { limits: { stallMs: 80 } })
    const began = performance.now()
    let length = 0
    for await (const chunk of response.body) {
      // Longer than a whole window without reading.
      if (length === 0) await systemClock.sleep(300)
      length += (chunk as Buffer).length
    }
    expect([length, performance.now() - began > 250]).toEqual([large.length, true])
  })

  it('a body that has arrived may be read late', async () => {
    const response = await get(`${registry.url}/v2/`, { limits: { stallMs: 40 } })
    await systemClock.sleep(200)
    await expect(response.text(10)).resolves.toBe('{}')
  })

  it('the caller can cancel it: before, while it waits for the answer, and in the body', async () => {
    const reason = new Error('called off')
    await expect(get(`${registry.url}/v2/`, { signal: AbortSignal.abort(reason) })).rejects.toBe(reason)
    registry.on('/v2/', { do: 'hang' }, 1)
    const waiting = new AbortController()
    const answer = get(`${registry.url}/v2/`, { signal: waiting.signal })
    answer.catch(() => undefined)
    await waitFor(() => registry.requests.length === 1, { what: 'the request to arrive' })
    waiting.abort(reason)
    await expect(answer).rejects.toBe(reason)
    registry.on(path, { do: 'stall', atBytes: 10 })
    const reading = new AbortController()
    const { bytes } = await get(`${registry.url}${path}`, { signal: reading.signal })
    const body = bytes(300_000)
    reading.abort(reason)
    await expect(body).rejects.toBe(reason)
  })
})

describe('E16 SEC21 redirects', () => {
  const credentials = { authorization: 'Basic c2VjcmV0', cookie: 'a=b', 'x-api-key': 'secret', range: 'bytes=5-', accept: 'a/b' }

  it('are followed, and the final URL is reported', async () => {
    registry.on('/start', { do: 'redirect', to: `${other.url}${path}` })
    const response = await get(`${registry.url}/start`)
    expect([response.status, response.url.href]).toEqual([200, `${other.url}${path}`])
    await expect(response.bytes(300_000)).resolves.toEqual(content)
  })

  it('E11 to another origin take no credentials along, and never get them back', async () => {
    registry.on('/start', { do: 'redirect', to: `${other.url}/back` })
    other.on('/back', { do: 'redirect', to: `${registry.url}${path}` })
    const response = await get(`${registry.url}/start`, { headers: credentials })
    expect(response.status).toBe(206)
    expect(registry.requests[0]?.headers).toMatchObject(credentials)
    for (const { headers } of [other.requests[0], registry.requests[1]].filter((seen) => seen !== undefined)) {
      expect(headers).toMatchObject({ range: 'bytes=5-', accept: 'a/b' })
      expect(Object.keys(headers)).not.toContain('authorization')
      expect(Object.keys(headers)).not.toContain('cookie')
      expect(Object.keys(headers)).not.toContain('x-api-key')
    }
    expect([registry.requests.length, other.requests.length]).toEqual([2, 1])
  })

  it('to the same host at another port are to another origin', async () => {
    registry.on('/start', { do: 'redirect', to: `${other.url}${path}` })
    await get(`${registry.url}/start`, { headers: credentials })
    expect(other.requests[0]?.headers.authorization).toBeUndefined()
  })

  it('on the same origin keep them', async () => {
    registry.on('/start', { do: 'redirect', to: path })
    await get(`${registry.url}/start`, { headers: credentials })
    expect(registry.requests.map(({ headers }) => headers.authorization)).toEqual(['Basic c2VjcmV0', 'Basic c2VjcmV0'])
  })

  it.each([
    ['a metadata service', 'http://169.254.169.254/latest/meta-data/'],
    ['a metadata service in other words', 'http://[::ffff:a9fe:a9fe]/'],
    ['a private address', 'https://10.0.0.1/'],
    ['a file', 'file:///etc/passwd'],
    ['another protocol', 'gopher://127.0.0.1/'],
    ['a URL with a password', 'https://u:p@example.com/'],
    ['no URL', 'https://'],
    ['plain http outside the list', 'http://93.184.216.34/'],
    ['a very long one', `/${'x'.repeat(9000)}`],
  ])('to %s are refused', async (_what, to) => {
    registry.on('/start', { do: 'redirect', to })
    await expect(get(`${registry.url}/start`)).rejects.toMatchObject({
      failure: { code: 'invalid', retry: 'never', message: expect.stringMatching(/^source_forbidden: /) },
    })
    expect(registry.requests).toHaveLength(1)
  })

  it('inward advise nobody to allow the metadata address', async () => {
    registry.on('/start', { do: 'redirect', to: 'http://169.254.169.254/latest/meta-data/' })
    const refusal = String(await get(`${registry.url}/start`).catch((error: unknown) => error))
    expect(refusal).toContain(`169.254.169.254 is a metadata address, not a source (${registry.url}/start redirects there)`)
    expect(refusal).not.toContain('--allow-source')
  })

  it('that never end are refused after five', async () => {
    registry.on('/loop', { do: 'redirect', to: '/loop' })
    await expect(get(`${registry.url}/loop`)).rejects.toThrow('more than 5 redirects')
    expect(registry.requests).toHaveLength(6)
    await expect(get(`${registry.url}/loop`, { maxRedirects: 0 })).rejects.toThrow('more than 0 redirects')
    expect(registry.requests).toHaveLength(7)
  })

  it('of a request that changes something are for its caller', async () => {
    registry.on('/start', { do: 'redirect', to: `${other.url}/` })
    await expect(get(`${registry.url}/start`, { method: 'POST', body: Buffer.from('x') })).resolves.toMatchObject({ status: 307 })
    expect(other.requests).toEqual([])
  })
})

describe('SEC21 H19 names', () => {
  it('are resolved once, and connected to where they were checked', async () => {
    const asked: string[] = []
    const outbound = create({
      // The second answer would be another: a name that is bound anew between the check and the connection.
      lookup: (name) => Promise.resolve(asked.push(name) === 1 ? ['127.0.0.1'] : ['169.254.169.254']),
    })
    const { port } = new URL(registry.url)
    const response = await get(`http://rebinding.test:${port}${path}`, {}, outbound)
    expect([response.status, asked, registry.requests[0]?.headers.host]).toEqual([200, ['rebinding.test'], `rebinding.test:${port}`])
  })

  it('are resolved and checked anew for the next request and at each redirect', async () => {
    let asked = 0
    const outbound = create({ lookup: () => Promise.resolve(++asked === 1 ? ['127.0.0.1'] : ['169.254.169.254']) })
    const { port } = new URL(registry.url)
    registry.on('/start', { do: 'redirect', to: `http://rebinding.test:${port}/again` })
    await expect(get(`http://rebinding.test:${port}/start`, {}, outbound)).rejects.toThrow(
      'rebinding.test is at 169.254.169.254, a metadata address',
    )
    expect([asked, registry.requests.length]).toEqual([2, 1])
  })

  it('with one bad address among good ones are not connected to at all', async () => {
    const outbound = create({ lookup: () => Promise.resolve(['127.0.0.1', '10.0.0.1']) })
    await expect(get(`http://two.test:${new URL(registry.url).port}/v2/`, {}, outbound)).rejects.toThrow(
      'two.test is at 10.0.0.1, a private address',
    )
    expect(registry.requests).toEqual([])
  })

  it('with several addresses are reached at one that answers', async () => {
    const outbound = create({ lookup: () => Promise.resolve(['127.0.0.2', '127.0.0.1']) })
    await expect(get(`http://two.test:${new URL(registry.url).port}/v2/`, {}, outbound)).resolves.toMatchObject({ status: 200 })
  })

  it('without an address are unavailable', async () => {
    await expect(get('https://nowhere.test/', {}, create({ lookup: () => Promise.resolve([]) }))).rejects.toMatchObject({
      failure: { code: 'unavailable' },
    })
  })

  it('knows which hosts are listed', () => {
    const outbound = create({ allow: ['a.test', 'b.test:5000', '10.0.0.0/8'] })
    const urls = ['https://a.test/', 'https://A.test./x', 'https://b.test/', 'http://b.test:5000/', 'http://10.1.1.1/', 'http://11.1.1.1/']
    expect(urls.map((url) => outbound.isListed(new URL(url)))).toEqual([true, true, false, true, true, false])
  })
})

describe('https', () => {
  let secure: HostileRegistry
  const certificate = makeCertificate('secure.test')
  beforeEach(async () => {
    secure = await startHostileRegistry({ tls: certificate })
    secure.addBlob(blob)
  })
  afterEach(async () => await secure.stop())

  const lookup = (): Promise<string[]> => Promise.resolve(['127.0.0.1'])
  const secureUrl = (name: string): string => `https://${name}:${new URL(secure.url).port}`

  it('is spoken where the certificate is trusted and has the name', async () => {
    const outbound = create({ lookup, ca: [certificate.cert] })
    const response = await get(`${secureUrl('secure.test')}${path}`, {}, outbound)
    await expect(response.bytes(300_000)).resolves.toEqual(content)
  })

  it('a certificate that is not trusted, or of another name, is refused, listed or not', async () => {
    await expect(get(`${secureUrl('secure.test')}/v2/`, {}, create({ lookup }))).rejects.toMatchObject({ failure: { code: 'unavailable' } })
    const outbound = create({ lookup, ca: [certificate.cert], allow: ['127.0.0.1', 'other.test'] })
    await expect(get(`${secureUrl('other.test')}/v2/`, {}, outbound)).rejects.toThrow(/other\.test.*altnames/)
    expect(secure.requests).toEqual([])
  })

  it('E16 a redirect from https to plain http is refused, also to a listed host', async () => {
    secure.on('/start', { do: 'redirect', to: `${registry.url}${path}` })
    await expect(get(`${secureUrl('secure.test')}/start`, {}, create({ lookup, ca: [certificate.cert] }))).rejects.toThrow(
      'from https to plain http',
    )
    expect(registry.requests).toEqual([])
  })
})
