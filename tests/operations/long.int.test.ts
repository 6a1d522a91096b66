// Work that takes longer than it may take before it is shown so, and nodes that hold up nobody but themselves.
import { setTimeout as delay } from 'node:timers/promises'
import { backendInstall, type OperationView } from '@muster/protocol'
import { boundMs, readEvents, waitFor, type EventReader } from '@muster/testkit'
import { afterAll, beforeAll, expect, inject, it } from 'vitest'
import { backendName, createGate, failing, type Behaviour } from '../../packages/worker/test/scripted-installer.ts'
import { startOperationsWorld, type OperationsWorld } from './operations-world.ts'

let world: OperationsWorld
let events: EventReader
beforeAll(async () => {
  world = await startOperationsWorld({
    postgresUrl: inject('postgresUrl'),
    controllers: 2,
    // So long that nothing here waits for it.
    flags: { 'backend-install-timeout': '500ms', 'backend-upgrade-timeout': '500ms', 'reconcile-interval': '10m' },
  })
  events = await readEvents(world.api(1))
})
afterAll(async () => {
  await events.close()
  await world[Symbol.asyncDispose]()
})

const installTakesMs = 4_000
/** A download at its own pace, eight times as long as the timeout. */
const slowDownload: Behaviour = async ({ onProgress, signal }) => {
  for (let ms = 0; ms <= installTakesMs; ms += 100) {
    onProgress({ phase: 'downloading', fileName: 'layer', current: ms, total: installTakesMs })
    await delay(100, undefined, { signal })
  }
}
/** The states that the other controller's stream showed, in order. */
const shown = (id: string): OperationView[] =>
  events.events.filter(({ event, data }) => event === 'operation' && data['id'] === id).map(({ data }) => data as unknown as OperationView)
const statusesOf = (id: string): string[] =>
  shown(id)
    .map(({ nodes }) => nodes[0]?.status ?? '')
    .filter((status, index, all) => status !== all[index - 1])

it('S2.5 S2.6 S2.7 S2.9 S2.12 S2.16 A17 an install that takes eight times its timeout is busy, then done, and costs no attempt', async () => {
  const worker = await world.addWorker('slow')
  worker.installer.script.set(backendName('slow'), slowDownload)
  world.publish('slow', '1.0.0')
  const began = performance.now()
  const id = await world.install('slow', { nodes: [worker.id] })
  const busy = await world.until(id, 'busy', ({ nodes }) => nodes[0]?.status === 'running_on_worker', { index: 1 })
  expect(performance.now() - began).toBeLessThan(installTakesMs)
  expect(busy).toMatchObject({
    state: 'background',
    finished_at: null,
    nodes: [{ attempts: 0, error: null, dead: false, phase: 'downloading' }],
  })
  expect(busy.message).toContain('worker still installing in background')
  const listed = async (): Promise<boolean> => {
    const { operations } = (await world.api(1).get('/api/operations')).body as unknown as { operations: { id: string }[] }
    return operations.some((each) => each.id === id)
  }
  expect(await listed()).toBe(true)
  // It stays so, while the bytes go on.
  const bytes = busy.nodes[0]?.current ?? 0
  const further = await world.until(id, 'further', ({ nodes }) => (nodes[0]?.current ?? 0) > bytes)
  expect(further.nodes[0]).toMatchObject({ status: 'running_on_worker', attempts: 0 })
  expect(await world.ended(id, { index: 1 })).toMatchObject({ state: 'succeeded', nodes: [{ status: 'success', attempts: 0 }] })
  expect(performance.now() - began).toBeGreaterThan(installTakesMs)
  expect(await listed()).toBe(false)
  expect(worker.installer.calls).toHaveLength(1)
  await events.until('success on the stream', ({ data }) => data['id'] === id && data['state'] === 'succeeded')
  // That it was queued may be over before the stream is told: it tells what is, not what was.
  expect(statusesOf(id).filter((status) => status !== 'queued')).toEqual(['downloading', 'running_on_worker', 'success'])
})

it('S2.9 W4 the same on a retry: the failure before it is the only attempt', async () => {
  const worker = await world.addWorker('slow-retry')
  const name = backendName('slow-retry')
  const failure = { code: 'unavailable', retry: 'backoff', message: 'the registry is away' } as const
  worker.installer.script.set(name, async (context) => {
    worker.installer.script.set(name, slowDownload)
    await failing(failure)(context)
  })
  world.publish('slow-retry', '1.0.0')
  const id = await world.install('slow-retry', { nodes: [worker.id] })
  const busy = await world.until(id, 'busy', ({ nodes }) => nodes[0]?.status === 'running_on_worker')
  expect(busy).toMatchObject({ state: 'background', nodes: [{ attempts: 1, error: null, next_retry_at: null }] })
  expect(await world.ended(id)).toMatchObject({ state: 'succeeded', nodes: [{ status: 'success', attempts: 1 }] })
  expect(worker.installer.calls).toHaveLength(2)
})

it('S2.15 the end is on every stream at once, without a round of the reconciler', async () => {
  const worker = await world.addWorker('prompt')
  const gate = createGate()
  worker.installer.script.set(backendName('prompt'), gate.behaviour)
  world.publish('prompt', '1.0.0')
  const id = await world.install('prompt', { nodes: [worker.id] })
  await world.until(id, 'busy', ({ state }) => state === 'background')
  const opened = performance.now()
  gate.open()
  await events.until(
    'success on the stream',
    ({ event, data }) => event === 'operation' && data['id'] === id && data['state'] === 'succeeded',
  )
  expect(performance.now() - opened).toBeLessThan(boundMs(1_500))
  expect((await world.operation(id, 1)).state).toBe('succeeded')
})

it('S2.11 busy nodes are named; a real error of another node decides the outcome', async () => {
  const [busy, broken] = [await world.addWorker('mixed-busy'), await world.addWorker('mixed-broken')]
  const gate = createGate()
  busy.installer.script.set(backendName('mixed'), gate.behaviour)
  broken.installer.script.set(backendName('mixed'), failing({ code: 'integrity', retry: 'never', message: 'it is not what it should be' }))
  world.publish('mixed', '1.0.0')
  const id = await world.install('mixed', { nodes: [busy.id, broken.id] })
  const both = await world.until(id, 'busy', ({ nodes }) => nodes.some(({ status }) => status === 'running_on_worker'))
  expect(both).toMatchObject({
    state: 'background',
    nodes: [
      { node_name: 'mixed-broken', status: 'error', error_code: 'integrity', dead: false, next_retry_at: null },
      { node_name: 'mixed-busy', status: 'running_on_worker', error: null },
    ],
  })
  gate.open()
  const done = await world.ended(id)
  expect(done).toMatchObject({ state: 'failed', message: 'mixed-broken: it is not what it should be' })
})

it('A16 W1 W2 W3 one slow, one hung and one old silent node: the others are done as if these were not there', async () => {
  const slow = await world.addWorker('a-slow')
  const slowGate = createGate()
  slow.installer.script.set(backendName('wide'), slowGate.behaviour)
  // It takes commands and answers none.
  const hung = await world.addWireWorker('b-hung')
  let asked = 0
  hung.bus.serve(backendInstall, { node: hung.id }, () => {
    asked += 1
    return new Promise<never>(() => undefined)
  })
  const opened = Promise.withResolvers<void>()
  const silent = await world.addLegacyWorker('c-silent', { work: () => opened.promise })
  const others = await Promise.all(['d', 'e', 'f', 'g'].map((name) => world.addWorker(name)))
  const nodes = [slow, hung, silent, ...others].map(({ id }) => id)
  const ids: string[] = []
  for (const round of ['wide', 'wider', 'widest']) {
    world.publish(round, '1.0.0')
    const began = performance.now()
    const id = await world.install(round, { nodes })
    ids.push(id)
    await world.until(id, 'done on the others', (operation) => operation.nodes.slice(3).every(({ status }) => status === 'success'))
    expect(performance.now() - began).toBeLessThan(boundMs(5_000))
    const { nodes: rows } = await world.operation(id)
    expect(rows.slice(0, 3).map(({ attempts }) => attempts)).toEqual([0, 0, 0])
    // Nothing was heard of it: neither an error nor work.
    expect(rows[1]).toMatchObject({ node_name: 'b-hung', status: 'queued' })
  }
  // The node at its long work takes other work on beside it.
  expect([...slow.installer.installed.keys()]).toEqual(['wider', 'widest'])
  await waitFor(() => asked > 0, { what: 'the hung node to be asked' })
  slowGate.open()
  opened.resolve()
  for (const id of ids)
    await world.until(id, 'done but for the hung', (operation) =>
      operation.nodes.every(({ status, node_name: name }) => status === 'success' || name === 'b-hung'),
    )
})
