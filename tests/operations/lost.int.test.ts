// Messages lost, late or doubled between controllers and workers, and the outcome of the work then. The
// timeouts are those of production, so nothing here is saved by one; the stall window is short.
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import {
  backendDelete,
  backendInstall,
  backendUpgrade,
  opCancel,
  OperationId,
  opStatus,
  type CommandReply,
  type OperationNode,
  type OpStatusReply,
} from '@muster/protocol'
import { waitFor, type LegacyWork } from '@muster/testkit'
import { afterAll, beforeAll, expect, inject, it } from 'vitest'
import { backendName, createGate, type Behaviour } from '../../packages/worker/test/scripted-installer.ts'
import { listed, startOperationsWorld, type OperationsWorld, type WireWorker } from './operations-world.ts'

let world: OperationsWorld
beforeAll(async () => {
  world = await startOperationsWorld({
    postgresUrl: inject('postgresUrl'),
    controllers: 2,
    flags: { 'op-stall-timeout': '2s', 'reconcile-interval': '1s' },
  })
})
afterAll(() => world[Symbol.asyncDispose]())

type Command = Readonly<{ op_id: OperationId; generation: number; epoch: number }>

/** Takes installs on, and leaves the rest to the test. */
function acceptInstalls(node: WireWorker, answer: (command: Command) => CommandReply = () => ({ accepted: true })): Command[] {
  const commands: Command[] = []
  node.bus.serve(backendInstall, { node: node.id }, ({ op_id, generation, epoch }) => {
    if (op_id === undefined || generation === undefined || epoch === undefined) throw new Error('it does not say what it is')
    const command = { op_id, generation, epoch }
    commands.push(command)
    return answer(command)
  })
  return commands
}

const tickOf = (backend: string) => ({
  ...{ backend: backendName(backend), file_name: 'layer', current: 1, total: 100 },
  phase: 'downloading' as const,
})
const install = async (node: { id: string }, backend: string): Promise<string> => {
  world.publish(backend, '1.0.0')
  return await world.install(backend, { nodes: [node.id] })
}
const failure = { code: 'unavailable', retry: 'backoff', message: 'the registry is away' } as const
const untilRow = (id: string, what: string, condition: (row: OperationNode) => boolean) =>
  world.until(id, what, ({ nodes: [row] }) => row !== undefined && condition(row))
const inWork = (id: string) => untilRow(id, 'in work', ({ status }) => status === 'downloading')

it('A5 the result event is lost: a query finds the result', async () => {
  const node = await world.addWireWorker('eventless')
  const commands = acceptInstalls(node)
  let asked = 0
  node.bus.serve(opStatus, { node: node.id }, ({ op_id }) => {
    asked += 1
    const state = asked < 3 ? ('running' as const) : ('succeeded' as const)
    return { op_id, state, generation: commands.at(-1)?.generation ?? 0, current: asked, total: 10, phase: 'downloading' as const }
  })
  const id = await install(node, 'eventless')
  expect(await world.ended(id)).toMatchObject({ state: 'succeeded', nodes: [{ attempts: 0 }] })
  expect(commands).toHaveLength(1)
})

it('B5 S2.28 all progress is lost: queries return the bytes, and the outcome is correct', async () => {
  const node = await world.addWireWorker('tickless')
  const [command] = [acceptInstalls(node)]
  let current = 0
  node.bus.serve(opStatus, { node: node.id }, ({ op_id }) => {
    const generation = command.at(-1)?.generation ?? 0
    return { op_id, state: 'running', generation, current: (current += 100), total: 10_000, phase: 'downloading' } as const
  })
  const id = await install(node, 'tickless')
  const seen = await untilRow(id, 'seen to move', (row) => row.current >= 400)
  expect(seen.nodes[0]).toMatchObject({ status: 'downloading', phase: 'downloading', total: 10_000, attempts: 0 })
  const { op_id, generation = 0, epoch = 0 } = command[0] ?? { op_id: OperationId.parse(id) }
  node.say({ type: 'op.result', op_id, state: 'succeeded', generation, epoch })
  expect((await world.ended(id)).state).toBe('succeeded')
})

it('S2.13 the inventory of a worker whose result was lost settles the intent, without another attempt', async () => {
  const node = await world.addWireWorker('unheard')
  const commands = acceptInstalls(node, () => {
    throw new Error('the reply is lost')
  })
  const id = await install(node, 'unheard')
  await untilRow(id, 'tried', ({ attempts, next_retry_at: next }) => attempts > 0 || next !== null)
  const { generation = 0 } = commands.at(-1) ?? {}
  node.say({ type: 'inventory', backends: [listed('unheard')], generations: { [backendName('unheard')]: generation - 1 } })
  node.say({ type: 'inventory', backends: [listed('unheard')], generations: { [backendName('unheard')]: generation } })
  expect((await world.ended(id)).state).toBe('succeeded')
})

it('S2.14 an upgrade is settled by its digest alone, a deletion by absence alone', async () => {
  const node = await world.addWireWorker('lister')
  const digest = world.publish('lister', '2.0.0')
  node.say({ type: 'inventory', backends: [listed('lister')] })
  await waitFor(async () => JSON.stringify((await world.api().get(`/api/nodes/${node.id}/backends`)).body).includes('lister'), {
    what: 'the inventory',
  })
  const seen: number[] = []
  for (const command of [backendUpgrade, backendDelete])
    node.bus.serve(command, { node: node.id }, ({ generation = 0 }) => {
      seen.push(generation)
      return { accepted: true } as const
    })
  const upgrade = await world.upgrade('lister', { nodes: [node.id] })
  await inWork(upgrade)
  const say = (backends: ReturnType<typeof listed>[]): void =>
    node.say({ type: 'inventory', backends, generations: { [backendName('lister')]: seen.at(-1) ?? 0 } })
  say([listed('lister', `sha256:${'0'.repeat(64)}`)])
  say([])
  // Told after them, and shown: so they were heard and meant nothing.
  node.tick(upgrade, { ...tickOf('lister'), percentage: 33, seq: 9 })
  await untilRow(upgrade, 'further', ({ percentage }) => percentage === 33)
  expect((await world.operation(upgrade)).state).toBe('running')
  say([listed('lister', digest)])
  expect((await world.ended(upgrade)).state).toBe('succeeded')
  const removal = await world.remove('lister', `?node=${node.id}`)
  await inWork(removal)
  say([listed('lister', digest)])
  node.tick(removal, { ...tickOf('lister'), percentage: 44, seq: 10 })
  await untilRow(removal, 'further', ({ percentage }) => percentage === 44)
  expect((await world.operation(removal)).state).toBe('running')
  say([])
  expect((await world.ended(removal)).state).toBe('succeeded')
})

it('B2 A9 late, duplicate and older reports change nothing', async () => {
  const node = await world.addWireWorker('confused')
  const commands = acceptInstalls(node)
  const id = await install(node, 'confused')
  await inWork(id)
  const of = (n: number): Command => commands[n] ?? { op_id: OperationId.parse(id), generation: 0, epoch: 0 }
  const result = (n: number, state: 'failed' | 'succeeded'): void =>
    node.say({ type: 'op.result', ...of(n), state, ...(state === 'failed' ? { failure } : {}) })
  for (let times = 0; times < 5; times += 1) result(0, 'failed')
  await waitFor(() => commands.length === 2, { what: 'the next try' })
  const again = await untilRow(id, 'in work again', ({ status, attempts }) => status === 'downloading' && attempts === 1)
  expect(again.nodes[0]?.attempts).toBe(1)
  // Late: the first try fails once more, in the middle of the second.
  result(0, 'failed')
  node.say({ type: 'op.result', ...of(0), state: 'cancelled', failure: { ...failure, code: 'cancelled' } })
  node.say({ type: 'op.result', ...of(1), generation: of(1).generation - 1, state: 'failed', failure })
  node.tick(id, { ...tickOf('confused'), percentage: 50, seq: 5, epoch: of(1).epoch })
  node.tick(id, { ...tickOf('confused'), percentage: 20, seq: 4, epoch: of(1).epoch })
  const now = await untilRow(id, 'at 50 %', ({ percentage }) => percentage === 50)
  expect(now.nodes[0]).toMatchObject({ status: 'downloading', attempts: 1 })
  result(1, 'succeeded')
  result(1, 'succeeded')
  result(1, 'failed')
  expect(await world.ended(id)).toMatchObject({ state: 'succeeded', nodes: [{ status: 'success', attempts: 1 }] })
  node.tick(id, { ...tickOf('confused'), percentage: 10, seq: 6, epoch: of(1).epoch })
  result(1, 'failed')
  // A later intent of the same node was completed, so every earlier message was received.
  const next = await install(node, 'confused-next')
  await inWork(next)
  result(2, 'succeeded')
  await world.ended(next)
  expect(await world.operation(id)).toMatchObject({ state: 'succeeded', nodes: [{ status: 'success', percentage: 100, attempts: 1 }] })
  expect(commands).toHaveLength(3)
})

it('S2.28 the result may arrive before the acceptance', async () => {
  const node = await world.addWireWorker('hasty')
  acceptInstalls(node, (command) => {
    node.say({ type: 'op.result', ...command, state: 'succeeded' })
    return { accepted: true }
  })
  expect(await world.ended(await install(node, 'hasty'))).toMatchObject({ state: 'succeeded', nodes: [{ attempts: 0 }] })
})

it('A18 a worker that is restarted in its work goes on with it, and no attempt is counted', async () => {
  const worker = await world.addWorker('restarting')
  const gate = createGate()
  worker.installer.script.set(backendName('restarting'), gate.behaviour)
  const id = await install(worker, 'restarting')
  await inWork(id)
  await worker.stop()
  await untilRow(id, 'waiting for its node', ({ status }) => status === 'queued')
  await worker.start()
  await waitFor(() => gate.arrived() === 2, { what: 'the work to be taken up' })
  gate.open()
  expect(await world.ended(id)).toMatchObject({ state: 'succeeded', nodes: [{ attempts: 0 }] })
  expect(worker.installer.calls).toHaveLength(2)
})

it('A4 a worker that has forgotten everything is sent it again, and no attempt is counted', async () => {
  const worker = await world.addWorker('forgetful')
  const gate = createGate()
  // The first life says a lot, the second little: it counts from the beginning again, and is heard all the same.
  worker.installer.script.set(backendName('forgetful'), async (context) => {
    const tells = gate.arrived() === 0 ? Array.from({ length: 50 }, (_, n) => n) : [600]
    for (const current of tells) context.onProgress({ phase: 'downloading', current, total: 1000 })
    await gate.behaviour(context)
  })
  const id = await install(worker, 'forgetful')
  await inWork(id)
  await worker.stop()
  await rm(join(world.directory, 'worker-forgetful', 'operations'), { recursive: true })
  await worker.start()
  await waitFor(() => gate.arrived() === 2, { what: 'the work to begin anew' })
  await untilRow(id, 'heard of again', ({ percentage }) => percentage === 60)
  gate.open()
  expect(await world.ended(id)).toMatchObject({ state: 'succeeded', nodes: [{ attempts: 0 }] })
})

const wedged =
  (first: number): Behaviour =>
  async ({ onProgress, signal }) => {
    onProgress({ phase: 'downloading', current: first, total: 100 })
    await new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason), { once: true }))
  }

it('A19 work without a sign of life is called off on the worker and tried again, never twice at once', async () => {
  const worker = await world.addWorker('wedged')
  const name = backendName('wedged')
  worker.installer.script.set(name, async (context) => {
    worker.installer.script.delete(name)
    await wedged(10)(context)
  })
  const id = await install(worker, 'wedged')
  await inWork(id)
  const done = await world.ended(id)
  expect(done).toMatchObject({ state: 'succeeded', nodes: [{ attempts: 1 }] })
  expect(worker.installer.calls).toHaveLength(2)
  expect(worker.installer.mostAtOnce()).toBe(1)
  const { body } = await world.api().get(`/api/nodes/${worker.id}`)
  expect(body['status']).toBe('healthy')
})

it('S2.47 hashing and extracting are signs of life, though no byte moves', async () => {
  const worker = await world.addWorker('hashing')
  const gate = createGate()
  worker.installer.script.set(backendName('hashing'), async (context) => {
    context.onProgress({ phase: 'extracting', current: 100, total: 100 })
    const timer = setInterval(context.onSign, 300)
    await gate.behaviour(context).finally(() => clearInterval(timer))
  })
  const id = await install(worker, 'hashing')
  const beside = await world.addWorker('beside')
  beside.installer.script.set(backendName('beside'), wedged(1))
  // Twice the time after which its silent neighbor is given up.
  const other = await install(beside, 'beside')
  await untilRow(other, 'given up twice', ({ attempts }) => attempts >= 2)
  expect((await world.operation(id)).nodes[0]).toMatchObject({ status: 'downloading', phase: 'extracting', attempts: 0 })
  gate.open()
  expect(await world.ended(id)).toMatchObject({ state: 'succeeded', nodes: [{ attempts: 0 }] })
  await world.api().post(`/api/operations/${other}/cancel`, {})
  expect(worker.installer.calls).toHaveLength(1)
})

it('A19 S2.47 by queries alone: numbered signs keep it alive, and a worker stuck at unreported bytes is detected', async () => {
  const node = await world.addWireWorker('asked')
  const commands = acceptInstalls(node)
  const cancelled: string[] = []
  let seq = 0
  let asked = 0
  let isStuck = false
  node.bus.serve(opStatus, { node: node.id }, ({ op_id }): OpStatusReply => {
    asked += 1
    if (!isStuck) seq += 1
    return {
      op_id,
      state: 'running',
      phase: 'extracting',
      current: 77,
      total: 100,
      progress_seq: seq,
      generation: commands.at(-1)?.generation,
    }
  })
  node.bus.serve(opCancel, { node: node.id }, ({ op_id }) => {
    cancelled.push(op_id)
    return { op_id, state: 'cancelled', failure: { ...failure, code: 'cancelled' } } as const
  })
  const id = await install(node, 'asked')
  // Asked every half second: three stall windows.
  await waitFor(() => asked >= 12, { what: 'to be asked often enough' })
  expect((await world.operation(id)).nodes[0]).toMatchObject({ status: 'downloading', attempts: 0, current: 77 })
  isStuck = true
  await untilRow(id, 'given up', ({ attempts }) => attempts === 1)
  await waitFor(() => commands.length === 2, { what: 'the next try' })
  expect(cancelled).toEqual([id])
  node.say({ type: 'op.result', ...(commands[1] ?? { op_id: OperationId.parse(id) }), state: 'succeeded' })
  expect((await world.ended(id)).state).toBe('succeeded')
})

it('S2.47 a silent old worker that was restarted in its work is sent the command again at once, and no attempt is counted', async () => {
  const begun: LegacyWork[] = []
  const old = await world.addLegacyWorker('old-restarted', {
    work: async (work) => {
      begun.push(work)
      // Its first life never comes back to it.
      if (begun.length === 1) await new Promise(() => undefined)
    },
  })
  const id = await install(old, 'old-restarted')
  await waitFor(() => begun.length === 1, { what: 'the work to begin' })
  await old.restart()
  expect(await world.ended(id)).toMatchObject({ state: 'succeeded', nodes: [{ attempts: 0 }] })
  expect(begun).toHaveLength(2)
})

it('W10 an old worker that cannot be cancelled runs to its end, which is then recorded', async () => {
  const opened = Promise.withResolvers<void>()
  const old = await world.addLegacyWorker('old-cancelled', { work: () => opened.promise })
  const id = await install(old, 'old-cancelled')
  await waitFor(() => old.heard.length === 1, { what: 'the work to begin' })
  // Beside it one that can be told to stop, and is told again and again: so often the old one was thought of as well.
  const node = await world.addWireWorker('told-to-stop')
  acceptInstalls(node)
  let told = 0
  node.bus.serve(opCancel, { node: node.id }, ({ op_id }) => {
    told += 1
    return { op_id, state: told < 3 ? 'running' : 'cancelled' } as const
  })
  const beside = await install(node, 'told-to-stop')
  await inWork(beside)
  for (const each of [id, beside]) expect((await world.api().post(`/api/operations/${each}/cancel`, {})).status).toBe(202)
  expect((await world.ended(beside)).state).toBe('cancelled')
  expect(await world.operation(id)).toMatchObject({ finished_at: null, nodes: [{ message: 'cancelling' }] })
  opened.resolve()
  expect(await world.ended(id)).toMatchObject({ state: 'succeeded' })
  expect(old.heard).toHaveLength(1)
})
