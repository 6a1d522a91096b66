// Galleries and what comes with Muster, as administrators and nodes see them.
import { createHash } from 'node:crypto'
import { spawn } from 'node:child_process'
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { zstdDecompressSync } from 'node:zlib'
import { createNodeKey, signRequest, type NodeKey } from '@muster/host'
import { Digest } from '@muster/protocol'
import {
  createNodeCaller,
  createProcesses,
  createTestDatabase,
  freePort,
  joinToken,
  makeTempDir,
  startNats,
  startTestController,
  waitFor,
  type NodeCaller,
  type TempDir,
  type TestController,
} from '@muster/testkit'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'

let cluster: TestController
let directory: TempDir
let databaseUrl: string
let natsUrl: string
let node: NodeCaller
let nodeId: string
const endings: (() => Promise<unknown>)[] = []

beforeAll(async () => {
  const nats = await startNats()
  natsUrl = nats.url
  directory = await makeTempDir()
  const database = await createTestDatabase({ serverUrl: inject('postgresUrl') })
  databaseUrl = database.url
  cluster = await startTestController({
    directory: directory.path,
    databaseUrl,
    flags: { 'nats-url': natsUrl, gallery: 'flagged=https://example.com/a.yaml' },
  })
  endings.push(
    () => cluster.stop(),
    () => nats.stop(),
    () => database.drop(),
    () => directory.remove(),
  )
  node = createNodeCaller(cluster.url)
  nodeId = String((await node.register({ token: joinToken })).body['id'])
})
afterAll(async () => {
  for (const end of endings) await end()
})

const get = async (
  path: string,
  headers: Readonly<Record<string, string>> = {},
  as: NodeKey = node.key,
): Promise<{ status: number; bytes: Buffer; headers: Headers }> => {
  const signed = signRequest(as, { method: 'GET', path, body: new Uint8Array(), now: new Date() })
  const response = await fetch(`${cluster.url}${path}`, { headers: { ...signed, ...headers } })
  return { status: response.status, bytes: Buffer.from(await response.arrayBuffer()), headers: response.headers }
}
const blobPath = (digest: string, id = nodeId): string => `/api/node/${id}/blobs/${digest}`
const sha256 = (bytes: Uint8Array): string => `sha256:${createHash('sha256').update(bytes).digest('hex')}`
const listed = async (): Promise<{ name: string; url: string; kind: string; from: string }[]> =>
  (await cluster.api.get('/api/galleries')).body['galleries'] as unknown as { name: string; url: string; kind: string; from: string }[]
const galleryDigest = async (): Promise<string> => (await listed())[0]?.url.split('@')[1] ?? ''

describe('/api/galleries', () => {
  it('lists the built-in one, those of the settings and those that were added, in the order of trust', async () => {
    expect(await cluster.api.put('/api/galleries/mine', { url: 'https://example.com/index.yaml', kind: 'backend' })).toMatchObject({
      status: 200,
      body: { name: 'mine', url: 'https://example.com/index.yaml', kind: 'backend', from: 'api' },
    })
    expect((await listed()).map(({ name, from }) => [name, from])).toEqual([
      ['builtin', 'builtin'],
      ['flagged', 'setting'],
      ['mine', 'api'],
    ])
    expect((await cluster.api.put('/api/galleries/mine', { url: 'github:a/b/c.yaml@v1', kind: 'model' })).body).toMatchObject({
      kind: 'model',
    })
    expect((await cluster.api.delete('/api/galleries/mine')).status).toBe(204)
    expect((await cluster.api.delete('/api/galleries/mine')).body).toMatchObject({ error: { code: 'not_found' } })
  })

  it.each([
    ['the built-in one', 'builtin', 'builtin_gallery'],
    ['one of the settings', 'flagged', 'gallery_is_a_setting'],
  ])('leaves %s alone', async (_, name, code) => {
    const put = await cluster.api.put(`/api/galleries/${name}`, { url: 'https://example.com/x', kind: 'backend' })
    const removed = await cluster.api.delete(`/api/galleries/${name}`)
    for (const answer of [put, removed]) expect(answer).toMatchObject({ status: 409, body: { error: { code } } })
  })

  it.each([
    ['a name that is a path', '..%2Fx', { url: 'https://example.com/x', kind: 'backend' }],
    ['an unsupported scheme', 'x', { url: 'ftp://example.com/x', kind: 'backend' }],
    ['what is built in', 'x', { url: `builtin://gallery@sha256:${'0'.repeat(64)}`, kind: 'backend' }],
    ['a password', 'x', { url: 'https://me:secret@example.com/x', kind: 'backend' }],
    ['another kind', 'x', { url: 'https://example.com/x', kind: 'theme' }],
    ['a space', 'x', { url: 'https://example.com/a b', kind: 'backend' }],
  ])('refuses %s', async (_, name, body) => {
    expect((await cluster.api.put(`/api/galleries/${name}`, body)).status).toBe(400)
  })

  it('follows the settings of the controller that started last, and no other', async () => {
    await cluster.api.put('/api/galleries/taken', { url: 'https://example.com/api', kind: 'backend' })
    const second = await startTestController({
      directory: join(directory.path, 'second'),
      databaseUrl,
      flags: { 'nats-url': natsUrl, gallery: 'taken=https://example.com/flag', 'model-gallery': 'models=file:///srv/models.yaml' },
    })
    const names = (await listed()).map(({ name, kind, from }) => `${name} ${kind} ${from}`)
    await second.stop()
    expect(names.toSorted()).toEqual(['builtin backend builtin', 'models model setting', 'taken backend setting'])
  })
})

describe('built-in galleries', () => {
  it('is for nodes that were let in: not for strangers, pending nodes or other keys', async () => {
    const digest = await galleryDigest()
    expect((await get(blobPath(digest))).status).toBe(403)
    await cluster.api.post(`/api/nodes/${nodeId}/approve`)
    expect((await get(blobPath(digest))).status).toBe(200)
    expect((await get(blobPath(digest), {}, createNodeKey())).status).toBe(404)
    expect((await cluster.api.get(blobPath(digest))).status).toBe(401)
    expect((await get(blobPath(`sha256:${'0'.repeat(64)}`))).status).toBe(404)
    expect((await get(blobPath('sha256:..%2F..%2Findex.json'))).status).toBe(400)
  })

  it("is part of the node's session, and leads from the gallery to a running backend", async () => {
    const session = await node.post(`/api/node/${nodeId}/session`, { incarnation: node.incarnation })
    const { galleries } = session.body['settings'] as unknown as { galleries: { name: string; url: string; kind: string }[] }
    expect(galleries[0]).toMatchObject({ name: 'builtin', kind: 'backend' })
    const gallery = await get(blobPath(galleries[0]?.url.split('@')[1] ?? ''))
    const [echo] = JSON.parse(gallery.bytes.toString()) as { name: string; uri: string }[]
    expect(echo).toMatchObject({ name: 'echo' })
    const layer = await fetchLayer(echo?.uri.split('@')[1] ?? '')
    const target = join(directory.path, 'echo')
    await mkdir(target)
    const tar = spawn('tar', ['-x', '-C', target], { stdio: ['pipe', 'inherit', 'inherit'] })
    tar.stdin.end(layer)
    expect(await new Promise((resolve) => void tar.once('close', resolve))).toBe(0)
    await answersLikeAModel(join(target, 'server.mjs'))
  })

  async function fetchLayer(manifestDigest: string): Promise<Buffer> {
    const manifest = await get(blobPath(manifestDigest))
    expect(sha256(manifest.bytes)).toBe(manifestDigest)
    const { layers, config } = JSON.parse(manifest.bytes.toString()) as { layers: { digest: string }[]; config: { digest: string } }
    const { rootfs } = JSON.parse((await get(blobPath(config.digest))).bytes.toString()) as { rootfs: { diff_ids: string[] } }
    const layer = await get(blobPath(layers[0]?.digest ?? ''))
    expect(sha256(layer.bytes)).toBe(layers[0]?.digest)
    const unpacked = zstdDecompressSync(layer.bytes)
    expect(sha256(unpacked)).toBe(rootfs.diff_ids[0])
    return unpacked
  }

  async function answersLikeAModel(program: string): Promise<void> {
    const processes = createProcesses()
    const port = await freePort()
    await processes.start(process.execPath, { args: [program, '--addr', `127.0.0.1:${port}`], cwd: dirname(program) })
    const url = `http://127.0.0.1:${port}`
    try {
      await waitFor(async () => (await fetch(`${url}/health`).catch(() => null))?.status === 200, { what: 'the echo backend is healthy' })
      const ask = (body: unknown) => fetch(`${url}/v1/chat/completions`, { method: 'POST', body: JSON.stringify(body) })
      const messages = [
        { role: 'system', content: 'be kind' },
        { role: 'user', content: 'say it  back\nto me' },
      ]
      expect(await (await ask({ model: 'm', messages })).json()).toMatchObject({
        object: 'chat.completion',
        choices: [{ message: { role: 'assistant', content: 'say it  back\nto me' }, finish_reason: 'stop' }],
        usage: { prompt_tokens: 5, completion_tokens: 5, total_tokens: 10 },
      })
      const streamed = await (
        await ask({ model: 'm', messages, stream: true, max_tokens: 2, stream_options: { include_usage: true } })
      ).text()
      const chunks = streamed.split('\n\n').filter((line) => line.startsWith('data: {'))
      const texts = chunks.map(
        (line) => (JSON.parse(line.slice(6)) as { choices: { delta: { content?: string } }[] }).choices[0]?.delta.content ?? '',
      )
      expect(texts.join('')).toBe('say it')
      expect(streamed).toContain('"finish_reason":"length"')
      expect(streamed).toContain('"usage":{"prompt_tokens":5,"completion_tokens":2,"total_tokens":7}')
      expect(streamed.endsWith('data: [DONE]\n\n')).toBe(true)
      expect((await ask('no')).status).toBe(400)
      expect((await ask({ messages: [] })).status).toBe(400)
      expect((await fetch(`${url}/v1/embeddings`, { method: 'POST' })).status).toBe(404)
    } finally {
      await processes.stopAll()
    }
  }

  it('is a model as well: the file that its entry names, whole or in parts', async () => {
    const file = await readFile(join(import.meta.dirname, '../../models/tiny/tiny.gguf'))
    const whole = await get(blobPath(sha256(file)))
    expect(sha256(whole.bytes)).toBe(sha256(file))
    const part = await get(blobPath(sha256(file)), { range: 'bytes=0-3' })
    expect([part.status, part.bytes.toString()]).toEqual([206, 'GGUF'])
  })

  it('goes on where it stopped', async () => {
    const digest = await galleryDigest()
    const whole = await get(blobPath(digest))
    const size = whole.bytes.length
    const rest = await get(blobPath(digest), { range: 'bytes=10-' })
    expect([rest.status, rest.headers.get('content-range')]).toEqual([206, `bytes 10-${size - 1}/${size}`])
    expect(Buffer.concat([whole.bytes.subarray(0, 10), rest.bytes])).toEqual(whole.bytes)
    const piece = await get(blobPath(digest), { range: 'bytes=5-9' })
    expect(piece.bytes).toEqual(whole.bytes.subarray(5, 10))
    const beyond = await get(blobPath(digest), { range: `bytes=${size}-` })
    expect([beyond.status, beyond.headers.get('content-range')]).toEqual([416, `bytes */${size}`])
  })

  it('is the same on every controller, and kept when the next version comes', async () => {
    const old = Digest.parse(sha256(Buffer.from('of an earlier version')))
    const blobs = join(directory.path, 'third', 'controller', 'builtin', 'blobs', 'sha256')
    await mkdir(blobs, { recursive: true, mode: 0o700 })
    await writeFile(join(blobs, old.slice('sha256:'.length)), 'of an earlier version')
    await writeFile(join(blobs, '.abcdefghijklmnopqrst.tmp'), 'half of a blob')
    const third = await startTestController({ directory: join(directory.path, 'third'), databaseUrl, flags: { 'nats-url': natsUrl } })
    const own = (await third.api.get('/api/galleries')).body['galleries'] as unknown as { url: string }[]
    expect(own[0]?.url).toBe((await listed())[0]?.url)
    const path = blobPath(old)
    const signed = signRequest(node.key, { method: 'GET', path, body: new Uint8Array(), now: new Date() })
    expect(await (await fetch(`${third.url}${path}`, { headers: { ...signed } })).text()).toBe('of an earlier version')
    expect((await readdir(blobs)).filter((name) => name.endsWith('.tmp'))).toEqual([])
    await third.stop()
  })
})

describe('a node that waits in its session', () => {
  /** Until it is told of galleries that are right; it may be told of other news before. */
  const pollUntil = async (isRight: (names: readonly string[]) => boolean): Promise<number> => {
    const startedAt = performance.now()
    for (let known: string | undefined; ;) {
      const { body } = await node.post(`/api/node/${nodeId}/session`, { incarnation: node.incarnation, known })
      const { galleries } = body['settings'] as unknown as { galleries: { name: string }[] }
      if (isRight(galleries.map(({ name }) => name))) return performance.now() - startedAt
      known = String(body['etag'])
    }
  }

  it('receives an added gallery, and its removal, long before its poll would end', async () => {
    await cluster.api.post(`/api/nodes/${nodeId}/approve`)
    const added = pollUntil((names) => names.includes('late'))
    await cluster.api.put('/api/galleries/late', { url: 'https://example.com/late.yaml', kind: 'backend' })
    expect(await added).toBeLessThan(10_000)
    const removed = pollUntil((names) => !names.includes('late'))
    await cluster.api.delete('/api/galleries/late')
    expect(await removed).toBeLessThan(10_000)
  })
})
