// The same commands over a real NATS, and with those who know only the original's wire.
import { BusError, connectNats, createLocalHub, type Bus } from '@muster/bus'
import { silentLog, systemClock } from '@muster/host'
import { backendInstall, backendList, backendUpgrade, opStatus, progress, type Progress } from '@muster/protocol'
import { boundMs, createLegacyController, startLegacyWorker, startNats, waitFor, type NatsServer } from '@muster/testkit'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { nodeId, opId, soon, startOperations, to, type OperationsWorld } from '../../test/operations-world.ts'
import { backendName, createGate, createScriptedInstaller, digestOf, failing } from '../../test/scripted-installer.ts'

const cleanup: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const undo of cleanup.splice(0).toReversed()) await undo()
})
const llama = backendName('llama')
const whisper = backendName('whisper')

let server: NatsServer
let connections = 0
async function connect(): Promise<Bus> {
  connections += 1
  const bus = await connectNats({
    url: server.url,
    name: 'test',
    inboxPrefix: `_INBOX_test_${connections}`,
    log: silentLog,
    clock: systemClock,
  })
  await waitFor(() => bus.isConnected(), { what: 'a connection to the bus' })
  return bus
}

async function world(): Promise<OperationsWorld & { installer: ReturnType<typeof createScriptedInstaller> }> {
  const installer = createScriptedInstaller()
  const node = await startOperations({ installer, connect })
  cleanup.push(async () => node[Symbol.asyncDispose]())
  return { ...node, installer }
}

describe('over NATS', () => {
  beforeAll(async () => {
    server = await startNats()
  })
  afterAll(() => server.stop())

  it('S1.1 S1.2 S1.24 a hundred slow upgrades run in parallel, and an install beside them starts within 2 s', async () => {
    const { installer, bus, ticks, result } = await world()
    const gate = createGate()
    const slow = Array.from({ length: 100 }, (_, n) => backendName(`slow-${n}`))
    for (const backend of slow) installer.script.set(backend, gate.behaviour)
    // As the original asks: each of them waits for the end.
    const upgrades = slow.map((backend) => bus.request(backendUpgrade, to, { backend }, { timeoutMs: 60_000 }))
    await waitFor(() => gate.arrived() === 100, { what: 'all of them to run' })
    const sentAt = performance.now()
    expect(await bus.request(backendInstall, to, { backend: whisper, op_id: 'fast', async: true }, soon)).toEqual({ accepted: true })
    await waitFor(() => ticks.some(({ op_id, phase }) => op_id === 'fast' && phase === 'resolving'), { what: 'resolving' })
    expect(performance.now() - sentAt).toBeLessThan(boundMs(2000))
    expect(await result('fast')).toMatchObject({ state: 'succeeded' })
    gate.open()
    expect(await Promise.all(upgrades)).toEqual(slow.map(() => ({ success: true })))
  })

  it('A20 a hundred deliveries of one command over two connections run once', async () => {
    const { installer, bus } = await world()
    const other = await connect()
    cleanup.push(() => other.close())
    const body = { backend: llama, generation: 5, epoch: 1, digest: digestOf(4) }
    const replies = await Promise.all(
      Array.from({ length: 100 }, (_, n) => (n % 2 === 0 ? bus : other).request(backendInstall, to, body, soon)),
    )
    expect(replies.every((reply) => 'success' in reply && reply.success)).toBe(true)
    expect(installer.calls).toHaveLength(1)
  })

  it('the result of work that ended while the bus was away is published when it is back', async () => {
    const { installer, bus, result } = await world()
    const gate = createGate()
    installer.script.set(llama, gate.behaviour)
    await bus.request(backendInstall, to, { backend: llama, op_id: 'op-1', generation: 1, async: true }, soon)
    await waitFor(() => gate.arrived() === 1, { what: 'the work to begin' })
    await server.kill('SIGKILL')
    gate.open()
    await waitFor(() => installer.installed.has(llama), { what: 'the work to end without a bus' })
    await server.restart()
    await waitFor(() => bus.isConnected(), { what: 'the bus' })
    expect(await waitFor(() => bus.request(opStatus, to, { op_id: 'op-1' }, soon), { what: 'an answer' })).toMatchObject({
      state: 'succeeded',
    })
    expect(await result('op-1')).toMatchObject({ state: 'succeeded', generation: 1 })
  })

  it('J1 S1.12 a controller that knows only the original installs, upgrades by force, lists and deletes', async () => {
    const { installer, bus } = await world()
    const legacy = createLegacyController({ bus, nodeId, timeoutMs: 60_000 })
    expect(await legacy.list()).toEqual([])
    const seen: number[] = []
    const unwatch = legacy.watch(opId('op-1'), ({ percentage }) => void seen.push(percentage))
    await bus.ping(5000)
    expect(await legacy.install({ backend: llama, op_id: 'op-1' })).toEqual({ success: true })
    expect(await legacy.install({ backend: llama, force: true })).toEqual({ success: true })
    expect(await legacy.upgrade({ backend: llama })).toEqual({ success: true })
    expect(installer.calls.map(({ request }) => request?.mode)).toEqual(['install', 'reinstall', 'upgrade'])
    expect(await legacy.list()).toMatchObject([{ name: 'llama', version: 'v1' }])
    installer.script.set(whisper, failing({ code: 'integrity', retry: 'backoff', message: 'a layer is not what it should be' }))
    expect(await legacy.install({ backend: whisper })).toEqual({ success: false, error: 'integrity: a layer is not what it should be' })
    expect(await legacy.remove(llama)).toEqual({ success: true })
    expect(await legacy.list()).toEqual([])
    await waitFor(() => seen.at(-1) === 100, { what: 'the last progress' })
    await unwatch()
  })
})

describe('a worker that knows only the original', () => {
  function legacyWorld(options: Partial<Parameters<typeof startLegacyWorker>[0]> = {}) {
    const hub = createLocalHub({ log: silentLog })
    const bus = hub.connect()
    const worker = startLegacyWorker({ bus: hub.connect(), nodeId, ...options })
    cleanup.push(worker.stop)
    return { bus, worker }
  }

  it('J1 ignores unknown fields, and its reply at the end is understood', async () => {
    const { bus, worker } = legacyWorld({ hasUpgrade: true })
    const body = { backend: llama, async: true, generation: 5, epoch: 1, op_id: opId('op-1'), digest: digestOf(1) }
    expect(await bus.request(backendInstall, to, body, soon)).toEqual({ success: true })
    expect(worker.heard).toEqual([{ kind: 'install', request: { backend: 'llama', op_id: 'op-1' } }])
    expect(await bus.request(backendUpgrade, to, body, soon)).toEqual({ success: true })
    expect(worker.backends).toEqual(new Map([['llama', 2]]))
    await expect(bus.request(opStatus, to, { op_id: opId('op-1') }, soon)).rejects.toMatchObject({ code: 'no_responders' })
  })

  it('J1 may serve no upgrades, and lists nothing as null', async () => {
    const { bus, worker } = legacyWorld({
      work: async ({ request }) => {
        if (request.backend === 'whisper') throw new Error('no space left')
      },
    })
    await expect(bus.request(backendUpgrade, to, { backend: llama }, soon)).rejects.toBeInstanceOf(BusError)
    expect(await bus.request(backendList, to, {}, soon)).toEqual({ backends: [] })
    const legacy = createLegacyController({ bus, nodeId, timeoutMs: 60_000 })
    expect(await legacy.upgrade({ backend: llama })).toEqual({ success: true })
    expect(worker.heard).toEqual([{ kind: 'install', request: { backend: 'llama', force: true } }])
    expect(await legacy.install({ backend: whisper })).toEqual({ success: false, error: 'no space left' })
    legacy.stopBackend('llama')
    await waitFor(() => worker.heard.some(({ kind }) => kind === 'stop'), { what: 'the stop' })
  })

  it('S2.27 its progress, as text without numbers, is parsed', async () => {
    const { bus } = legacyWorld({ hasProgress: true, work: async ({ tick }) => tick(41) })
    const ticks: Progress[] = []
    bus.subscribe(progress, { node: '*', op: '*' }, (tick) => void ticks.push(tick))
    await bus.request(backendInstall, to, { backend: llama, op_id: opId('op-1') }, soon)
    await bus.request(backendInstall, to, { backend: whisper }, soon)
    await waitFor(() => ticks.length > 0, { what: 'the progress' })
    expect(ticks).toMatchObject([{ op_id: 'op-1', percentage: 41, phase: 'downloading', current: 0, total: 0 }])
    expect(ticks[0]?.seq).toBeUndefined()
  })
})
