// A registry that dies in the middle, and a disk that is full: nothing else suffers, nothing is fetched twice that need
// not be, and it works once what was missing is back.
import { execFileSync } from 'node:child_process'
import { readdir, rm, statfs } from 'node:fs/promises'
import { join } from 'node:path'
import {
  makeTempDir,
  startHostileRegistry,
  startRegistry,
  waitFor,
  type HostileRegistry,
  type ImageFixture,
  type TempDir,
} from '@muster/testkit'
import { afterAll, afterEach, beforeAll, describe, expect, inject, it } from 'vitest'
import { startSlowProxy } from '../serving/slow-proxy.ts'
import { backendImage, noise, startWorkerWorld, type WorkerWorld } from './worker-world.ts'

const mb = 1024 ** 2
const run = (program: string, ...args: string[]): Buffer => execFileSync(program, args, { stdio: 'pipe' })
const largeOf = ({ layers: [, large] }: ImageFixture) => {
  if (large === undefined) throw new Error('it has two layers')
  return large
}

/** The way any client does it. */
async function push(url: string, repository: string, image: ImageFixture): Promise<void> {
  for (const { digest, bytes } of [image.config, ...image.layers]) {
    const begun = await fetch(`${url}/v2/${repository}/blobs/uploads/`, { method: 'POST' })
    const to = new URL(begun.headers.get('location') ?? '', url)
    to.searchParams.set('digest', digest)
    const headers = { 'content-type': 'application/octet-stream' }
    expect((await fetch(to, { method: 'PUT', headers, body: new Uint8Array(bytes) })).status).toBe(201)
  }
  const headers = { 'content-type': image.manifest.mediaType }
  const body = new Uint8Array(image.manifest.bytes)
  expect((await fetch(`${url}/v2/${repository}/manifests/v1`, { method: 'PUT', headers, body })).status).toBe(201)
}

describe("Debian's registry", () => {
  it.each([
    ['is killed and comes back', true],
    ['is killed, and is back only for the next operation', false],
  ])('E7 %s in the middle of a download, which is continued and not begun again', async (_, isBackSoon) => {
    await using registry = await startRegistry()
    await using proxy = await startSlowProxy(registry.host)
    await using world = await startWorkerWorld({ postgresUrl: inject('postgresUrl') })
    const image = backendImage('1.0', [{ path: 'weights', data: noise(32 * mb) }], { compression: 'none' })
    const { digest, bytes } = largeOf(image)
    await push(registry.url, 'echo', image)
    proxy.speed(4 * mb)
    const incoming = join(world.store, 'incoming', digest.slice(7))
    const command = { backend: 'echo', uri: `${proxy.host}/echo:v1`, generation: 1 }
    await world.start('install', { ...command, op_id: 'op-1', epoch: 1 })
    await waitFor(async () => ((await world.status('op-1')).current ?? 0) > 3 * mb, {
      what: 'a tenth of it: sockets hold less than the rest',
    })
    await registry.kill()
    proxy.speed(Number.POSITIVE_INFINITY)
    if (isBackSoon) await registry.restart()
    else expect(await world.ended('op-1')).toMatchObject({ state: 'failed', failure: { code: 'unavailable', retry: 'backoff' } })
    if (!isBackSoon) {
      expect(await readdir(join(world.store, 'incoming'))).toContain(incoming.slice(-64))
      await registry.restart()
      await world.start('install', { ...command, op_id: 'op-2', epoch: 2 })
    }
    expect(await world.ended(isBackSoon ? 'op-1' : 'op-2')).toMatchObject({ state: 'succeeded', digest: image.manifest.digest })
    // Its own log: the last answer was partial, and the smaller one.
    const parts = [...registry.log().matchAll(/"GET \/v2\/echo\/blobs\/(sha256:\w+) HTTP\/1.1" (\d+) (\d+)/g)]
      .filter(([, of]) => of === digest)
      .map(([, , status, sent]) => ({ status, bytes: Number(sent) }))
    expect(parts.at(-1)).toMatchObject({ status: '206' })
    expect(parts.at(-1)?.bytes).toBeLessThanOrEqual(bytes.length - 3 * mb + mb)
    expect(proxy.carried()).toBeLessThan(bytes.length * 1.25)
  })
})

describe('on a disk of 300 MB, of which 256 are for others', () => {
  let disk: TempDir
  let world: WorkerWorld
  let registry: HostileRegistry
  let mountFailure: string | null = null
  /** Called when the worker is in the middle of unpacking. */
  let atUnpack: (() => Promise<void>) | null = null
  beforeAll(async () => {
    disk = await makeTempDir('tmpfs')
    registry = await startHostileRegistry()
    try {
      run('mount', '-t', 'tmpfs', '-o', 'size=300m', 'tmpfs', disk.path)
    } catch (error) {
      mountFailure = `no tmpfs can be mounted here: ${String(error)}`
    }
    const step = async (name: string): Promise<void> => void (name === 'W.unpack.mid' && (await atUnpack?.()))
    world = await startWorkerWorld({ postgresUrl: inject('postgresUrl'), dataPath: join(disk.path, 'worker'), step })
    registry.addImage('other', backendImage('7.0'), 'v1')
    expect(await world.install({ backend: 'other', uri: `${registry.host}/other:v1` })).toEqual({ success: true })
  })
  afterEach(async () => {
    atUnpack = null
    registry.behave()
    await rm(ballast(), { force: true })
  })
  afterAll(async () => {
    await world[Symbol.asyncDispose]()
    await registry.stop()
    if (mountFailure === null) run('umount', disk.path)
    await disk.remove()
  })
  const ballast = (): string => join(disk.path, 'ballast')
  const fillUp = async (): Promise<void> => {
    const { bavail, bsize } = await statfs(disk.path)
    run('fallocate', '-l', String(bavail * bsize - mb), ballast())
  }
  /** The other backend is there and whole: an upgrade to what it is reads every file. */
  const otherIsWhole = async (): Promise<void> => {
    const { digest } = backendImage('7.0').manifest
    expect(await world.list()).toMatchObject([{ name: 'other', version: '7.0', digest }])
    expect(await world.upgrade({ backend: 'other', uri: `${registry.host}/other:v1`, digest })).toEqual({ success: true })
  }
  const full = { state: 'failed', failure: { code: 'disk_full', retry: 'backoff' } }

  it('E4 full in the middle of a layer: disk_full, nothing of it stays, and the finished layer is not fetched again', async ({ skip }) => {
    if (mountFailure !== null) skip(mountFailure)
    const image = backendImage('1.0', [{ path: 'weights', data: noise(6 * mb, 'layer') }], { compression: 'none' })
    registry.addImage('big', image, 'v1')
    const large = largeOf(image)
    registry.on(large.digest, { do: 'slow', chunkBytes: 64 * 1024, everyMs: 20 })
    const command = { backend: 'big', uri: `${registry.host}/big:v1`, generation: 1 }
    await world.start('install', { ...command, op_id: 'layer-1', epoch: 1 })
    await waitFor(() => registry.bytesSent(large.digest) > mb, { what: 'the middle of the layer' })
    await fillUp()
    expect(await world.ended('layer-1')).toMatchObject(full)
    expect(registry.bytesSent(large.digest)).toBeLessThan(large.bytes.length)
    expect([await world.inStore('incoming'), await world.inStore('staging')]).toEqual([[], []])
    await otherIsWhole()
    await rm(ballast())
    registry.behave()
    await world.start('install', { ...command, op_id: 'layer-2', epoch: 2 })
    expect(await world.ended('layer-2')).toMatchObject({ state: 'succeeded', digest: image.manifest.digest })
    const [small] = image.layers
    expect(registry.bytesSent(small?.digest ?? large.digest)).toBe(small?.bytes.length)
    expect(await world.remove({ backend: 'big' })).toEqual({ success: true })
  })

  it('E4 full in the middle of unpacking: disk_full, no half tree, and no byte is fetched again', async ({ skip }) => {
    if (mountFailure !== null) skip(mountFailure)
    const image = backendImage('1.0', [{ path: 'zeros', data: Buffer.alloc(24 * mb) }])
    registry.addImage('wide', image, 'v1')
    const trees = await world.inStore('trees', 'sha256')
    atUnpack = fillUp
    const command = { backend: 'wide', uri: `${registry.host}/wide:v1`, generation: 1 }
    await world.start('install', { ...command, op_id: 'unpack-1', epoch: 1 })
    expect(await world.ended('unpack-1')).toMatchObject(full)
    expect([await world.inStore('staging'), await world.inStore('trees', 'sha256')]).toEqual([[], trees])
    await otherIsWhole()
    atUnpack = null
    await rm(ballast())
    await world.start('install', { ...command, op_id: 'unpack-2', epoch: 2 })
    expect(await world.ended('unpack-2')).toMatchObject({ state: 'succeeded', digest: image.manifest.digest })
    for (const { digest, bytes } of image.layers) expect(registry.bytesSent(digest)).toBe(bytes.length)
    expect(await world.remove({ backend: 'wide' })).toEqual({ success: true })
  })

  it('E4 full before it begins: disk_full, and no layer is requested', async ({ skip }) => {
    if (mountFailure !== null) skip(mountFailure)
    const image = backendImage('9.9', [{ path: 'weights', data: noise(mb, 'before') }])
    registry.addImage('early', image, 'v1')
    await fillUp()
    expect(await world.install({ backend: 'early', uri: `${registry.host}/early:v1` })).toMatchObject({
      success: false,
      error: expect.stringContaining('disk_full') as string,
    })
    for (const { digest } of image.layers) expect(registry.answersFor(digest)).toEqual([])
    await otherIsWhole()
  })
})
