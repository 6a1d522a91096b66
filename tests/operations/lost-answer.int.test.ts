// A command reached its worker, and its answer reached nobody: the controller that sent it was killed, or the reply was
// lost. The API must not show for long that the node is idle.
import { backendInstall, opStatus, OperationId, type CommandReply, type OpStatusReply } from '@muster/protocol'
import { boundMs } from '@muster/testkit'
import { afterAll, beforeAll, expect, inject, it } from 'vitest'
import { startOperationsWorld, type OperationsWorld, type WireWorker } from './operations-world.ts'

let world: OperationsWorld
let worker: WireWorker
beforeAll(async () => {
  world = await startOperationsWorld({ postgresUrl: inject('postgresUrl'), controllers: 2 })
  worker = await world.addWireWorker('mute')
})
afterAll(() => world[Symbol.asyncDispose]())

const never = (): Promise<CommandReply> => new Promise(() => undefined)

it('A4 is shown as running long before its answer times out, because the worker is queried', async () => {
  world.publish('alpha', '1.0.0')
  let taken = { generation: 0, epoch: 0, at: Number.NaN }
  worker.bus.serve(backendInstall, { node: worker.id }, ({ generation = 0, epoch = 0 }) => {
    taken = { generation, epoch, at: performance.now() }
    return never()
  })
  worker.bus.serve(opStatus, { node: worker.id }, ({ op_id }): OpStatusReply => {
    const { generation, epoch } = taken
    return { op_id, state: 'running', phase: 'downloading', generation, epoch, current: 1, total: 2 }
  })
  const id = await world.install('alpha')
  await world.until(id, 'in work', ({ nodes }) => nodes[0]?.status === 'downloading', { index: 1 })
  expect(performance.now() - taken.at).toBeLessThan(boundMs(4_000))
  worker.say({ type: 'op.result', op_id: OperationId.parse(id), state: 'succeeded', generation: taken.generation, epoch: taken.epoch })
  expect(await world.ended(id)).toMatchObject({ state: 'succeeded', nodes: [{ attempts: 0 }] })
})

it('A4 is not taken for granted when the worker knows of an older try only, or of none', async () => {
  world.publish('beta', '1.0.0')
  let asked = 0
  let epochs: number[] = []
  const other = await world.addWireWorker('deaf')
  other.bus.serve(backendInstall, { node: other.id }, ({ epoch = 0 }): CommandReply | Promise<CommandReply> => {
    epochs = [...epochs, epoch]
    return epochs.length === 1 ? never() : { accepted: true }
  })
  other.bus.serve(opStatus, { node: other.id }, ({ op_id }): OpStatusReply => {
    asked += 1
    return asked === 1 ? { op_id, state: 'unknown' } : { op_id, state: 'running', epoch: 0 }
  })
  const id = await world.install('beta', { nodes: [other.id] })
  await world.until(id, 'in work', ({ nodes }) => nodes[0]?.status === 'downloading')
  expect(asked).toBeGreaterThan(1)
  expect(epochs).toEqual([1, 2])
  expect(await world.row(id, 'deaf')).toMatchObject({ attempts: 0 })
})
