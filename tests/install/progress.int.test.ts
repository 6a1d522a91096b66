// How a worker tells what it downloads, over a real NATS: by the subject of each operation, often enough and not more
// often, true to the bytes, and never at the expense of the download.
import { backendInstall, progress, type Progress } from '@muster/protocol'
import { boundMs, startHostileRegistry, waitFor, type HostileRegistry } from '@muster/testkit'
import { afterAll, afterEach, beforeAll, describe, expect, inject, it } from 'vitest'
import { backendImage, noise, startWorkerWorld, type WorkerWorld } from './worker-world.ts'

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

function publish(bytes = 512 * 1024) {
  const backend = `echo-${made++}`
  const image = backendImage('1.0', [{ path: 'weights', data: noise(bytes, backend) }], { compression: 'none' })
  registry.addImage(backend, image, 'v1')
  const [, layer] = image.layers
  if (layer === undefined) throw new Error('it has two layers')
  const total = image.layers.reduce((sum, { bytes: each }) => sum + each.length, 0)
  return { backend, uri: `${registry.host}/${backend}:v1`, image, layer, total, op: `op-${backend}` }
}
const slowly = { do: 'slow', chunkBytes: 16 * 1024, everyMs: 50 } as const
const ticksOf = (op: string): (Progress & { at: number })[] => world.ticks.filter(({ op_id }) => op_id === op)

describe('progress', () => {
  it('S2.17 two installs at once each have a subject of their own, and nothing of the other on it', async () => {
    const both = [publish(), publish()]
    const heard = new Map<string, Progress[]>()
    for (const { op, layer } of both) {
      heard.set(op, [])
      registry.on(layer.digest, slowly)
      world.bus.subscribe(progress, { node: world.node, op: op as Progress['op_id'] }, (tick) => void heard.get(op)?.push(tick))
    }
    await Promise.all(both.map(({ backend, uri, op }) => world.start('install', { backend, uri, op_id: op })))
    for (const { op, backend, total } of both) {
      expect(await world.ended(op)).toMatchObject({ state: 'succeeded' })
      await waitFor(() => heard.get(op)?.at(-1)?.percentage === 100, { what: 'the last one' })
      const ticks = heard.get(op) ?? []
      expect(new Set(ticks.map((tick) => `${tick.op_id} ${tick.backend}`))).toEqual(new Set([`${op} ${backend}`]))
      expect(ticks.at(-1)).toMatchObject({ current: total, total })
    }
  })

  it('S2.18 S2.31 each message has operation, node, backend, file, bytes, percentage and phase; the phases are those of the contract', async () => {
    const { backend, uri, op, layer, total } = publish()
    registry.on(layer.digest, slowly)
    await world.start('install', { backend, uri, op_id: op })
    expect(await world.ended(op)).toMatchObject({ state: 'succeeded' })
    const ticks = await waitFor(() => (ticksOf(op).at(-1)?.percentage === 100 ? ticksOf(op) : null), { what: 'the last one' })
    for (const tick of ticks) expect(tick).toMatchObject({ op_id: op, node_id: world.node, backend })
    expect(ticks.every(({ seq = 0 }, n) => n === 0 || seq > (ticks[n - 1]?.seq ?? 0))).toBe(true)
    const order = ['resolving', 'downloading', 'extracting', 'starting']
    const phases = [...new Set(ticks.map(({ phase }) => phase))]
    expect(phases.map((phase) => order.indexOf(String(phase)))).toEqual(phases.map((_, n) => n))
    const loading = ticks.filter(({ phase }) => phase === 'downloading')
    expect(loading.length).toBeGreaterThan(2)
    for (const { current, total: all, percentage, file_name } of loading) {
      expect(all).toBe(total)
      expect(percentage).toBe(Math.floor((current / total) * 1000) / 10)
      expect(file_name).toMatch(/^sha256:/)
    }
    expect(loading.some(({ file_name }) => file_name.startsWith(layer.digest.slice(0, 15)))).toBe(true)
  })

  it('S2.19 without an operation id there is none', async () => {
    const { backend, uri, layer } = publish()
    registry.on(layer.digest, slowly)
    expect(await world.bus.request(backendInstall, { node: world.node }, { backend, uri }, { timeoutMs: 60_000 })).toEqual({
      success: true,
    })
    const after = publish(1024)
    await world.start('install', { backend: after.backend, uri: after.uri, op_id: after.op })
    await waitFor(() => ticksOf(after.op).at(-1)?.percentage === 100, { what: 'that of a later one' })
    expect(world.ticks.filter((tick) => tick.backend === backend)).toEqual([])
  })

  it.each([
    ['a success', 'succeeded', null],
    ['an error', 'failed', { do: 'corrupt', byte: 100 } as const],
  ])('S2.20 the first at once, then one per 250 ms at most, and the last one also at %s', async (_, state, wrong) => {
    const { backend, uri, op, image, layer, total } = publish()
    const [small] = image.layers
    registry.on(layer.digest, wrong === null ? slowly : wrong)
    if (small !== undefined && wrong !== null) registry.on(small.digest, { do: 'slow', chunkBytes: 64, everyMs: 100 })
    const sentAt = performance.now()
    await world.start('install', { backend, uri, op_id: op })
    expect((await waitFor(() => ticksOf(op)[0], { what: 'the first' })).at - sentAt).toBeLessThan(boundMs(500))
    const end = await world.ended(op)
    expect(end.state).toBe(state)
    const endedAt = performance.now()
    await waitFor(() => performance.now() - endedAt > 300, { what: 'late messages' })
    const ticks = ticksOf(op)
    // Their number, not their distance: on their way two may come closer together than they were sent.
    expect(ticks.length).toBeLessThanOrEqual(2 + Math.ceil((endedAt - sentAt) / 250))
    const last = ticks.at(-1)
    if (state === 'succeeded') expect(last).toMatchObject({ current: total, total, percentage: 100 })
    // All of the wrong layer came before it was seen to be wrong.
    else expect(last?.current).toBeGreaterThanOrEqual(layer.bytes.length)
  })

  it('S2.21 a bus that is gone does not hold up the download', async () => {
    const { backend, uri, op, layer } = publish()
    registry.on(layer.digest, slowly)
    await world.start('install', { backend, uri, op_id: op })
    await waitFor(() => registry.bytesSent(layer.digest) > 0, { what: 'the download to begin' })
    await world.nats.kill('SIGSTOP')
    const stoppedAt = performance.now()
    await waitFor(() => registry.bytesSent(layer.digest) === layer.bytes.length, { what: 'the rest of it without a bus' })
    // At its own pace: 32 pieces of 50 ms.
    expect(performance.now() - stoppedAt).toBeLessThan(boundMs(8_000))
    await waitFor(async () => (await world.inStore('backends')).includes(backend), { what: 'it to be installed without a bus' })
    await world.nats.kill('SIGCONT')
    expect(await waitFor(() => world.ended(op), { what: 'the bus to be back' })).toMatchObject({ state: 'succeeded' })
  })
})
