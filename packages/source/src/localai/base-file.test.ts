import { mkdtemp, mkdir, rm, writeFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { silentLog, systemClock } from '@muster/host'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createOutbound } from '../outbound/create-outbound.ts'
import { createBaseFiles } from './base-file.ts'

const chat = 'name: chat\nconfig_file: |\n  backend: llama-cpp\n  context_size: 4096\n'
const pages: Readonly<Record<string, string>> = {
  '/chat.yaml': chat,
  '/mapping.yaml': 'config_file: { backend: piper }\nfiles: [{ filename: a.zip, uri: "huggingface://o/r/a.zip", sha256: "" }]\n',
  '/empty.yaml': 'name: virtual\n',
  '/twice.yaml': 'config_file: |\n  backend: a\n  backend: b\n',
  '/list.yaml': '- a\n',
  '/large.yaml': `description: "${'x'.repeat(600_000)}"`,
}
let server: Server
let origin = ''
let requests = 0
let directory = ''

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'muster-base-'))
  server = createServer((request, response) => {
    requests++
    const page = pages[request.url ?? '']
    response.writeHead(page === undefined ? 404 : 200).end(page)
  })
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
})
afterAll(async () => {
  server.close()
  await rm(directory, { recursive: true })
})

const remote = 'https://example.com/index.yaml'
const create = (allow = ['127.0.0.1']) =>
  createBaseFiles({ outbound: createOutbound({ allow, clock: systemClock, log: silentLog }), clock: systemClock })
const read = (url: string, galleryUrl = remote) => create().read({ url, galleryUrl }, AbortSignal.timeout(20_000))

describe('a base file', () => {
  it.each<[string, object]>([
    ['/chat.yaml', { config: { backend: 'llama-cpp', context_size: 4096 }, files: [] }],
    ['/mapping.yaml', { config: { backend: 'piper' }, files: [{ filename: 'a.zip', uri: 'hf://o/r/a.zip', unpack: true }] }],
    ['/empty.yaml', { config: {}, files: [] }],
  ])('is read by its address: %s', async (path, base) => {
    expect(await read(origin + path)).toEqual(base)
  })

  it('is read once for many entries, and known from then on', async () => {
    const bases = create()
    const query = { url: `${origin}/chat.yaml`, galleryUrl: remote }
    requests = 0
    expect(bases.known(query)).toBeNull()
    await Promise.all(Array.from({ length: 5 }, () => bases.read(query, AbortSignal.timeout(20_000))))
    expect(requests).toBe(1)
    expect(bases.known(query)).toMatchObject({ config: { backend: 'llama-cpp' } })
  })

  it.each(['', 'base'])('beside an index on this machine is used instead of a github: one: %j', async (folder) => {
    const place = join(directory, `place-${folder}`)
    await mkdir(join(place, folder), { recursive: true })
    await writeFile(join(place, folder, 'chat.yaml'), chat)
    const index = pathToFileURL(join(place, 'index.yaml')).href
    expect(await read('github:o/r/gallery/chat.yaml@master', index)).toMatchObject({ config: { backend: 'llama-cpp' } })
  })

  it.each<[string, () => Promise<unknown>, RegExp]>([
    ['a key twice', () => read(`${origin}/twice.yaml`), /duplicate key "backend"/],
    ['a list', () => read(`${origin}/list.yaml`), /not a mapping/],
    ['600 kB', () => read(`${origin}/large.yaml`), /524288/],
    ['nothing there', () => read(`${origin}/gone.yaml`), /does not exist/],
    ['an unknown scheme', () => read('gopher://h/f'), /unsupported base file "gopher:/],
    ['H19 a file of this machine, named from elsewhere', () => read('file:///etc/passwd'), /only a gallery on the machine itself/],
    [
      'H19 an address of this machine that is not allowed',
      () => create([]).read({ url: `${origin}/chat.yaml`, galleryUrl: remote }, AbortSignal.timeout(9_000)),
      /source_forbidden/,
    ],
  ])('is refused: %s', async (_, attempt, reason) => {
    await expect(attempt()).rejects.toThrow(reason)
  })
})
