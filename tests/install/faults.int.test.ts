// Faults between a registry and a worker, observed in the worker's answers, on its disk, and in the bytes that the registry
// sent.
import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { boundMs, makeDocument, startHostileRegistry, waitFor, type HostileRegistry } from '@muster/testkit'
import { afterAll, afterEach, beforeAll, describe, expect, inject, it } from 'vitest'
import { backendImage, noise, startWorkerWorld, type WorkerWorld } from './worker-world.ts'

const mb = 1024 ** 2
let world: WorkerWorld
let registry: HostileRegistry
let mirror: HostileRegistry
let made = 0

beforeAll(async () => {
  world = await startWorkerWorld({ postgresUrl: inject('postgresUrl') })
  registry = await startHostileRegistry()
  mirror = await startHostileRegistry()
})
afterEach(() => {
  registry.behave()
  mirror.behave()
})
afterAll(async () => {
  await world[Symbol.asyncDispose]()
  await registry.stop()
  await mirror.stop()
})

/** A backend whose second layer is large, new to everybody. */
function publish(bytes = 2 * mb) {
  const name = `echo-${made++}`
  const image = backendImage('1.0', [{ path: 'weights', data: noise(bytes, name) }], { compression: 'none' })
  registry.addImage(name, image, 'v1')
  const [, layer] = image.layers
  if (layer === undefined) throw new Error('it has two layers')
  return { name, image, layer, size: layer.bytes.length, digest: image.manifest.digest, uri: `${registry.host}/${name}:v1` }
}
const sizeOf = (images: { layers: readonly { bytes: Buffer }[] }): number => images.layers.reduce((sum, { bytes }) => sum + bytes.length, 0)
describe('a download that breaks off', () => {
  it('E7 is continued by Range within the same operation, and no byte is sent twice', async () => {
    const { name, uri, layer, size, digest } = publish()
    registry.on(layer.digest, { do: 'truncate', atBytes: mb }, 1)
    expect(await world.install({ backend: name, uri, op_id: `op-${name}` })).toEqual({ success: true })
    const [first, second, ...more] = registry.answersFor(layer.digest)
    expect(more).toEqual([])
    expect(first).toMatchObject({ from: 0 })
    expect(second?.from).toBeGreaterThan(0)
    expect(second?.from).toBeLessThanOrEqual(mb)
    expect(second?.bytes).toBe(size - (second?.from ?? 0))
    expect(await world.status(`op-${name}`)).toMatchObject({ state: 'succeeded', digest })
  })

  it('E7 three times is still one download: every answer begins where the one before ended', async () => {
    const { name, uri, layer, size } = publish(4 * mb)
    registry.on(layer.digest, { do: 'truncate', atBytes: mb }, 3)
    expect(await world.install({ backend: name, uri })).toEqual({ success: true })
    const answers = registry.answersFor(layer.digest)
    expect(answers).toHaveLength(4)
    for (const [n, { from, bytes }] of answers.slice(0, -1).entries()) {
      const next = answers[n + 1]?.from ?? 0
      // Some of what was sent is lost with its connection.
      expect(next).toBeGreaterThan(from + bytes / 2)
      expect(next).toBeLessThanOrEqual(from + bytes)
    }
    const last = answers.at(-1)
    expect((last?.from ?? 0) + (last?.bytes ?? 0)).toBe(size)
  })

  it('E7 for good: unavailable, to be retried; the next operation continues the download', async () => {
    const { name, uri, layer, size } = publish()
    registry.on(layer.digest, { do: 'truncate', atBytes: mb }, 1)
    registry.on(layer.digest, { do: 'truncate', atBytes: 0 })
    await world.start('install', { backend: name, uri, op_id: `a-${name}`, generation: 1, epoch: 1 })
    expect(await world.ended(`a-${name}`)).toMatchObject({ state: 'failed', failure: { code: 'unavailable', retry: 'backoff' } })
    expect(await world.inStore('incoming')).toContain(layer.digest.slice(7))
    registry.behave()
    await world.start('install', { backend: name, uri, op_id: `b-${name}`, generation: 1, epoch: 2 })
    expect(await world.ended(`b-${name}`)).toMatchObject({ state: 'succeeded' })
    const last = registry.answersFor(layer.digest).at(-1)
    expect(last?.from).toBeGreaterThan(0)
    expect(last).toMatchObject({ bytes: size - (last?.from ?? 0) })
  })
})

describe('content other than requested', () => {
  it('E8 a corrupt layer is removed and never used, and is right when the registry is', async () => {
    const { name, uri, layer, size } = publish()
    registry.on(layer.digest, { do: 'corrupt', byte: size - 100 })
    await world.start('install', { backend: name, uri, op_id: `op-${name}`, generation: 1, epoch: 1 })
    expect(await world.ended(`op-${name}`)).toMatchObject({ state: 'failed', failure: { code: 'integrity', retry: 'backoff' } })
    expect(registry.bytesSent(layer.digest)).toBe(size)
    const hex = layer.digest.slice(7)
    expect(await world.inStore('incoming')).not.toContain(hex)
    expect(await world.inStore('blobs', 'sha256')).not.toContain(hex)
    expect(await world.list()).not.toContainEqual(expect.objectContaining({ name }))
    registry.behave()
    await world.start('install', { backend: name, uri, op_id: `again-${name}`, generation: 1, epoch: 2 })
    expect(await world.ended(`again-${name}`)).toMatchObject({ state: 'succeeded' })
    expect(registry.bytesSent(layer.digest)).toBe(2 * size)
  })

  it('E8 a corrupt layer is fetched from the mirror in the same operation', async () => {
    const { name, uri, image, layer, size, digest } = publish()
    mirror.addImage(name, image, 'v1')
    world.offer([{ name, uri, mirrors: [`${mirror.host}/${name}:v1`] }])
    registry.on(layer.digest, { do: 'corrupt', byte: 5 })
    expect(await world.install({ backend: name, op_id: `op-${name}` })).toEqual({ success: true })
    expect(await world.status(`op-${name}`)).toMatchObject({ state: 'succeeded', digest })
    expect([registry.bytesSent(layer.digest), mirror.bytesSent(layer.digest)]).toEqual([size, size])
  })

  it('E7 a download that breaks off at one registry continues at its mirror', async () => {
    const { name, uri, image, layer, size } = publish()
    mirror.addImage(name, image, 'v1')
    world.offer([{ name, uri, mirrors: [`${mirror.host}/${name}:v1`] }])
    registry.on(layer.digest, { do: 'truncate', atBytes: mb })
    expect(await world.install({ backend: name })).toEqual({ success: true })
    const [there] = mirror.answersFor(layer.digest)
    expect(there?.from).toBeGreaterThan(0)
    expect(there?.bytes).toBe(size - (there?.from ?? 0))
  })

  it('E10 another manifest than the requested digest: integrity, and no layer is requested', async () => {
    const { name, uri, layer, digest } = publish()
    registry.on(`/manifests/${digest}`, { do: 'replace', bytes: backendImage('evil').manifest.bytes })
    await world.start('install', { backend: name, uri, digest, op_id: `op-${name}`, exact: true })
    expect(await world.ended(`op-${name}`)).toMatchObject({ state: 'failed', failure: { code: 'integrity', retry: 'backoff' } })
    expect(registry.answersFor(layer.digest)).toEqual([])
  })

  it('E10 a tag that moves during the operation changes nothing: all goes by the digest it meant at first', async () => {
    const { name, uri, layer, digest } = publish()
    registry.on(layer.digest, { do: 'slow', chunkBytes: 256 * 1024, everyMs: 50 })
    await world.start('install', { backend: name, uri, op_id: `op-${name}` })
    await waitFor(() => registry.bytesSent(layer.digest) > 0, { what: 'the download to begin' })
    registry.addImage(name, backendImage('moved'), 'v1')
    expect(await world.ended(`op-${name}`)).toMatchObject({ state: 'succeeded', digest, version: '1.0' })
  })

  it('E9 a layer that is right packed and wrong unpacked is refused, and takes no space afterwards', async () => {
    const { name, image, layer } = publish()
    const config = JSON.parse(image.config.bytes.toString()) as { rootfs: { diff_ids: string[] } }
    config.rootfs.diff_ids[1] = `sha256:${'0'.repeat(64)}`
    const wrong = makeDocument(Buffer.from(JSON.stringify(config)), image.config.mediaType)
    const manifest = { ...(JSON.parse(image.manifest.bytes.toString()) as object) }
    const described = { mediaType: wrong.mediaType, digest: wrong.digest, size: wrong.bytes.length }
    registry.addBlob(wrong)
    const document = makeDocument(Buffer.from(JSON.stringify({ ...manifest, config: described })), image.manifest.mediaType)
    registry.addManifest(name, document, 'wrong')
    const before = await world.inStore('trees', 'sha256')
    await world.start('install', { backend: name, uri: `${registry.host}/${name}:wrong`, op_id: `op-${name}` })
    const { state, failure } = await world.ended(`op-${name}`)
    expect([state, failure?.code, failure?.retry]).toEqual(['failed', 'integrity', 'never'])
    expect(failure?.message).toContain('diff_id')
    expect(await world.inStore('trees', 'sha256')).toEqual(before)
    expect(await world.inStore('blobs', 'sha256')).not.toContain(layer.digest.slice(7))
    expect(await world.inStore('staging')).toEqual([])
  })
})

describe('a registry that makes us wait', () => {
  it('S2.20 a stall at 40 %: progress stays at the received bytes, op.status reports the stall, and op.cancel ends it at once', async () => {
    const { name, uri, image, layer, size } = publish()
    const atBytes = Math.floor(size * 0.4)
    registry.on(layer.digest, { do: 'stall', atBytes })
    const op = `op-${name}`
    await world.start('install', { backend: name, uri, op_id: op })
    const there = sizeOf(image) - size + atBytes
    await waitFor(async () => (await world.status(op)).current === there, { what: 'all that was sent to be counted' })
    const stalledAt = performance.now()
    const seen = new Set<unknown>()
    await waitFor(
      async () => {
        const { state, phase, current, total } = await world.status(op)
        seen.add(JSON.stringify({ state, phase, current, total }))
        return performance.now() - stalledAt > 2_500
      },
      { what: 'the stall to last' },
    )
    expect([...seen]).toEqual([JSON.stringify({ state: 'running', phase: 'downloading', current: there, total: sizeOf(image) })])
    const ticks = world.ticks.filter(({ op_id }) => op_id === op)
    expect(Math.max(...ticks.map(({ current }) => current))).toBe(there)
    expect(ticks.at(-1)?.percentage).toBe(Math.floor((there / sizeOf(image)) * 1000) / 10)
    const asked = performance.now()
    expect(await world.cancel(op)).toMatchObject({ state: 'cancelled', failure: { code: 'cancelled' } })
    expect(performance.now() - asked).toBeLessThan(boundMs(1_000))
    expect(registry.bytesSent(layer.digest)).toBe(atBytes)
    // The received bytes are kept.
    registry.behave()
    expect(await world.install({ backend: name, uri })).toEqual({ success: true })
    expect(registry.answersFor(layer.digest).at(-1)).toEqual({ from: atBytes, bytes: size - atBytes })
  })

  it('E13 429 with Retry-After is waited for, and then it works', async () => {
    const { name, uri, layer, size, digest } = publish()
    const busy = { do: 'answer', status: 429, headers: { 'retry-after': '1' } } as const
    registry.on(`/${name}/manifests/`, busy, 1)
    registry.on(layer.digest, busy, 1)
    const startedAt = performance.now()
    expect(await world.install({ backend: name, uri, op_id: `op-${name}` })).toEqual({ success: true })
    expect(performance.now() - startedAt).toBeGreaterThanOrEqual(2_000)
    expect(await world.status(`op-${name}`)).toMatchObject({ state: 'succeeded', digest })
    expect(registry.bytesSent(layer.digest)).toBe(size)
  })

  it('E14 bursts of 5xx, before and in the middle, cost no byte twice', async () => {
    const { name, uri, layer, size } = publish()
    registry.on(`/${name}/manifests/`, { do: 'answer', status: 503 }, 2)
    registry.on(layer.digest, { do: 'answer', status: 500 }, 1)
    registry.on(layer.digest, { do: 'truncate', atBytes: mb }, 1)
    registry.on(layer.digest, { do: 'answer', status: 502 }, 2)
    expect(await world.install({ backend: name, uri })).toEqual({ success: true })
    const [first, second, ...more] = registry.answersFor(layer.digest)
    expect(more).toEqual([])
    expect(first?.from).toBe(0)
    expect(second?.from).toBeGreaterThan(mb / 2)
    expect(second?.bytes).toBe(size - (second?.from ?? 0))
  })

  it('an operation that failed at one layer downloads no other any more', async () => {
    const name = `echo-${made++}`
    const image = backendImage(
      '1.0',
      [
        { path: 'a', data: noise(mb, `a ${name}`) },
        { path: 'b', data: noise(4 * mb, `b ${name}`) },
      ],
      { compression: 'none' },
    )
    registry.addImage(name, image, 'v1')
    const [, bad, slow] = image.layers
    if (bad === undefined || slow === undefined) throw new Error('it has three layers')
    registry.on(bad.digest, { do: 'corrupt', byte: 1 })
    registry.on(slow.digest, { do: 'slow', chunkBytes: 64 * 1024, everyMs: 30 })
    expect(await world.install({ backend: name, uri: `${registry.host}/${name}:v1` })).toMatchObject({ success: false })
    const file = async (): Promise<number> => (await stat(join(world.store, 'incoming', slow.digest.slice(7)))).size
    const had = await file()
    await world.install({ backend: `${name}-other`, uri: publish(mb).uri })
    expect(await file()).toBe(had)
    expect(registry.bytesSent(slow.digest)).toBeLessThan(slow.bytes.length)
  })
})
