import { mkdtemp, rm, truncate, writeFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { silentLog, systemClock } from '@muster/host'
import { Digest } from '@muster/protocol'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createOutbound } from '../outbound/create-outbound.ts'
import { formatBuiltinUri, parseBuiltinUri } from './source-uri.ts'
import { createGalleryReader, galleryUrl } from './read-gallery.ts'

const digest = Digest.parse(`sha256:${'a'.repeat(64)}`)
const pages: Readonly<Record<string, string>> = {
  '/good': '- {name: a, uri: "h/a:1"}',
  '/files': '- {name: a, uri: "file:///opt/a"}',
  '/bad': '- {name: a',
  '/large': `- {name: a, description: "${'x'.repeat(9_000_000)}"}`,
}
let server: Server
let base: string
let directory: string

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'muster-gallery-'))
  server = createServer((request, response) => {
    const page = pages[request.url ?? '']
    if (request.url === '/to-metadata') response.writeHead(302, { location: 'http://169.254.169.254/latest' }).end()
    else response.writeHead(page === undefined ? 404 : 200).end(page)
  })
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
})
afterAll(async () => {
  server.close()
  await rm(directory, { recursive: true })
})

const read = (url: string, allow = ['127.0.0.1']) =>
  createGalleryReader({
    outbound: createOutbound({ allow, clock: systemClock, log: silentLog }),
    readBuiltin: async () => '- {name: echo, uri: "builtin://echo@sha256:1"}',
  })({ name: 'g', url }, AbortSignal.timeout(20_000))

describe('a gallery is read', () => {
  it('over http from a listed host', async () => {
    expect(await read(`${base}/good`)).toMatchObject({ name: 'g', entries: [{ name: 'a', uri: 'h/a:1' }] })
  })

  it('from a file, which may name files', async () => {
    const path = join(directory, 'index.yaml')
    await writeFile(path, pages['/files'] ?? '')
    expect(await read(pathToFileURL(path).href)).toMatchObject({ entries: [{ uri: 'file:///opt/a' }] })
  })

  it('from elsewhere, without its entries that name files', async () => {
    expect(await read(`${base}/files`)).toMatchObject({
      entries: [],
      leftOut: [{ name: 'a', message: expect.stringContaining('names a file of the node') as string }],
    })
  })

  it('again only if its text is another', async () => {
    const path = join(directory, 'again.yaml')
    const address = { name: 'g', url: pathToFileURL(path).href }
    const outbound = createOutbound({ allow: [], clock: systemClock, log: silentLog })
    const reader = createGalleryReader({ outbound, readBuiltin: () => Promise.reject(new Error('not requested')) })
    await writeFile(path, pages['/good'] ?? '')
    const first = await reader(address, AbortSignal.timeout(20_000))
    expect(await reader(address, AbortSignal.timeout(20_000))).toBe(first)
    await writeFile(path, '- {name: b, uri: "h/b:1"}')
    expect(await reader(address, AbortSignal.timeout(20_000))).toMatchObject({ entries: [{ name: 'b' }] })
  })

  it("from Muster's own, which may name built-in backends", async () => {
    expect(await read(formatBuiltinUri({ name: 'gallery', digest }))).toMatchObject({ entries: [{ name: 'echo' }] })
  })
})

describe('H19 the address of a gallery', () => {
  it.each([
    ['an address of this machine that is not listed', () => read(`${base}/good`, []), 'source_forbidden'],
    ['the metadata service', () => read('http://169.254.169.254/latest'), 'source_forbidden'],
    ['a mapped loopback address', () => read('http://[::ffff:127.0.0.1]/', []), 'source_forbidden'],
    ['the address of nobody', () => read('http://0.0.0.0/', []), 'source_forbidden'],
    ['a decimal address', () => read('http://2130706433/', []), 'source_forbidden'],
    ['an octal address', () => read('http://0177.0.0.1/', []), 'source_forbidden'],
    ['a redirect to the metadata service', () => read(`${base}/to-metadata`), 'source_forbidden'],
    ['a password in the address', () => read('https://u:p@example.com/x'), 'no address that can be read'],
    ['another scheme', () => read('ftp://example.com/x'), 'no address that can be read'],
    ['a page that is not there', () => read(`${base}/nothing`), 'answered 404'],
    ['a page of 9 MB', () => read(`${base}/large`), '8388608'],
    ['broken YAML', () => read(`${base}/bad`), 'cannot read the gallery g'],
    ['a file that is not there', () => read('file:///nothing/there'), 'ENOENT'],
  ])('is refused: %s', async (_, attempt, reason) => {
    await expect(attempt()).rejects.toMatchObject({
      name: expect.stringMatching(/Error|Forbidden/) as string,
      message: expect.stringContaining(reason) as string,
    })
  })

  it('is refused: a file of 9 MB', async () => {
    const path = join(directory, 'large.yaml')
    await writeFile(path, '')
    await truncate(path, 9_000_000)
    await expect(read(pathToFileURL(path).href)).rejects.toThrow('at most 8388608')
  })
})

describe('addresses', () => {
  it.each([
    ['github:mudler/LocalAI/backend/index.yaml@master', 'https://raw.githubusercontent.com/mudler/LocalAI/master/backend/index.yaml'],
    ['github:a/b/c.yaml', 'https://raw.githubusercontent.com/a/b/main/c.yaml'],
    ['https://example.com/index.yaml', 'https://example.com/index.yaml'],
  ])('%s is read at %s', (text, want) => {
    expect(galleryUrl(text)?.href).toBe(want)
  })

  it.each(['', 'index.yaml', 'github:a', 'javascript:alert(1)'])('%j is none', (text) => {
    expect(galleryUrl(text)).toBeNull()
  })

  it.each([
    'builtin://echo',
    'builtin://echo@sha256:ab',
    `builtin://../x@${digest}`,
    `builtin://a@${digest.toUpperCase()}`,
    `builtin://a@${digest}/x`,
  ])('%j names nothing built in', (text) => {
    expect(parseBuiltinUri(text)).toBeNull()
  })
})
