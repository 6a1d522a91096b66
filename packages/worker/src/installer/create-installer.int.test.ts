// The digest that is installed, recorded and found again, and its source: installs against a registry that counts requests.
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { FleetError, type Digest, type InstalledBackend } from '@muster/protocol'
import { parseGallery } from '@muster/source'
import { makeImage, makeIndex, sha256, tar, type HostileRegistry, type ImageFixture } from '@muster/testkit'
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import { installContext, ownPlatform as platform, startRegistryInstaller, type RegistryInstaller } from '../../test/registry-installer.ts'
import { runSh, type TestStore } from '../../test/test-store.ts'
import type { Installer } from '../operations/installer.ts'
import { BackendCommand } from '../operations/journal.ts'
import { perform } from '../operations/run-operation.ts'

let world: RegistryInstaller
let registry: HostileRegistry
let opened: TestStore
let installer: Installer
const other = platform.arch === 'arm64' ? 'amd64' : 'arm64'

beforeEach(async () => {
  world = await startRegistryInstaller()
  ;({ registry, opened, installer } = world)
})
afterEach(() => world[Symbol.asyncDispose]())

const imageFor = (architecture: string, text: string): ImageFixture =>
  makeImage({ layers: [tar([runSh, { path: 'text', data: text }])], platform: { os: platform.os, architecture } })

/** An index for two platforms under the tag `1`: its digest, and the digest of the manifest for this one. */
function publish(text: string): { index: Digest; manifest: Digest; image: ImageFixture } {
  const [own, others] = [imageFor(platform.arch, text), imageFor(other, text)]
  for (const image of [own, others]) registry.addImage('a/b', image)
  const index = makeIndex([own, others])
  registry.addManifest('a/b', index, '1')
  return { index: index.digest, manifest: own.manifest.digest, image: own }
}

/** Returns the outcome of the install and the number of requests. */
const performOrder = (order: Readonly<Record<string, unknown>>) =>
  perform(BackendCommand.parse({ kind: 'install', backend: 'b', uri: `${registry.host}/a/b:1`, exact: true, ...order }), {
    installer,
    context: installContext(),
  })
async function carryOut(order: Readonly<Record<string, unknown>>): Promise<{ digest: string | undefined; requests: number }> {
  const before = registry.requests.length
  const { digest } = await performOrder(order)
  return { digest, requests: registry.requests.length - before }
}
const listed = async (): Promise<InstalledBackend | undefined> => (await installer.inventory())[0]

describe('a tag and a digest', () => {
  it('SEC12 of the manifest for this platform: exactly that is installed and recorded, and a repetition sends no request', async () => {
    const { manifest } = publish('one')
    publish('two')
    expect(await carryOut({ digest: manifest })).toMatchObject({ digest: manifest })
    expect(await listed()).toMatchObject({ digest: manifest, uri: `${registry.host}/a/b:1` })
    expect(await carryOut({ digest: manifest })).toEqual({ digest: manifest, requests: 0 })
    expect(await carryOut({ kind: 'upgrade', digest: manifest })).toEqual({ digest: manifest, requests: 0 })
  })

  it('of the index: that digest is recorded, and a repetition sends no request', async () => {
    const { index } = publish('one')
    publish('two')
    expect(await carryOut({ digest: index })).toMatchObject({ digest: index })
    expect(await listed()).toMatchObject({ digest: index })
    expect(await carryOut({ digest: index })).toEqual({ digest: index, requests: 0 })
    expect(await carryOut({ kind: 'upgrade', digest: index })).toEqual({ digest: index, requests: 0 })
  })

  it('of manifest and index name one version, which is listed under the one requested last', async () => {
    const { index, manifest } = publish('one')
    await carryOut({ digest: index })
    expect(await carryOut({ digest: manifest })).toEqual({ digest: manifest, requests: 0 })
    expect(await listed()).toMatchObject({ digest: manifest })
    expect(await carryOut({ kind: 'upgrade', digest: index })).toEqual({ digest: index, requests: 0 })
    expect(await listed()).toMatchObject({ digest: index })
  })

  it('S3.1 of a newer image replace the installed one; an install that is not exact accepts any version', async () => {
    const { manifest: first } = publish('one')
    await carryOut({ digest: first })
    const { manifest: second } = publish('two')
    expect(await carryOut({ digest: second, exact: false })).toEqual({ digest: first, requests: 0 })
    expect(await carryOut({ kind: 'upgrade', digest: second })).toMatchObject({ digest: second })
    expect(await listed()).toMatchObject({ digest: second })
  })

  it('of an image for another platform is refused, and the active version stays', async () => {
    const { manifest } = publish('one')
    await carryOut({ digest: manifest })
    const foreign = imageFor(other, 'one').manifest.digest
    await expect(carryOut({ digest: foreign })).rejects.toMatchObject({ failure: { code: 'incompatible' } })
    expect(await listed()).toMatchObject({ digest: manifest })
  })

  it('S3.16 are repaired by the listed digest, without a request', async () => {
    const { index, manifest } = publish('one')
    await carryOut({ digest: index })
    await writeFile(join(opened.store.treePath(manifest), 'text'), 'damaged')
    expect(await carryOut({ kind: 'upgrade', digest: index })).toEqual({ digest: index, requests: 0 })
    expect(await opened.store.verify(manifest, { signal: new AbortController().signal })).toBe('intact')
  })
})

it('a tag alone is recorded by the digest of its index, which is the same on every machine', async () => {
  const { index, manifest } = publish('one')
  expect(await carryOut({ exact: false })).toMatchObject({ digest: index })
  expect(await carryOut({ digest: manifest })).toEqual({ digest: manifest, requests: 0 })
  expect(await listed()).toMatchObject({ digest: manifest })
})

it('E13 a pause that the registry asks for is reported with its reason', async () => {
  const { manifest } = publish('one')
  registry.on('manifests/', { do: 'answer', status: 429, headers: { 'retry-after': '0' } }, 1)
  const reasons: string[] = []
  const order = BackendCommand.parse({ kind: 'install', backend: 'b', uri: `${registry.host}/a/b:1`, digest: manifest, exact: true })
  await perform(order, { installer, context: { ...installContext(), onWait: (reason) => void reasons.push(reason) } })
  expect(reasons).toEqual([expect.stringContaining(`${registry.host} limits requests (429)`)])
})

it('E8 wrong content names the registry and the image that sent it', async () => {
  const { image } = publish('one')
  registry.on(image.layers[0]?.digest ?? '', { do: 'corrupt', byte: 3 })
  await expect(carryOut({ digest: image.manifest.digest })).rejects.toThrow(
    `the content received for blob ${image.layers[0]?.digest} of ${registry.host}/a/b has another hash`,
  )
})

it('a directory with another digest than requested is not activated, and not tried again', async () => {
  const from = join(opened.temp.path, 'from')
  await mkdir(from)
  await writeFile(join(from, 'run.sh'), '#!/bin/sh\n', { mode: 0o755 })
  const { digest } = await carryOut({ uri: `file://${from}`, exact: false })
  await writeFile(join(from, 'more'), 'changed since')
  await expect(carryOut({ kind: 'upgrade', uri: `file://${from}`, digest: `sha256:${'1'.repeat(64)}` })).rejects.toMatchObject({
    failure: { code: 'integrity', retry: 'never' },
  })
  expect(await listed()).toMatchObject({ digest })
})

it('a directory is reported by the digest that it had, only when it was read', async () => {
  const from = join(opened.temp.path, 'read')
  await mkdir(from)
  await writeFile(join(from, 'run.sh'), '#!/bin/sh\n', { mode: 0o755 })
  const uri = `file://${from}`
  const { digest, source_digest: read } = await performOrder({ uri, exact: false })
  expect(read).toBe(digest)
  expect(await performOrder({ uri, exact: false })).toEqual({ digest, version: '' })
  expect(await performOrder({ uri, digest })).toEqual({ digest, version: '' })
  expect(await performOrder({ uri, kind: 'upgrade' })).toMatchObject({ source_digest: digest })
})

it('a layer whose connection breaks is resumed', async () => {
  const noise = Buffer.alloc(3 * 2 ** 20, 'x')
  const image = makeImage({
    layers: [tar([runSh, { path: 'noise', data: noise }])],
    compression: 'none',
    platform: { os: platform.os, architecture: platform.arch },
  })
  registry.addImage('a/b', image, '1')
  const [layer] = image.layers
  if (layer === undefined) throw new Error('an image has a layer')
  registry.on(layer.digest, { do: 'truncate', atBytes: 2 ** 20 }, 1)
  expect(await carryOut({})).toMatchObject({ digest: image.manifest.digest })
  const begun = registry.answersFor(layer.digest).map(({ from }) => from)
  expect(begun).toEqual([0, expect.any(Number)])
  // Bytes in flight when the connection broke are requested again.
  expect(begun[1]).toBeGreaterThan(0)
  expect(begun[1]).toBeLessThanOrEqual(2 ** 20)
})

it('an unreadable gallery does not hide the offer of one before it', async () => {
  const { index } = publish('one')
  const entries = [{ name: 'b', uri: `${registry.host}/a/b:1` }]
  const offered = parseGallery(JSON.stringify(entries), { name: 'first', origin: 'local' })
  const unread = async (): Promise<never> => {
    throw new FleetError({ code: 'unavailable', retry: 'backoff', message: 'the gallery second is not there' })
  }
  world.galleries.push(
    { name: 'first', url: 'file:///first', read: async () => ({ name: 'first', ...offered }) },
    { name: 'second', url: 'https://second.example', read: unread },
  )
  expect(await carryOut({ uri: undefined })).toMatchObject({ digest: index })
  expect(await listed()).toMatchObject({ gallery_url: 'file:///first' })
  await expect(carryOut({ backend: 'unheard-of', uri: undefined })).rejects.toThrow('the gallery second is not there')
})

it('a directory needs no space outside the store, however large it is', async () => {
  const from = join(opened.temp.path, 'from')
  await mkdir(from)
  await writeFile(join(from, 'run.sh'), '#!/bin/sh\n', { mode: 0o755 })
  vi.stubEnv('TMPDIR', join(opened.temp.path, 'nowhere'))
  onTestFinished(() => void vi.unstubAllEnvs())
  const { digest } = await carryOut({ uri: `file://${from}`, exact: false })
  expect(await listed()).toMatchObject({ digest })
})

describe('an archive', () => {
  const bytes = gzipSync(tar([runSh, { path: 'text', data: 'one' }]))
  const digest = sha256(bytes)
  const path = '/files/a.tar.gz'
  const order = (): Record<string, unknown> => ({ uri: `${registry.url}${path}`, digest })
  const asked = (): number => registry.requests.filter((request) => request.path === path).length

  it.each([429, 502, 503])('E13 E14 is requested again soon when its server answers %i', async (status) => {
    registry.on(path, { do: 'answer', status, headers: { 'retry-after': '0' } }, 2)
    registry.on(path, { do: 'answer', status: 200, body: bytes })
    expect(await carryOut(order())).toEqual({ digest, requests: 3 })
  })

  it.each([
    [401, 'invalid'],
    [403, 'invalid'],
    [404, 'not_found'],
    [410, 'not_found'],
  ])('E12 is not asked for again when its server answers %i', async (status, code) => {
    registry.on(path, { do: 'answer', status })
    await expect(carryOut(order())).rejects.toMatchObject({ failure: { code, retry: 'never', source: 'backend' } })
    expect(asked()).toBe(1)
  })

  it('that has other content is tried again once, and not when that content is the same', async () => {
    const wrong = (retry: string): object => ({ failure: { code: 'integrity', retry, source: 'backend' } })
    const answers = [Buffer.from('damaged'), Buffer.from('changed'), Buffer.from('changed'), bytes]
    for (const body of answers) registry.on(path, { do: 'answer', status: 200, body }, 1)
    await expect(carryOut(order())).rejects.toMatchObject(wrong('backoff'))
    await expect(carryOut(order())).rejects.toMatchObject(wrong('backoff'))
    await expect(carryOut(order())).rejects.toMatchObject(wrong('never'))
    // An administrator may repeat it when the source has the content again.
    expect(await carryOut(order())).toMatchObject({ digest })
  })
})
