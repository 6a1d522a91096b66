// One operation seen from two controllers at once, on a real nats-server: the same nodes, the same states, and bars that
// only grow; and event streams that are continued elsewhere.
import { connect } from 'node:net'
import { newId } from '@muster/host'
import { boundMs, adminKey, readEvents, waitFor, type EventReader, type SeenEvent } from '@muster/testkit'
import { backendInstall, backendList, opStatus, type OperationView } from '@muster/protocol'
import { afterAll, beforeAll, expect, inject, it } from 'vitest'
import { backendName, createGate, failing } from '../../packages/worker/test/scripted-installer.ts'
import { startOperationsWorld, type OperationsWorld, type ScriptedWorker, type WireWorker } from './operations-world.ts'

let world: OperationsWorld
let workers: ScriptedWorker[] = []
let wire: WireWorker
beforeAll(async () => {
  world = await startOperationsWorld({ postgresUrl: inject('postgresUrl'), controllers: 2, nats: true })
  workers = await Promise.all(['n-a', 'n-b', 'n-c'].map((name) => world.addWorker(name)))
  wire = await world.addWireWorker('wire', { features: ['async', 'progress'] })
  wire.bus.serve(backendInstall, { node: wire.id }, () => ({ accepted: true as const }))
  wire.bus.serve(opStatus, { node: wire.id }, ({ op_id }) => ({ op_id, state: 'running' as const, current: Math.floor(performance.now()) }))
  wire.bus.serve(backendList, { node: wire.id }, () => ({ backends: [] }))
})
afterAll(() => world[Symbol.asyncDispose]())

const isEnded = ({ state }: Pick<OperationView, 'state'>): boolean => ['succeeded', 'failed', 'cancelled'].includes(state)
const asOperation = (event: SeenEvent): OperationView => event.data as unknown as OperationView
const eventsOf = (reader: EventReader, id: string): SeenEvent[] =>
  reader.events.filter(({ event, data }) => event === 'operation' && data['id'] === id)
const untilEnd = (reader: EventReader, id: string): Promise<SeenEvent> =>
  reader.until('the end', (event) => event.event === 'operation' && event.data['id'] === id && isEnded(asOperation(event)))

/** Everything that one controller answers, until the operation has ended. */
async function pollOften(id: string, index: number): Promise<OperationView[]> {
  const seen: OperationView[] = []
  await waitFor(
    async () => {
      const now = await world.operation(id, index)
      seen.push(now)
      return isEnded(now)
    },
    { what: `the end on controller ${index}` },
  )
  return seen
}

/** Checks the states that one observer sees, in order. */
function expectSteady(seen: readonly OperationView[], names: readonly string[]): void {
  for (const [at, now] of seen.entries()) {
    expect(now.nodes.map(({ node_name }) => node_name)).toEqual(names)
    expect(now.finished_at === null, `finished_at of ${now.state}`).toBe(!isEnded(now))
    const before = seen[at - 1]
    if (before === undefined) continue
    expect(now.progress).toBeGreaterThanOrEqual(before.progress)
    for (const [index, node] of now.nodes.entries()) {
      const earlier = before.nodes[index]
      if (earlier === undefined) continue
      expect(node.attempts).toBeGreaterThanOrEqual(earlier.attempts)
      if (node.attempts === earlier.attempts)
        expect(node.percentage, `${node.node_name} at ${at}`).toBeGreaterThanOrEqual(earlier.percentage)
      if (earlier.status === 'success') expect(node.status).toBe('success')
    }
  }
}

it('S2.46 B6 B7 W12 S2.33 two controllers show three nodes steadily: nothing vanishes, no bar goes back, the whole is weighted by bytes', async () => {
  const totals = new Map([
    ['n-a', 1_000],
    ['n-b', 4_000],
    ['n-c', 10_000],
  ])
  let fails = 1
  // An installed backend is installed at once, also for a test that is repeated.
  const backend = `steady-${newId()}`
  for (const { name, installer } of workers)
    installer.script.set(backendName(backend), async ({ onProgress }) => {
      const total = totals.get(name) ?? 1
      for (let step = 0; step <= 20; step += 1) {
        // The large one learns late how much it has to fetch, and fails once in the middle.
        const known = name === 'n-c' && step < 5 ? total / 10 : total
        onProgress({
          phase: step < 15 ? 'downloading' : 'extracting',
          fileName: `${name} ${step}`,
          current: Math.min(known, (total / 20) * step),
          total: known,
        })
        await new Promise((resolve) => setTimeout(resolve, 150))
        if (name === 'n-b' && step === 10 && fails-- > 0)
          await failing({ code: 'unavailable', retry: 'backoff', message: 'the registry is away' })({} as never)
      }
    })
  world.publish(backend, '1.0.0')
  await using reader = await readEvents(world.api(1))
  const id = await world.install(backend, { nodes: workers.map((worker) => worker.id) })
  const both = await Promise.all([pollOften(id, 0), pollOften(id, 1)])
  await untilEnd(reader, id)
  const names = ['n-a', 'n-b', 'n-c']
  for (const seen of both) {
    expect(seen.length).toBeGreaterThan(10)
    expectSteady(seen, names)
    // Bytes change with every report; the progress is stored, and shown, once a second.
    expect(new Set(seen.map(({ current_bytes: current }) => current)).size).toBeGreaterThan(5)
    expect(new Set(seen.map(({ progress }) => progress)).size).toBeGreaterThan(2)
  }
  const told = eventsOf(reader, id).map(asOperation)
  expectSteady(told, names)
  const [a, b] = await Promise.all([world.operation(id, 0), world.operation(id, 1)])
  expect(a).toEqual(b)
  expect(a).toMatchObject({ state: 'succeeded', progress: 100, current_bytes: 15_000, total_bytes: 15_000 })
  expect(a.nodes.map(({ attempts }) => attempts)).toEqual([0, 1, 0])
  // Ticks acknowledge nothing; stored states do, and both are whole objects.
  const ticks = eventsOf(reader, id).filter((event) => event.id === null)
  expect(ticks.length).toBeGreaterThan(0)
  for (const { data } of eventsOf(reader, id)) expect(Object.keys(data).toSorted()).toEqual(Object.keys(a).toSorted())
})

it('B7 a stored state is the same on both within a second', async () => {
  const gate = createGate()
  workers[0]?.installer.script.set(backendName('same'), gate.behaviour)
  world.publish('same', '1.0.0')
  const id = await world.install('same', { nodes: [workers[0]?.id ?? ''] })
  await world.until(id, 'in work', ({ nodes }) => nodes[0]?.status === 'downloading')
  await world.until(id, 'in work there', ({ nodes }) => nodes[0]?.status === 'downloading', { index: 1, timeoutMs: boundMs(1_000) })
  gate.open()
  const here = await world.ended(id)
  expect(await world.ended(id, { index: 1, timeoutMs: boundMs(1_000) })).toEqual(here)
})

it('a stream that is continued on the other controller misses nothing', async () => {
  const gates = [createGate(), createGate(), createGate()]
  for (const [index, worker] of workers.entries())
    worker.installer.script.set(backendName('moved'), gates[index]?.behaviour ?? (async () => undefined))
  world.publish('moved', '1.0.0')
  let reader = await readEvents(world.api(0))
  const id = await world.install('moved', { nodes: workers.map((worker) => worker.id) })
  const done = (event: SeenEvent): number => asOperation(event).nodes.filter(({ status }) => status === 'success').length
  for (const [index, gate] of gates.entries()) {
    await reader.until(
      `${index} done`,
      (event) => event.event === 'operation' && event.data['id'] === id && event.id !== null && done(event) >= index,
    )
    const lastEventId = reader.lastId() ?? ''
    await reader.close()
    gate.open()
    // The state changes while nobody listens.
    await world.until(id, `${index + 1} done`, ({ nodes }) => nodes.filter(({ status }) => status === 'success').length > index)
    reader = await readEvents(world.api((index + 1) % 2), { lastEventId })
  }
  const last = await untilEnd(reader, id)
  expect(reader.events.some(({ event }) => event === 'reset')).toBe(false)
  expect(asOperation(last)).toEqual(await world.operation(id))
  await reader.close()
})

it('B4 B13 a flood of ticks is bounded and harmless: other operations are shown, heartbeats count, and a listener that never reads delays no other', async () => {
  world.publish('flood', '1.0.0')
  world.publish('calm', '1.0.0')
  const flooded = await world.install('flood', { nodes: [wire.id] })
  await world.until(flooded, 'taken on', ({ nodes }) => nodes[0]?.status === 'downloading')
  const { hostname, port } = new URL(world.controllers[0]?.url ?? '')
  const deaf = connect(Number(port), hostname)
  deaf.pause()
  deaf.write(`GET /api/events HTTP/1.1\r\nHost: ${hostname}\r\nAuthorization: Bearer ${adminKey}\r\n\r\n`)
  await using reader = await readEvents(world.api(0))
  const gate = createGate()
  const calm = workers[0]
  calm?.installer.script.set(backendName('calm'), async (context) => {
    context.onProgress({ phase: 'downloading', current: 1, total: 2, fileName: 'calm' })
    await gate.behaviour(context)
  })
  let seq = 0
  const about = { backend: backendName('flood'), total: 1_000_000, phase: 'downloading' as const }
  const flood = setInterval(() => {
    for (let i = 0; i < 200; i += 1) {
      seq += 1
      // Its own operation, one that never was, and text that no database keeps.
      const op = seq % 3 === 0 ? `op-x${seq}` : flooded
      wire.tick(op, { ...about, file_name: seq % 7 === 0 ? 'a\0b' : 'f', current: seq, percentage: Math.min(99, seq / 1_000), seq })
    }
  }, 20)
  try {
    const id = await world.install('calm', { nodes: [calm?.id ?? ''] }, 1)
    const seen = await reader.until('the calm one at 50', (event) => event.data['id'] === id && asOperation(event).progress === 50)
    expect(asOperation(seen).nodes[0]).toMatchObject({ file_name: 'calm' })
    await waitFor(() => seq > 20_000, { what: 'twenty thousand ticks' })
    expect((await world.api().get('/readyz')).status).toBe(200)
    gate.open()
    await world.ended(id, { timeoutMs: boundMs(5_000) })
    const nodes = (await world.api().get('/api/nodes')).body['nodes'] as unknown as { status: string }[]
    expect(nodes.map(({ status }) => status)).toEqual(nodes.map(() => 'healthy'))
  } finally {
    clearInterval(flood)
    deaf.destroy()
  }
  const floodEvents = eventsOf(reader, flooded).length
  // A few a second, not thousands.
  expect(floodEvents).toBeLessThan(200)
  wire.say({ type: 'op.result', op_id: flooded as never, state: 'succeeded' })
  expect((await world.ended(flooded)).state).toBe('succeeded')
})
