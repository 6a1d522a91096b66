import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { silentLog, systemClock } from '@muster/host'
import { createOutbound } from '@muster/source'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { createMeasureFiles } from './measure-files.ts'

const sizes: Readonly<Record<string, number>> = { '/a': 700, '/o/r/resolve/main/b.gguf': 300 }
const methods = new Set<string | undefined>()
let server: Server
let url = ''

beforeAll(async () => {
  server = createServer((request, response) => {
    methods.add(request.method)
    const size = sizes[request.url ?? '']
    if (request.url === '/moved') return response.writeHead(302, { location: '/a' }).end()
    response.writeHead(size === undefined ? 404 : 200, size === undefined ? {} : { 'content-length': size }).end()
  })
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
})
afterAll(() => server.close())

const measure = (...uris: string[]) =>
  createMeasureFiles({
    outbound: createOutbound({ allow: ['127.0.0.1'], clock: systemClock, log: silentLog }),
    origins: { hf: { endpoint: url, token: null }, s3: { endpoint: null, region: '', credentials: null } },
    clock: systemClock,
  })(
    uris.map((uri, index) => ({ uri, filename: String(index) })),
    AbortSignal.timeout(20_000),
  )

it('files are measured by the headers of their servers', async () => {
  expect(await measure(`${url}/a`, `${url}/moved`, 'hf://o/r/b.gguf')).toBe(1_700)
  expect(methods).toEqual(new Set(['HEAD']))
})

it.each<[string, () => readonly string[]]>([
  ['there are none', () => []],
  ['one is not there', () => [`${url}/a`, `${url}/gone`]],
  ['one has another kind of source', () => [`${url}/a`, 'oci://registry.example.com/x:1']],
  ['one is at an address that is not allowed', () => ['http://169.254.169.254/a']],
  ['there are too many', () => Array.from({ length: 17 }, () => `${url}/a`)],
])('the size of files is unknown when %s', async (_, uris) => {
  expect(await measure(...uris())).toBeNull()
})
