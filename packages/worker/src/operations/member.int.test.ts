// Operations as a whole worker has them: with its heartbeats, its restarts and its membership.
import type { Bus } from '@muster/bus'
import {
  backendDelete,
  backendInstall,
  backendList,
  heartbeat,
  nodeEvents,
  opStatus,
  type Heartbeat,
  type NodeEvent,
} from '@muster/protocol'
import { makeTempDir, waitFor } from '@muster/testkit'
import { afterEach, describe, expect, it } from 'vitest'
import { createFakeCluster, startFakeController } from '../../test/fake-controller.ts'
import { soon } from '../../test/operations-world.ts'
import { backendName, createGate, createScriptedInstaller, digestOf, type ScriptedInstaller } from '../../test/scripted-installer.ts'
import { newHub, startTestWorker, type TestWorker } from '../../test/start-test-worker.ts'

const cleanup: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const undo of cleanup.splice(0).toReversed()) await undo()
})
const llama = backendName('llama')

async function world() {
  const cluster = createFakeCluster()
  const controller = await startFakeController(cluster)
  const directory = await makeTempDir('member')
  cleanup.push(directory.remove, controller.stop)
  const hub = newHub()
  const bus = hub.connect()
  const beats: Heartbeat[] = []
  const events: NodeEvent[] = []
  bus.subscribe(heartbeat, { node: '*' }, (beat) => void beats.push(beat))
  bus.subscribe(nodeEvents, { node: '*' }, (event) => void events.push(event))
  const start = async (installer?: ScriptedInstaller): Promise<TestWorker> => {
    const given = installer === undefined ? {} : { installer }
    const worker = await startTestWorker({ directory: directory.path, join: controller.url, token: 'right', hub, ...given })
    cleanup.push(worker.stop)
    return worker
  }
  /** Sends to the current node; resolves once it is a member. */
  const approved = async (worker: TestWorker) => {
    const node = await waitFor(() => worker.nodeId(), { what: 'a node id' })
    const row = await waitFor(() => cluster.nodes.get(node), { what: 'the row' })
    row.approved = true
    cluster.changed()
    await waitFor(() => bus.request(backendList, { node }, {}, soon), { what: 'a member' })
    return { node }
  }
  return { cluster, bus, beats, events, start, approved }
}
const install = (bus: Bus, to: Awaited<ReturnType<Awaited<ReturnType<typeof world>>['approved']>>, body: object) =>
  bus.request(backendInstall, to, { backend: llama, ...body }, soon)

describe('a worker', () => {
  it('lists its operations in heartbeats, and resumes them after a restart', async () => {
    const { bus, beats, events, start, approved } = await world()
    const installer = createScriptedInstaller()
    const gate = createGate()
    installer.script.set(llama, gate.behaviour)
    const first = await start(installer)
    const to = await approved(first)
    expect(await install(bus, to, { async: true, op_id: 'op-1', generation: 3, digest: digestOf(3) })).toEqual({ accepted: true })
    await waitFor(() => beats.at(-1)?.ops.includes('op-1' as never), { what: 'a heartbeat with the operation' })
    await waitFor(() => gate.arrived() === 1, { what: 'the work to begin' })
    await first.stop()
    gate.open()
    const second = await start(installer)
    expect(second.nodeId()).toBe(to.node)
    const result = await waitFor(() => events.find((event) => event.type === 'op.result'), { what: 'the result' })
    expect(result).toMatchObject({ op_id: 'op-1', state: 'succeeded', generation: 3, digest: digestOf(3) })
    await waitFor(() => beats.at(-1)?.ops.length === 0, { what: 'a heartbeat without it' })
    await waitFor(() => events.at(-1)?.type === 'inventory', { what: 'the inventory' })
    expect(events.at(-1)).toMatchObject({ backends: [{ name: 'llama', digest: digestOf(3) }] })
  })

  it('without galleries reports not_found, and deletes a missing backend', async () => {
    const { bus, start, approved } = await world()
    const to = await approved(await start())
    expect(await install(bus, to, { async: true, op_id: 'op-1' })).toEqual({ accepted: true })
    await waitFor(async () => (await bus.request(opStatus, to, { op_id: 'op-1' }, soon)).state === 'failed', { what: 'the failure' })
    expect(await bus.request(opStatus, to, { op_id: 'op-1' }, soon)).toMatchObject({ failure: { code: 'not_found', retry: 'never' } })
    expect(await install(bus, to, {})).toMatchObject({ success: false, error: expect.stringMatching(/^not_found: /) as string })
    expect(await bus.request(backendDelete, to, { backend: 'llama' }, soon)).toEqual({ success: true })
  })

  it('that was deleted joins again, keeps its backends and forgets all generations', async () => {
    const { cluster, bus, start, approved } = await world()
    const installer = createScriptedInstaller()
    const worker = await start(installer)
    const before = await approved(worker)
    expect(await install(bus, before, { generation: 9, op_id: 'op-1' })).toEqual({ success: true })
    cluster.nodes.delete(before.node)
    cluster.changed()
    await waitFor(() => worker.nodeId() !== null && worker.nodeId() !== before.node, { what: 'a new id' })
    const after = await approved(worker)
    expect((await bus.request(backendList, after, {}, soon)).backends).toHaveLength(1)
    expect(await bus.request(opStatus, after, { op_id: 'op-1' }, soon)).toMatchObject({ state: 'unknown' })
    expect(await install(bus, after, { generation: 1, digest: digestOf(2), exact: true })).toEqual({ success: true })
  })

  it('stops although a caller still waits for the end of a command', async () => {
    const { bus, start, approved } = await world()
    const installer = createScriptedInstaller()
    const gate = createGate()
    installer.script.set(llama, gate.behaviour)
    const worker = await start(installer)
    const waiting = install(bus, await approved(worker), {}).catch((error: unknown) => error)
    await waitFor(() => gate.arrived() === 1, { what: 'the work to begin' })
    await worker.stop()
    expect(await waiting).toMatchObject({ failure: { code: 'unavailable' } })
  })
})
