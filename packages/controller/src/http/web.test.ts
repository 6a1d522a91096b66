// The files of the web UI as a browser requests them, on a real socket.
import { request } from 'node:http'
import { brotliCompressSync, brotliDecompressSync, gunzipSync, gzipSync } from 'node:zlib'
import { silentLog, systemClock } from '@muster/host'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { PrincipalFinder } from '../auth/principal.ts'
import type { PageFile, PageState } from '../page/page.ts'
import { createApp } from './app.ts'
import { claimAddress } from './server.ts'
import { webFallback, webEndpoints } from './web.ts'

const file = (type: string, text: string, some: Partial<PageFile> = {}): PageFile => {
  const bytes = Buffer.from(text)
  return { type, etag: `"${text.length}"`, isImmutable: false, bytes, br: brotliCompressSync(bytes), gzip: gzipSync(bytes), ...some }
}
const html = '<!doctype html><title>Muster</title>'
const built: PageState = {
  state: 'built',
  files: new Map([
    ['/index.html', file('text/html; charset=utf-8', html)],
    ['/assets/index-1a2b.js', file('text/javascript; charset=utf-8', 'export {}', { isImmutable: true })],
    ['/before.js', file('text/javascript; charset=utf-8', 'theme()')],
  ]),
}

let page: PageState = built
let address: Awaited<ReturnType<typeof claimAddress>>
beforeAll(async () => {
  address = await claimAddress({ host: '127.0.0.1', port: 0 })
  const app = createApp({
    ...{ endpoints: webEndpoints(() => page), verifyRequest: () => ({ ok: false }) as never, isStarted: () => true, sharedNow: () => null },
    ...{ stopping: new AbortController().signal, clock: systemClock, log: silentLog, onAnswer: () => undefined },
    fallbackPage: (given) => webFallback(() => page, given),
    principals: {} as unknown as PrincipalFinder,
    listener: { isLoopback: true, publicHost: null } as never,
  })
  address.serve({ fetch: app.fetch, raw: () => false }, silentLog)
})
afterAll(() => address.release())
beforeEach(() => {
  page = built
})

interface Got {
  readonly status: number
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly body: Buffer
}
/** Uses node:http, which sends paths unchanged and does not decompress. */
const ask = (path: string, headers: Record<string, string> = {}, method = 'GET'): Promise<Got> =>
  new Promise((resolve, reject) => {
    const call = request({ host: '127.0.0.1', port: address.port, path, method, headers }, (response) => {
      const chunks: Buffer[] = []
      response.on('data', (chunk: Buffer) => chunks.push(chunk))
      response.on('end', () => resolve({ status: response.statusCode ?? 0, headers: response.headers, body: Buffer.concat(chunks) }))
    })
    call.on('error', reject).end()
  })

describe('the files of the page', () => {
  it.each<[string, string, string | undefined, (body: Buffer) => Buffer]>([
    ['brotli where it is understood', 'gzip, deflate, br, zstd', 'br', (body) => brotliDecompressSync(body)],
    ['gzip where only that is', 'gzip, deflate', 'gzip', (body) => gunzipSync(body)],
    ['gzip where brotli is refused', 'br;q=0, gzip', 'gzip', (body) => gunzipSync(body)],
    ['as they are otherwise', 'identity', undefined, (body) => body],
  ])('are sent as %s', async (...[, accepted, encoding, unpack]) => {
    const { status, headers, body } = await ask('/nodes', { 'accept-encoding': accepted })
    expect([status, headers['content-encoding'], headers['vary'], unpack(body).toString()]).toEqual([
      200,
      encoding,
      'accept-encoding',
      html,
    ])
    expect(Number(headers['content-length'] ?? body.length)).toBe(body.length)
  })

  it.each([
    '/',
    '/nodes',
    '/nodes/some-node',
    '/backends',
    '/models',
    '/models/new',
    '/models/a%2Fb',
    '/operations',
    '/playground',
    '/settings',
  ])('the path %s shows the page', async (path) =>
    expect([(await ask(path)).status, (await ask(path)).body.toString()]).toEqual([200, html]),
  )

  it('the page is revalidated each time, a file with a hash in its name is cached forever', async () => {
    const first = await ask('/')
    expect(first.headers['cache-control']).toBe('no-cache')
    const etag = String(first.headers['etag'])
    for (const known of [etag, `W/${etag}`, `"other", ${etag}`]) {
      const again = await ask('/', { 'if-none-match': known })
      expect([again.status, again.body.length, again.headers['etag']]).toEqual([304, 0, etag])
    }
    expect((await ask('/', { 'if-none-match': '"other"' })).status).toBe(200)
    expect((await ask('/before.js')).headers['cache-control']).toBe('no-cache')
    const asset = await ask('/assets/index-1a2b.js')
    expect([asset.headers['cache-control'], asset.headers['content-type']]).toEqual([
      'public, max-age=31536000, immutable',
      'text/javascript; charset=utf-8',
    ])
  })

  it('HEAD returns the headers without the file', async () => {
    const head = await ask('/assets/index-1a2b.js', { 'accept-encoding': 'br' }, 'HEAD')
    expect([head.status, head.body.length, head.headers['content-encoding']]).toEqual([200, 0, 'br'])
  })

  it('a file of another build is 404 and not cached', async () => {
    const gone = await ask('/assets/index-0000.js')
    expect([gone.status, gone.body.toString()]).toEqual([404, 'there is no such file; reload the page'])
    expect(gone.headers['cache-control']).toBe('no-store')
  })

  it.each([
    '/assets/../index.html',
    '/assets/../../package.json',
    '/assets/..%2f..%2fpackage.json',
    '/assets/%2e%2e/%2e%2e/package.json',
    '/assets/..%5c..%5cpackage.json',
    '//etc/passwd',
    '/assets//etc/passwd',
    '/assets/index-1a2b.js%00.html',
    '/assets/index-1a2b.js.br',
    '/assets/__proto__',
    '/../../../etc/passwd',
    '/before.js/../../package.json',
  ])('%s is not found', async (path) => {
    const { status, body } = await ask(path)
    // A URL is the page or nothing: there is no file system behind it.
    if (status === 200) expect([html, 'theme()']).toContain(body.toString())
    else
      expect([status, body.toString()]).toEqual([
        expect.toSatisfy((code: number) => code === 404 || code === 400),
        expect.not.stringContaining('root:'),
      ])
  })
})

describe('the security policy of the page', () => {
  it.each<[string, PageState, string]>([
    ['the page', built, '/'],
    ['a file', built, '/assets/index-1a2b.js'],
    ['a file that is not there', built, '/assets/gone.js'],
    ['the page that is being built', { state: 'building' }, '/'],
  ])('%s has a policy that forbids inline scripts and foreign content', async (_, state, path) => {
    page = state
    const { headers } = await ask(path)
    const policy = String(headers['content-security-policy'])
    expect(policy).toBe(
      "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'; img-src 'self' data:",
    )
    expect(policy).not.toMatch(/unsafe-(inline|eval)/)
    expect([headers['x-content-type-options'], headers['referrer-policy']]).toEqual(['nosniff', 'no-referrer'])
  })
})

describe('a page that is not built yet', () => {
  it('shows that, reloads automatically, and is not cached', async () => {
    page = { state: 'building' }
    const { status, headers, body } = await ask('/nodes')
    expect([status, headers['retry-after'], headers['cache-control']]).toEqual([503, '1', 'no-store'])
    expect(body.toString()).toContain('<meta http-equiv="refresh" content="1">')
    expect(body.toString()).toContain('is being built')
  })

  it('shows the build error as text', async () => {
    page = { state: 'failed', message: 'main.tsx: unexpected <script>alert(1)</script> & more' }
    const { status, body } = await ask('/')
    expect([status, body.toString().includes('<script')]).toEqual([503, false])
    expect(body.toString()).toContain('unexpected &#60;script&#62;alert(1)&#60;/script&#62; &#38; more')
  })
})

describe('an unknown path', () => {
  const browser = { accept: 'text/html,application/xhtml+xml' }
  it('shows the page to a browser, with 404', async () => {
    const { status, headers, body } = await ask('/nowhere/at/all', browser)
    expect([status, headers['content-type'], body.toString()]).toEqual([404, 'text/html; charset=utf-8', html])
  })

  it.each([
    ['of the API', '/api/nowhere', browser, 'GET'],
    ['of inference', '/v1/nowhere', browser, 'GET'],
    ['for a program', '/nowhere', { accept: 'application/json' }, 'GET'],
    ['that is sent something', '/nowhere', browser, 'POST'],
  ])('is an ordinary error %s', async (_, path, headers, method) => {
    const { status, headers: given } = await ask(path, headers, method)
    expect(status).toBe(404)
    expect(given['content-type']).toContain('application/json')
  })
})
