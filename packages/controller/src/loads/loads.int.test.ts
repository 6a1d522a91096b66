// Loads on a real database and bus: several controllers, and workers that do what a test says.
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { waitFor } from '@muster/testkit'
import { startLoadsWorld, type LoadsWorld, type TestLoads } from '../../test/loads-world.ts'

let world: LoadsWorld
const running: TestLoads[] = []
const controller = async (...options: Parameters<LoadsWorld['startController']>): Promise<TestLoads> => {
  const started = await world.startController(...options)
  running.push(started)
  return started
}

beforeAll(async () => {
  world = await startLoadsWorld()
})
afterEach(async () => {
  for (const each of running.splice(0)) await each.stop()
  await world.clear()
})
afterAll(() => world[Symbol.asyncDispose]())

describe('a cold model', () => {
  it('goes from waiting to starting to ready', async () => {
    const { loads } = await controller()
    const worker = await world.addWorker('one')
    const tiny = await world.addModel('tiny')
    expect(await loads.cold.status(tiny)).toMatchObject({ kind: 'loading', loading: { state: 'pending' } })
    await loads.cold.ensure(tiny)
    const load = await worker.untilLoads(1)
    expect(load).toMatchObject({ model: 'tiny', revision: 'rev-1', backend: 'llama', slot: 0, epoch: 1 })
    expect(await loads.cold.status(tiny)).toMatchObject({ kind: 'loading', loading: { state: 'staging', node: 'one' } })
    worker.ready()
    const { load: row } = await world.untilState('tiny', 'ready')
    expect(row).toMatchObject({ replicaId: load.replica_id, nodeId: worker.id, attempts: 0 })
    expect(await loads.cold.status(tiny)).toEqual({ kind: 'ready' })
    expect(await world.store.replicas.listOfModel('tiny')).toMatchObject([{ id: load.replica_id, state: 'ready', isHere: true, slot: 0 }])
    expect(worker.loads).toHaveLength(1)
  })

  it('G1 I15 S1.15 has one load, however many ask on three controllers', async () => {
    const three = [await controller(), await controller(), await controller()]
    const workers = [await world.addWorker('one'), await world.addWorker('two')]
    const tiny = await world.addModel('tiny')
    await Promise.all(Array.from({ length: 200 }, async (_, index) => await three[index % 3]?.loads.cold.ensure(tiny)))
    const worker = await waitFor(() => workers.find(({ loads }) => loads.length > 0), { what: 'a load' })
    worker.ready()
    await world.untilState('tiny', 'ready')
    await Promise.all(three.map((each) => each.loads.cold.ensure(tiny)))
    expect(workers.flatMap(({ loads }) => loads)).toHaveLength(1)
    expect(await world.store.replicas.listOfModel('tiny')).toHaveLength(1)
  })

  it('that fails tells every controller the real cause, and when it is tried again', async () => {
    const [one, two] = [await controller(), await controller()]
    const worker = await world.addWorker('one')
    const tiny = await world.addModel('tiny')
    await one.loads.cold.ensure(tiny)
    await worker.untilLoads(1)
    worker.fail({ code: 'internal', retry: 'backoff', message: 'out of memory while loading tiny.gguf' })
    await world.untilState('tiny', 'failed')
    for (const { loads } of [one, two]) {
      await loads.cold.ensure(tiny)
      expect(await loads.cold.status(tiny)).toMatchObject({
        kind: 'failed',
        failure: { code: 'internal', message: 'out of memory while loading tiny.gguf', attempts: 1, next_retry_at: expect.any(String) },
      })
    }
    expect(worker.loads).toHaveLength(1)
  })

  it('G15 without a node that fits says so at once, and loads when there is one', async () => {
    const { loads } = await controller()
    const tiny = await world.addModel('tiny')
    await loads.cold.ensure(tiny)
    await world.untilState('tiny', 'failed')
    expect(await loads.cold.status(tiny)).toEqual({ kind: 'no_capacity', message: expect.stringContaining('there is none yet') })
    const worker = await world.addWorker('one')
    await worker.untilLoads(1)
    worker.ready()
    await world.untilState('tiny', 'ready')
  })
})
