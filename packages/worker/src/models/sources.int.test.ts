// Sources of model files other than plain https: other workers, Hugging Face, S3, registries.
import { createHash, createHmac } from 'node:crypto'
import { readFile, writeFile } from 'node:fs/promises'
import type { IncomingMessage } from 'node:http'
import { join } from 'node:path'
import { gatewayPaths, type ModelFile } from '@muster/protocol'
import {
  makeDocument,
  makeImage,
  makeTempDir,
  startFileServer,
  startHostileRegistry,
  startRegistry,
  type FileServer,
} from '@muster/testkit'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createOutbound } from '@muster/source'
import { silentLog, systemClock } from '@muster/host'
import { contentOf, failureOfStage, makeTestModelFiles, never, streamOf, type Content } from '../../test/test-model-files.ts'

let server: FileServer
beforeAll(async () => (server = await startFileServer()))
afterAll(() => server.stop())

const wanted = (uri: string, { sha256 }: Partial<Content> = {}, more: Partial<ModelFile> = {}): ModelFile => ({
  uri,
  filename: 'w.gguf',
  ...(sha256 === undefined ? {} : { sha256 }),
  ...more,
})

describe('the file of --credentials', () => {
  it('logs in to private servers, also over plain http where an operator listed the host', async () => {
    const temp = await makeTempDir()
    const credentials = join(temp.path, 'credentials.yaml')
    await writeFile(credentials, `- { prefix: "${server.url}/private", basic: { username: u, password_env: SECRET } }`, { mode: 0o600 })
    await using tested = await makeTestModelFiles({ flags: { credentials }, env: { SECRET: 'hunter2' } })
    const content = contentOf(1_000)
    for (const path of ['/private/w', '/public/w']) server.put(path, content)
    const seen = async (path: string): Promise<string | undefined> => {
      using _ = await tested.stage(path.slice(1), [wanted(`${server.url}${path}`)])
      return server.requests.findLast((request) => request.path === path)?.headers.authorization
    }
    expect(await seen('/private/w')).toBe(`Basic ${Buffer.from('u:hunter2').toString('base64')}`)
    expect(await seen('/public/w')).toBeUndefined()
    await temp.remove()
  })
})

describe('other workers', () => {
  const put = (content: Content): string => {
    const path = gatewayPaths.file(content.digest)
    server.put(path, { bytes: content.bytes, etag: `"${content.digest}"` })
    return `${server.url}${path}`
  }

  it('W38 are tried first, with the token for the file, and the source is not contacted', async () => {
    await using tested = await makeTestModelFiles()
    const content = contentOf(200_000)
    const url = put(content)
    server.put('/origin', content)
    using staged = await tested.stage('tiny', [
      wanted(`${server.url}/origin`, content, { peers: [{ url, authorization: 'Bearer for-that-file' }] }),
    ])
    expect(await readFile(join(staged.directory, 'w.gguf'))).toEqual(content.bytes)
    expect(server.requests.at(-1)).toMatchObject({
      path: gatewayPaths.file(content.digest),
      headers: { authorization: 'Bearer for-that-file' },
    })
    expect(server.answersFor('/origin')).toEqual([])
  })

  it('W38 that fail or send wrong content are followed by the next one, then by the source, which resumes the download', async () => {
    await using tested = await makeTestModelFiles()
    const content = contentOf(6_000_000)
    const broken = put(content)
    server.on(gatewayPaths.file(content.digest), { do: 'truncate', atBytes: 4_000_000 })
    await using liar = await startFileServer()
    liar.put(gatewayPaths.file(content.digest), contentOf(6_000_000))
    server.put('/rest', content)
    const peers = [
      { url: `${liar.url}${gatewayPaths.file(content.digest)}`, authorization: 'x' },
      { url: 'http://127.0.0.1:1/files/x', authorization: 'x' },
      { url: broken, authorization: 'x' },
    ]
    using staged = await tested.stage('tiny', [wanted(`${server.url}/rest`, content, { peers })])
    expect(await readFile(join(staged.directory, 'w.gguf'))).toEqual(content.bytes)
  })

  it('that lost an upload cause a retryable failure that names them', async () => {
    await using tested = await makeTestModelFiles()
    const content = contentOf(10)
    const peers = [{ url: `${server.url}/files/none`, authorization: 'x' }]
    const failure = await failureOfStage(tested.stage('tiny', [wanted(`upload:${content.digest}`, content, { peers })]))
    expect(failure).toMatchObject({ code: 'unavailable', retry: 'backoff', source: 'files' })
    expect(failure.message).toMatch(/no node that stores it is reachable.*404/)
  })

  it('serve files that they have staged', async () => {
    await using first = await makeTestModelFiles()
    await using second = await makeTestModelFiles()
    const content = contentOf(100_000)
    await first.files.receive(streamOf(content.bytes), { signal: never })
    const opened = await first.files.open(content.digest, null)
    expect(opened?.size).toBe(100_000)
    const url = put(content)
    using staged = await second.stage('tiny', [wanted(`upload:${content.digest}`, {}, { peers: [{ url, authorization: 'x' }] })])
    expect(await readFile(join(staged.directory, 'w.gguf'))).toEqual(content.bytes)
    expect(await second.files.contents()).toEqual(await first.files.contents())
    opened?.stream.destroy()
  })
})

describe('hf://', () => {
  it('is Hugging Face or its mirror; the token is sent there and to no host that it redirects to', async () => {
    const content = contentOf(50_000)
    await using cdn = await startFileServer()
    cdn.put('/blob', content)
    server.on('/hf/owner/repo/resolve/refs%2Fpr%2F1/sub/w%20x.gguf', { do: 'redirect', to: `${cdn.url}/blob` })
    await using tested = await makeTestModelFiles({ flags: { 'hf-endpoint': `${server.url}/hf/` }, env: { HF_TOKEN: 'hf_secret' } })
    using staged = await tested.stage('tiny', [wanted('hf://owner/repo@refs%2Fpr%2F1/sub/w%20x.gguf', content)])
    expect(await readFile(join(staged.directory, 'w.gguf'))).toEqual(content.bytes)
    expect(server.requests.at(-1)?.headers.authorization).toBe('Bearer hf_secret')
    expect(cdn.requests.map(({ headers }) => headers.authorization)).toEqual([undefined])
    const main = contentOf(100)
    server.put('/hf/owner/repo/resolve/main/w.gguf', main)
    using plain = await tested.stage('tiny', [wanted('hf://owner/repo/w.gguf', main)], { revision: 'r2' })
    expect(await readFile(join(plain.directory, 'w.gguf'))).toEqual(main.bytes)
  })

  it.each(['hf://owner/file', 'hf://owner/repo/../../x', 'hf://owner/repo/%2e%2e/x', 'hf://../repo/x', 'hf://owner/repo@../x'])(
    'I19 %s is refused',
    async (uri) => {
      await using tested = await makeTestModelFiles()
      expect(await failureOfStage(tested.stage('tiny', [wanted(uri)]))).toMatchObject({ code: 'invalid', retry: 'never' })
    },
  )
})

describe('s3://', () => {
  const key = { id: 'AKIDEXAMPLE', secret: 'wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY' }

  it('sends a signature that the server can verify from the received request', async () => {
    await using store = await startFileServer()
    const content = contentOf(6_000_000)
    // A plus, a space, brackets and an accent, which careless clients sign wrongly.
    const path = '/bucket/models/a%20%2B%28b%29%C3%A9.gguf'
    store.put(path, { ...content, etag: '"s3"' })
    store.on(path, { do: 'truncate', atBytes: 4_000_000 }, 1)
    store.guard((request) => isSigned(request, key.secret))
    const options = { flags: { 's3-endpoint': store.url, 's3-region': 'eu-central-1' } }
    const uri = 's3://bucket/models/a%20+(b)%C3%A9.gguf'
    await using tested = await makeTestModelFiles({ ...options, env: { AWS_ACCESS_KEY_ID: key.id, AWS_SECRET_ACCESS_KEY: key.secret } })
    using staged = await tested.stage('tiny', [wanted(uri)])
    expect(await readFile(join(staged.directory, 'w.gguf'))).toEqual(content.bytes)
    expect(store.requests[0]?.headers.authorization).toContain(`${key.id}/`)
    expect(store.requests[0]?.headers.authorization).toContain('/eu-central-1/s3/aws4_request')
    await using other = await makeTestModelFiles({ ...options, env: { AWS_ACCESS_KEY_ID: key.id, AWS_SECRET_ACCESS_KEY: 'wrong' } })
    expect(await failureOfStage(other.stage('tiny', [wanted(uri)]))).toMatchObject({
      code: 'invalid',
      message: expect.stringContaining('403') as string,
    })
    await using anonymous = await makeTestModelFiles(options)
    expect(await failureOfStage(anonymous.stage('tiny', [wanted(uri)]))).toMatchObject({ code: 'invalid' })
    expect(store.requests.at(-1)?.headers).not.toHaveProperty('authorization')
  })

  it.each(['s3://b/key', 's3://bucket', 's3://bucket/../other/key', 's3://bucket/%2e%2e/other', 's3://Bucket/key'])(
    'I19 %s is refused',
    async (uri) => {
      await using tested = await makeTestModelFiles()
      expect(await failureOfStage(tested.stage('tiny', [wanted(uri)]))).toMatchObject({ code: 'invalid', retry: 'never' })
    },
  )

  it('E16 passes the outbound guard: a store at a private address must be allowed', async () => {
    await using tested = await makeTestModelFiles({ flags: { 's3-endpoint': 'http://10.1.2.3:9000', 'allow-source': [] } })
    const failure = await failureOfStage(tested.stage('tiny', [wanted('s3://bucket/key')]))
    expect(failure).toMatchObject({ code: 'invalid', message: expect.stringContaining('source_forbidden') as string })
  })
})

describe('oci://', () => {
  const empty = makeDocument(Buffer.from('{}'), 'application/vnd.oci.empty.v1+json')
  const artifact = (layers: readonly { content: Content; title?: string; mediaType?: string }[]) => {
    const config = { mediaType: empty.mediaType, digest: empty.digest, size: empty.bytes.length }
    const described = layers.map(({ content, title, mediaType = 'application/octet-stream' }) => ({
      mediaType,
      digest: content.digest,
      size: content.bytes.length,
      ...(title === undefined ? {} : { annotations: { 'org.opencontainers.image.title': title } }),
    }))
    const mediaType = 'application/vnd.oci.image.manifest.v1+json'
    return makeDocument(Buffer.from(JSON.stringify({ schemaVersion: 2, mediaType, config, layers: described })), mediaType)
  }

  it('selects the layer with the file name as its title, in a real registry', async () => {
    await using registry = await startRegistry()
    const [model, card] = [contentOf(400_000), contentOf(1_000)]
    const manifest = artifact([
      { content: card, title: 'README.md' },
      { content: model, title: 'w.gguf' },
    ])
    await push(registry.url, { repository: 'models/tiny', tag: 'v1', blobs: [empty.bytes, model.bytes, card.bytes], manifest })
    await using tested = await makeTestModelFiles()
    using staged = await tested.stage('tiny', [
      wanted(`oci://${registry.host}/models/tiny:v1`),
      wanted(`oci://${registry.host}/models/tiny:v1`, {}, { filename: 'docs/README.md' }),
    ])
    expect(await readFile(join(staged.directory, 'w.gguf'))).toEqual(model.bytes)
    expect(await readFile(join(staged.directory, 'docs/README.md'))).toEqual(card.bytes)
    const failure = await failureOfStage(tested.stage('tiny', [wanted(`oci://${registry.host}/models/tiny:v1`, {}, { filename: 'x' })]))
    expect(failure).toMatchObject({ code: 'not_found', message: expect.stringContaining('"README.md", "w.gguf"') as string })
    expect(
      await failureOfStage(tested.stage('tiny', [wanted(`oci://${registry.host}/models/tiny:v1`, contentOf(3))], { revision: 'r2' })),
    ).toMatchObject({
      code: 'integrity',
      retry: 'never',
    })
  })

  it('selects the only layer or the only one with weights; otherwise it is refused', async () => {
    await using registry = await startHostileRegistry()
    const [model, other] = [contentOf(10_000), contentOf(10_000)]
    for (const { digest, bytes } of [model, other, empty]) registry.addBlob({ digest, bytes })
    registry.addManifest('m/only', artifact([{ content: model }]), 'v1')
    registry.addManifest(
      'm/ollama',
      artifact([{ content: other }, { content: model, mediaType: 'application/vnd.ollama.image.model' }]),
      'v1',
    )
    registry.addManifest('m/two', artifact([{ content: other }, { content: model }]), 'v1')
    await using tested = await makeTestModelFiles()
    for (const name of ['only', 'ollama']) {
      using staged = await tested.stage(name, [wanted(`oci://${registry.host}/m/${name}:v1`)])
      expect(await readFile(join(staged.directory, 'w.gguf'))).toEqual(model.bytes)
    }
    expect(await failureOfStage(tested.stage('two', [wanted(`oci://${registry.host}/m/two:v1`)]))).toMatchObject({ code: 'not_found' })
    registry.addImage('m/image', makeImage({ layers: [Buffer.from('tar')] }), 'v1')
    registry.on(/blobs/, { do: 'corrupt', byte: 12 })
    expect(await failureOfStage(tested.stage('image', [wanted(`oci://${registry.host}/m/image:v1`)]))).toMatchObject({ code: 'integrity' })
  })
})

/** Pushes as ORAS does: blobs first, then the manifest. */
async function push(
  url: string,
  {
    repository,
    tag,
    blobs,
    manifest,
  }: { repository: string; tag: string; blobs: readonly Buffer[]; manifest: { bytes: Buffer; mediaType: string } },
): Promise<void> {
  const outbound = createOutbound({ allow: ['127.0.0.1'], clock: systemClock, log: silentLog })
  const send = async (to: string | URL, method: 'POST' | 'PUT', body: Buffer, headers = {}): Promise<string> => {
    const response = await outbound.request({ url: new URL(to), method, body, headers, signal: never })
    expect(response.status, await response.text(10_000)).toBeLessThan(300)
    return response.headers['location'] ?? ''
  }
  for (const bytes of blobs) {
    const at = new URL(await send(`${url}/v2/${repository}/blobs/uploads/`, 'POST', Buffer.alloc(0)), url)
    at.searchParams.set('digest', `sha256:${createHash('sha256').update(bytes).digest('hex')}`)
    await send(at, 'PUT', bytes, { 'content-type': 'application/octet-stream' })
  }
  await send(`${url}/v2/${repository}/manifests/${tag}`, 'PUT', manifest.bytes, { 'content-type': manifest.mediaType })
}

/** Signature Version 4 by Amazon's specification, over the request as received. */
function isSigned({ method, url = '', headers }: IncomingMessage, secret: string): boolean {
  const [, scope = '', names = '', signature] =
    /^AWS4-HMAC-SHA256 Credential=[^/]+\/(\S+), SignedHeaders=([^,]+), Signature=([0-9a-f]{64})$/.exec(headers.authorization ?? '') ?? []
  const [date = '', region = '', service = ''] = scope.split('/')
  const at = String(headers['x-amz-date'])
  if (Math.abs(Date.now() - Date.parse(at.replace(/^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/, '$1-$2-$3T$4:$5:$6Z'))) > 900_000)
    return false
  if (!names.split(';').includes('host')) return false
  const canonical = [
    method,
    url,
    '',
    ...names.split(';').map((name) => `${name}:${String(headers[name]).trim()}`),
    '',
    names,
    headers['x-amz-content-sha256'],
  ].join('\n')
  const hash = createHash('sha256').update(canonical).digest('hex')
  const mac = (key: string | Buffer, text: string): Buffer => createHmac('sha256', key).update(text).digest()
  const signing = mac(mac(mac(mac(`AWS4${secret}`, date), region), service), 'aws4_request')
  return mac(signing, ['AWS4-HMAC-SHA256', at, scope, hash].join('\n')).toString('hex') === signature
}
