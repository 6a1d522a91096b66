// Logins by URL prefix and own certificate authorities, against servers on loopback that demand them.
import { chmod, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { buffer, text } from 'node:stream/consumers'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { createLog, defineSettings, resolveSettings, systemClock, type Log } from '@muster/host'
import {
  makeCertificate,
  makeImage,
  makeTempDir,
  startHostileRegistry,
  startLoopbackServer,
  type HostileRegistry,
  type LoopbackServer,
  type TempDir,
} from '@muster/testkit'
import { createFileClient } from './file/create-file-client.ts'
import { locateFile } from './file/locate-file.ts'
import { createGalleryReader } from './gallery/read-gallery.ts'
import { parseReference } from './oci/reference.ts'
import { createSourceClients, openSourceAccess, sourceSettings } from './source-clients.ts'

const never = new AbortController().signal
const basic = `Basic ${Buffer.from('reader:hunter2').toString('base64')}`
const tls = makeCertificate('127.0.0.1')

interface SeenRequest {
  readonly path: string
  readonly authorization: string | undefined
  readonly key: string | undefined
}

let dir: TempDir
let server: LoopbackServer
let other: LoopbackServer
let seen: SeenRequest[]
let elsewhere: SeenRequest[]
let logged: string
let log: Log

/** `/basic`, `/bearer` and `/header` demand a login, `/away` redirects to another origin, `/back` to `/basic` of the same. */
const accepted: Readonly<Record<string, (request: SeenRequest) => boolean>> = {
  basic: ({ authorization }) => authorization === basic,
  bearer: ({ authorization }) => authorization === 'Bearer t0ken',
  header: ({ key }) => key === 'k3y',
}
const content = '- name: llama\n  uri: oci://example/llama:1\n'

beforeEach(async () => {
  dir = await makeTempDir('credentials')
  logged = ''
  log = createLog({ level: 'debug', format: 'json', stream: { write: (line: string) => void (logged += line) } })
  seen = []
  elsewhere = []
  other = await startLoopbackServer((request, response) => {
    elsewhere.push(requestOf(request))
    response.writeHead(200).end(content)
  }, tls)
  server = await startLoopbackServer((request, response) => {
    const asked = requestOf(request)
    seen.push(asked)
    const [, first = ''] = asked.path.split('/')
    if (first === 'away') return void response.writeHead(302, { location: `${other.url}/basic/x` }).end()
    if (first === 'back') return void response.writeHead(302, { location: '/basic/x' }).end()
    if (first === 'out') return void response.writeHead(302, { location: '/public/x' }).end()
    const isAllowed = accepted[first]?.(asked) ?? true
    response.writeHead(isAllowed ? 200 : 401).end(isAllowed ? content : '')
  }, tls)
  await writeFile(join(dir.path, 'ca.pem'), tls.cert)
})
afterEach(async () => {
  await server.stop()
  await other.stop()
  await dir.remove()
})

const requestOf = ({ url = '', headers }: { url?: string | undefined; headers: Record<string, unknown> }): SeenRequest => ({
  path: url,
  authorization: headers['authorization'] as string | undefined,
  key: headers['x-api-key'] as string | undefined,
})

const file = (): string => join(dir.path, 'credentials.yaml')
async function write(entries: string, path = file()): Promise<void> {
  await writeFile(`${path}.new`, entries, { mode: 0o600 })
  await rename(`${path}.new`, path)
}

const settings = defineSettings(sourceSettings)
function clients(env: Readonly<Record<string, string>> = {}, allow = ['127.0.0.0/8']) {
  const given = resolveSettings(settings, { flags: { credentials: file(), 'source-ca': join(dir.path, 'ca.pem') }, env: {} })
  const access = openSourceAccess(given, { env, log })
  const made = createSourceClients({ allow, access, clock: systemClock, log })
  return { ...made, files: createFileClient({ outbound: made.outbound, clock: systemClock, log }) }
}
const fetchText = async (path: string, from = clients()): Promise<string> =>
  await text((await from.files(new URL(path, server.url), { offset: 0, signal: never })).stream)

describe('a credentials file', () => {
  it.each([
    ['basic', '{ username: reader, password: hunter2 }'],
    ['basic', '{ username: reader, password_env: READER }'],
    ['bearer', '{ token: t0ken }'],
    ['header', '{ name: X-Api-Key, value: k3y }'],
  ])('logs in by %s: %s', async (kind, login) => {
    await write(`- { prefix: "${server.url}/${kind}", ${kind}: ${login} }`)
    await expect(fetchText(`/${kind}/model.gguf`, clients({ READER: 'hunter2' }))).resolves.toBe(content)
    await expect(fetchText(`/${kind === 'basic' ? 'bearer' : 'basic'}/model.gguf`)).rejects.toThrow(/401.*--credentials/)
    expect(logged).not.toMatch(/hunter2|t0ken|k3y/)
  })

  it('logs in to galleries, to Hugging Face behind an own address, and to archives', async () => {
    await write(`- { prefix: "${server.url}/basic", basic: { username: reader, password: hunter2 } }`)
    const { outbound, files } = clients()
    const read = createGalleryReader({ outbound, readBuiltin: () => Promise.reject(new Error('not built in')) })
    await expect(read({ name: 'own', url: `${server.url}/basic/index.yaml` }, never)).resolves.toMatchObject({
      entries: [{ name: 'llama' }],
    })
    const s3 = { endpoint: null, region: 'r', credentials: null }
    const origins = { hf: { endpoint: `${server.url}/basic`, token: null }, s3 }
    const located = locateFile({ kind: 'hf', repository: 'o/r', revision: 'main', path: 'm.gguf' }, { origins, clock: systemClock })
    await expect(files(located.url, { offset: 0, signal: never })).resolves.toMatchObject({ offset: 0 })
    expect(seen.map(({ path }) => path)).toEqual(['/basic/index.yaml', '/basic/o/r/resolve/main/m.gguf'])
  })

  it('never goes to another origin after a redirect, also when that origin has a login of its own', async () => {
    await write(`- { prefix: "${server.url}", basic: { username: reader, password: hunter2 } }
- { prefix: "${other.url}", bearer: { token: t0ken } }`)
    await expect(fetchText('/away')).resolves.toBe(content)
    expect(elsewhere).toEqual([{ path: '/basic/x', authorization: undefined, key: undefined }])
  })

  it('counts for each path of its origin', async () => {
    await write(`- { prefix: "${server.url}/basic", basic: { username: reader, password: hunter2 } }
- { prefix: "${server.url}/out", header: { name: x-api-key, value: k3y } }`)
    await expect(fetchText('/back')).resolves.toBe(content)
    await expect(fetchText('/out')).resolves.toBe(content)
    expect(seen.map(({ path, authorization, key }) => [path, authorization, key])).toEqual([
      ['/back', undefined, undefined],
      ['/basic/x', basic, undefined],
      ['/out', undefined, 'k3y'],
      ['/public/x', undefined, undefined],
    ])
  })

  it('takes effect without a restart when it changes, and so does a secret in a file of its own', async () => {
    await write(`- { prefix: "${server.url}/basic", basic: { username: reader, password: old } }`)
    const from = clients()
    await expect(fetchText('/basic/x', from)).rejects.toThrow('401')
    const secret = join(dir.path, 'secret')
    await write(`- { prefix: "${server.url}/basic", basic: { username: reader, password_file: "${secret}" } }`)
    await expect(fetchText('/basic/x', from)).rejects.toMatchObject({
      failure: { code: 'unavailable', message: expect.stringContaining(`cannot be read (ENOENT)`) },
    })
    await write('hunter2\n', secret)
    await expect(fetchText('/basic/x', from)).resolves.toBe(content)
  })

  it.each<[string, () => Promise<unknown>, RegExp]>([
    ['damaged', () => write('- prefix: [hunter2'), /is not YAML/],
    ['removed', () => rm(file()), /ENOENT/],
    ['readable by everyone', () => chmod(file(), 0o644), /chmod 600/],
  ])('that is %s later keeps its last content, and is logged once', async (_, spoil, reason) => {
    await write(`- { prefix: "${server.url}/basic", basic: { username: reader, password: hunter2 } }`)
    const from = clients()
    await fetchText('/basic/x', from)
    await spoil()
    await expect(fetchText('/basic/x', from)).resolves.toBe(content)
    await fetchText('/basic/x', from)
    expect(logged.match(/credentials file is not usable/g)).toHaveLength(1)
    expect(logged).toMatch(reason)
    expect(logged).not.toContain('hunter2')
  })

  it('is refused at the start when everyone can read it, or it is not there', async () => {
    await write(`- { prefix: "${server.url}", bearer: { token: t0ken } }`)
    await chmod(file(), 0o644)
    expect(() => clients()).toThrow(/--credentials .*every user of this machine can read.*chmod 600/)
    await rm(file())
    expect(() => clients()).toThrow(/--credentials .*ENOENT/)
  })
})

describe('registries', () => {
  const image = makeImage({ layers: [Buffer.from('one')] })
  let registry: HostileRegistry
  beforeEach(async () => {
    registry = await startHostileRegistry({ tls })
    registry.addImage('team/llama', image, 'v1')
  })
  afterEach(async () => await registry.stop())
  const resolve = () => clients().oci.resolve(parseReference(`${registry.host}/team/llama:v1`), { os: 'linux', arch: 'amd64' }, never)

  it('get a basic login for a repository at once, also under a certificate of their own', async () => {
    await write(`- { prefix: "${registry.url}/v2/team", basic: { username: reader, password: hunter2 } }`)
    registry.guard({ challenge: 'Basic realm="x"', accepts: (header) => header === basic })
    const { layers } = await resolve()
    expect(layers).toHaveLength(1)
    const [layer] = layers
    const blob = await clients().oci.openBlob(parseReference(`${registry.host}/team/llama:v1`), layer?.digest ?? expect.unreachable(), {
      offset: 0,
      signal: never,
    })
    await expect(buffer(blob.stream)).resolves.toEqual(image.layers[0]?.bytes)
  })

  it('get a token from their token service, to which the login of the registry goes', async () => {
    await write(`- { prefix: "${registry.url}", basic: { username: reader, password: hunter2 } }`)
    registry.guard({ challenge: `Bearer realm="${registry.url}/token",service="reg"`, accepts: (header) => header === 'Bearer good' })
    registry.on('/token', { do: 'answer', status: 200, body: '{"token":"good"}' })
    await resolve()
    const tokens = registry.requests.filter(({ path }) => path.startsWith('/token'))
    expect(tokens.map(({ headers }) => headers.authorization)).toEqual([basic])
    expect(registry.requests.filter(({ headers }) => headers.authorization === 'Bearer good')).not.toEqual([])
  })

  it('are refused without the certificate authority that signed theirs', async () => {
    await write(`- { prefix: "${registry.url}", basic: { username: reader, password: hunter2 } }`)
    await writeFile(join(dir.path, 'ca.pem'), makeCertificate('127.0.0.1').cert)
    await expect(resolve()).rejects.toMatchObject({ failure: { code: 'unavailable', message: expect.stringMatching(/certificate/) } })
    expect(registry.requests).toEqual([])
  })
})
