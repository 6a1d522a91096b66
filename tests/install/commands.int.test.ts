// Commands about backends, on a whole worker that fetches and unpacks them: what runs beside what, and what is on the
// disk afterwards.
import { chmod, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { BusError } from '@muster/bus'
import { backendInstall, backendUpgrade } from '@muster/protocol'
import {
  boundMs,
  createLegacyController,
  makeIndex,
  startHostileRegistry,
  waitFor,
  type HostileRegistry,
  type ImageFixture,
} from '@muster/testkit'
import { afterAll, afterEach, beforeAll, describe, expect, inject, it } from 'vitest'
import { backendImage, noise, startWorkerWorld, type WorkerWorld } from './worker-world.ts'

const mb = 1024 ** 2
let world: WorkerWorld
let registry: HostileRegistry
let made = 0

beforeAll(async () => {
  world = await startWorkerWorld({ postgresUrl: inject('postgresUrl') })
  registry = await startHostileRegistry()
})
afterEach(() => registry.behave())
afterAll(async () => {
  await world[Symbol.asyncDispose]()
  await registry.stop()
})

const newName = (): string => `echo-${made++}`
/** From now on `latest` is this version. */
function publish(name: string, version = '1.0', bytes = 64 * 1024) {
  const image = backendImage(version, [{ path: 'weights', data: noise(bytes, `${name} ${version}`) }], { compression: 'none' })
  registry.addImage(name, image, 'latest')
  const [, layer] = image.layers
  if (layer === undefined) throw new Error('it has two layers')
  return { backend: name, uri: `${registry.host}/${name}:latest`, digest: image.manifest.digest, image, layer }
}
const trickle = { do: 'slow', chunkBytes: 1024, everyMs: 100 } as const
const treeOf = (image: ImageFixture, ...path: string[]): string =>
  join(world.store, 'trees', 'sha256', image.manifest.digest.slice(7), 'root', ...path)
const recordOf = async (name: string): Promise<{ current: Record<string, unknown>; previous: Record<string, unknown> | null }> =>
  JSON.parse(await readFile(join(world.store, 'backends', name, 'current'), 'utf8')) as Awaited<ReturnType<typeof recordOf>>
const asked = (name: string): number => registry.requests.filter(({ path }) => path.includes(`/${name}/`)).length

describe('concurrent commands', () => {
  it('S1.1 install and upgrade have a subject and a subscription each', async () => {
    const { backend, uri } = publish(newName())
    const to = { node: world.node }
    expect(await world.bus.request(backendInstall, to, { backend, uri }, { timeoutMs: 60_000 })).toEqual({ success: true })
    expect(await world.bus.request(backendUpgrade, to, { backend, uri }, { timeoutMs: 60_000 })).toEqual({ success: true })
    const other = { ...backendUpgrade, subject: 'nodes.{node}.backend.upgraded' } as typeof backendUpgrade
    await expect(world.bus.request(other, to, { backend }, { timeoutMs: 60_000 })).rejects.toThrow(BusError)
  })

  it('S1.2 S1.3 S1.5 S1.24 thirty upgrades that trickle delay no install of another backend', async () => {
    const slow = Array.from({ length: 30 }, () => publish(newName(), '1.0', mb))
    for (const { layer } of slow) registry.on(layer.digest, trickle)
    const ops = slow.map(({ backend }) => `slow-${backend}`)
    await Promise.all(slow.map(({ backend, uri }, n) => world.start('upgrade', { backend, uri, op_id: ops[n] ?? '' })))
    await waitFor(() => slow.every(({ layer }) => registry.bytesSent(layer.digest) > 0), {
      what: 'all of them to download',
    })
    const { backend, uri, layer, digest } = publish(newName(), '1.0', 4 * mb)
    const sentAt = performance.now()
    expect(await world.start('install', { backend, uri, op_id: 'fast' })).toEqual({ accepted: true })
    expect(performance.now() - sentAt).toBeLessThan(boundMs(2_000))
    const first = await waitFor(() => world.ticks.find(({ op_id }) => op_id === 'fast'), { what: 'its progress' })
    expect(first.phase).toBe('resolving')
    expect(first.at - sentAt).toBeLessThan(2_000)
    expect(await world.ended('fast')).toMatchObject({ state: 'succeeded', digest })
    expect(performance.now() - sentAt).toBeLessThan(boundMs(10_000))
    expect(registry.bytesSent(layer.digest)).toBe(layer.bytes.length)
    // None of them had to end or wait for it.
    expect(
      (await Promise.all(ops.map((op) => world.status(op)))).every(({ state, phase }) => state === 'running' && phase === 'downloading'),
    ).toBe(true)
    const ends = await Promise.all(ops.map((op) => world.cancel(op)))
    expect(new Set(ends.map(({ state }) => state))).toEqual(new Set(['cancelled']))
  })

  it.each([
    ['install', 'install'],
    ['install', 'upgrade'],
    ['upgrade', 'install'],
  ] as const)('S1.4 %s and %s of one backend go one after the other', async (one, two) => {
    const first = publish(newName(), '1.0', 256 * 1024)
    registry.on(first.layer.digest, { do: 'slow', chunkBytes: 32 * 1024, everyMs: 40 })
    const { backend, uri } = first
    await world.start(one, { backend, uri, op_id: `1-${backend}` })
    await waitFor(() => registry.bytesSent(first.layer.digest) > 0, { what: 'the first to download' })
    const second = publish(backend, '2.0')
    const pin = two === 'install' ? { exact: true } : {}
    await world.start(two, { backend, uri, digest: second.digest, ...pin, op_id: `2-${backend}` })
    for (;;) {
      const [sent, later] = [registry.answersFor(second.layer.digest), await world.status(`2-${backend}`)]
      if ((await world.status(`1-${backend}`)).state !== 'running') break
      expect([sent, later.state]).toEqual([[], 'accepted'])
    }
    expect(await world.ended(`1-${backend}`)).toMatchObject({ state: 'succeeded', digest: first.digest })
    expect(await world.ended(`2-${backend}`)).toMatchObject({ state: 'succeeded', digest: second.digest })
    expect((await recordOf(backend)).current).toMatchObject({ version: '2.0' })
  })

  it('S1.5 two backends are fetched at the same time', async () => {
    const both = [publish(newName(), '1.0', 512 * 1024), publish(newName(), '1.0', 512 * 1024)]
    for (const { layer } of both) registry.on(layer.digest, { do: 'slow', chunkBytes: 32 * 1024, everyMs: 40 })
    for (const { backend, uri } of both) await world.start('install', { backend, uri, op_id: `op-${backend}` })
    const areUnderWay = (): boolean =>
      both.every(({ layer }) => registry.bytesSent(layer.digest) > 0 && registry.bytesSent(layer.digest) < layer.bytes.length)
    await waitFor(areUnderWay, { what: 'both to be under way' })
    for (const { backend } of both) expect(await world.ended(`op-${backend}`)).toMatchObject({ state: 'succeeded' })
  })

  it('S1.8 an upgrade knows no force and no model, and its answer no address', async () => {
    const { backend, uri } = publish(newName())
    expect(await world.install({ backend, uri })).toEqual({ success: true })
    const body = { backend, uri, force: true, model_id: 'm', replica_index: 0 } as const
    const legacy = createLegacyController({ bus: world.bus, nodeId: world.node, timeoutMs: 60_000 })
    expect(await legacy.upgrade(body)).toEqual({ success: true })
  })
})

describe('files on disk', () => {
  it('S1.12 S3.4 force from an old controller fetches the current build of the name over the installed one', async () => {
    const first = publish(newName())
    const { backend, uri } = first
    const legacy = createLegacyController({ bus: world.bus, nodeId: world.node, timeoutMs: 60_000 })
    expect(await legacy.install({ backend, uri })).toMatchObject({ success: true })
    const second = publish(backend, '2.0')
    expect(await legacy.install({ backend, uri, force: true })).toMatchObject({ success: true })
    expect(await recordOf(backend)).toMatchObject({
      current: { version: '2.0', digest: second.digest },
      previous: { digest: first.digest },
    })
    expect(await readFile(treeOf(second.image, 'weights'))).toEqual(noise(64 * 1024, `${backend} 2.0`))
  })

  it('S3.4 force overwrites also when the version is the same', async () => {
    const { backend, uri, image } = publish(newName())
    expect(await world.install({ backend, uri })).toEqual({ success: true })
    await writeFile(treeOf(image, 'weights'), 'not what was fetched')
    expect(await world.install({ backend, uri, force: true })).toEqual({ success: true })
    expect(await readFile(treeOf(image, 'weights'))).toEqual(noise(64 * 1024, `${backend} 1.0`))
  })

  it.each([[undefined], [false]])(
    'S1.19 S3.6 with force %j an installed backend is enough: no file changes and no source is read',
    async (force) => {
      const first = publish(newName())
      const { backend, uri } = first
      expect(await world.install({ backend, uri })).toEqual({ success: true })
      const [record, requests] = [await recordOf(backend), asked(backend)]
      const second = publish(backend, '2.0')
      const startedAt = performance.now()
      const command = { backend, uri, digest: second.digest, ...(force === undefined ? {} : { force }), op_id: `op-${backend}` }
      expect(await world.install(command)).toEqual({ success: true })
      expect(performance.now() - startedAt).toBeLessThan(boundMs(1_000))
      expect(await world.status(`op-${backend}`)).toMatchObject({ state: 'succeeded', digest: first.digest, version: '1.0' })
      expect([await recordOf(backend), asked(backend)]).toEqual([record, requests])
    },
  )

  it('S1.19 a digest that was requested exactly replaces another one, and is not fetched again', async () => {
    const { backend, uri } = publish(newName())
    expect(await world.install({ backend, uri })).toEqual({ success: true })
    const second = publish(backend, '2.0')
    expect(await world.install({ backend, uri, digest: second.digest, exact: true })).toEqual({ success: true })
    const [record, requests] = [await recordOf(backend), asked(backend)]
    expect(record.current).toMatchObject({ digest: second.digest })
    expect(await world.install({ backend, uri, digest: second.digest, exact: true })).toEqual({ success: true })
    expect([await recordOf(backend), asked(backend)]).toEqual([record, requests])
  })

  it('S1.19 files that were removed by hand are fetched again', async () => {
    const { backend, uri, image } = publish(newName())
    expect(await world.install({ backend, uri })).toEqual({ success: true })
    await rm(join(treeOf(image), '..'), { recursive: true })
    expect(await world.install({ backend, uri })).toEqual({ success: true })
    expect(await readFile(treeOf(image, 'run.sh'), 'utf8')).toContain('#!/bin/sh')
  })

  it('S3.1 an upgrade replaces the files and rewrites version and digest', async () => {
    const first = publish(newName())
    const { backend, uri } = first
    expect(await world.install({ backend, uri })).toEqual({ success: true })
    const second = publish(backend, '2.0')
    await world.start('upgrade', { backend, uri, digest: second.digest, op_id: `op-${backend}`, generation: 2, epoch: 1 })
    expect(await world.ended(`op-${backend}`)).toMatchObject({ state: 'succeeded', digest: second.digest, version: '2.0' })
    expect(await recordOf(backend)).toMatchObject({ current: { version: '2.0', digest: second.digest, uri }, previous: { version: '1.0' } })
    expect(await world.list()).toContainEqual(expect.objectContaining({ name: backend, version: '2.0', digest: second.digest, uri }))
    expect(JSON.parse(await readFile(treeOf(second.image, 'backend.json'), 'utf8'))).toMatchObject({ version: '2.0' })
  })

  it.each(['install', 'upgrade'] as const)(
    'S3.1 an %s by the digest of an index installs the image for this machine, under that digest',
    async (kind) => {
      const { backend, uri, image } = publish(newName())
      const index = makeIndex([backendImage('1.0', [], { platform: { os: 'windows', architecture: 'amd64' } }), image])
      registry.addManifest(backend, index, 'latest')
      await world.start(kind, {
        backend,
        uri,
        digest: index.digest,
        op_id: `op-${backend}`,
        ...(kind === 'install' ? { exact: true } : {}),
      })
      expect(await world.ended(`op-${backend}`)).toMatchObject({ state: 'succeeded', digest: index.digest })
      expect(await world.list()).toContainEqual(expect.objectContaining({ name: backend, digest: index.digest }))
      const requests = asked(backend)
      expect(await world.upgrade({ backend, uri, digest: index.digest })).toEqual({ success: true })
      expect(await world.install({ backend, uri, digest: image.manifest.digest, exact: true })).toEqual({ success: true })
      expect(asked(backend)).toBe(requests)
    },
  )

  it('S3.13 an upgrade that could not replace the files reports that, and the old build stays in use', async () => {
    const first = publish(newName())
    const { backend, uri } = first
    expect(await world.install({ backend, uri })).toEqual({ success: true })
    const record = await recordOf(backend)
    const second = publish(backend, '2.0')
    registry.on(second.layer.digest, { do: 'corrupt', byte: 7 })
    await world.start('upgrade', { backend, uri, digest: second.digest, op_id: `op-${backend}` })
    expect(await world.ended(`op-${backend}`)).toMatchObject({ state: 'failed', failure: { code: 'integrity' } })
    expect(await recordOf(backend)).toEqual(record)
    expect(await readFile(treeOf(first.image, 'weights'))).toEqual(noise(64 * 1024, `${backend} 1.0`))
  })

  it.each([
    ['a changed file', (image: ImageFixture) => writeFile(treeOf(image, 'weights'), 'x'), 0],
    ['a mode that starts nothing', (image: ImageFixture) => chmod(treeOf(image, 'run.sh'), 0o600), 0],
    ['a file too many', (image: ImageFixture) => writeFile(treeOf(image, 'more'), 'x'), 0],
    [
      'a file and the layer it came from gone',
      async (image: ImageFixture) => {
        await rm(treeOf(image, 'weights'))
        for (const { digest } of image.layers) await rm(join(world.store, 'blobs', 'sha256', digest.slice(7)))
      },
      1,
    ],
    [
      'a file and the layer it came from damaged',
      async (image: ImageFixture) => {
        await rm(treeOf(image, 'weights'))
        for (const { digest } of image.layers.slice(1)) await writeFile(join(world.store, 'blobs', 'sha256', digest.slice(7)), 'x')
      },
      1,
    ],
  ])('S3.16 an upgrade to what is there puts right %s, by digest and by name', async (_, damage, isFetchedAgain) => {
    const { backend, uri, image, digest, layer } = publish(newName())
    expect(await world.install({ backend, uri })).toEqual({ success: true })
    for (const pin of [{ digest }, {}]) {
      await damage(image)
      await world.start('upgrade', { backend, uri, ...pin, op_id: `op-${backend}-${Object.keys(pin).length}` })
      expect(await world.ended(`op-${backend}-${Object.keys(pin).length}`)).toMatchObject({ state: 'succeeded', digest })
      expect(await readFile(treeOf(image, 'weights'))).toEqual(noise(64 * 1024, `${backend} 1.0`))
      // As whole as it says it is: the next one reads every file and changes nothing.
      const requests = asked(backend)
      expect(await world.upgrade({ backend, uri, digest })).toEqual({ success: true })
      expect(asked(backend)).toBe(requests)
    }
    expect(registry.bytesSent(layer.digest)).toBe(layer.bytes.length * (1 + 2 * isFetchedAgain))
    expect((await world.list()).map((each) => each.digest)).not.toContain('')
  })
})
