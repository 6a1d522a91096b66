// A node with memory for one model, on a real database and bus: who makes room for whom.
import { waitFor } from '@muster/testkit'
import { sql } from 'kysely'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { startLoadsWorld, type LoadsWorld, type ModelWorker, type TestLoads } from '../../test/loads-world.ts'

let world: LoadsWorld
let worker: ModelWorker
let controller: TestLoads
const evicted: number[] = []
beforeAll(async () => {
  world = await startLoadsWorld()
})
afterEach(async () => {
  await controller.stop()
  await world.clear()
  evicted.length = 0
})
afterAll(() => world[Symbol.asyncDispose]())

const gb = 1e9
const names = ['a', 'b', 'c']
const shaOf = (name: string): string => name.repeat(64)
const addModel = (name: string, scheduling: object = {}) =>
  world.addModel(name, { files: [{ uri: `https://example.com/${name}`, filename: name, sha256: shaOf(name) }], scheduling })

/** 2 GB book 2.3 GB: one fits into 4 GB, two do not. */
async function start(): Promise<void> {
  worker = await world.addWorker('small')
  const files = names.map((name) => ({ digest: `sha256:${shaOf(name)}`, size: 2 * gb }))
  await sql`update nodes set files = ${JSON.stringify(files)}::jsonb`.execute(world.db)
  await sql`update node_pulses set resources = ${JSON.stringify({ total_ram: 4 * gb, available_ram: 4 * gb })}::jsonb`.execute(world.db)
  controller = await world.startController({ onEvicted: (count) => void evicted.push(count) })
}

async function serve(name: string, scheduling: object = {}) {
  const model = await addModel(name, scheduling)
  const before = worker.loads.length
  await controller.loads.cold.ensure(model)
  const load = await worker.untilLoads(before + 1)
  worker.ready(load)
  await world.untilState(name, 'ready')
  return load.replica_id
}

/** Makes the model idle, and its replica ready, for this long. */
const letIdle = async (name: string, seconds: number): Promise<void> => {
  const since = sql`now() - make_interval(secs => ${seconds})`
  await sql`update replicas set ready_at = ${since} where model = ${name} and state = 'ready'`.execute(world.db)
  await sql`update models set used_at = ${since} where name = ${name}`.execute(world.db)
}
const askedFor = async (name: string): Promise<number | undefined> =>
  (await world.store.loads.models()).find((model) => model.name === name)?.requestedReplicas
const stateOf = async (name: string) => (await world.store.replicas.listOfModel(name))[0]?.state

async function untilRefused(name: string): Promise<string> {
  const look = async () => {
    const status = await controller.loads.cold.status(name)
    return status.kind === 'no_capacity' ? status.message : null
  }
  return await waitFor(look, { what: `${name} to be refused` })
}

describe('a node with memory for one model', () => {
  it('W16 W17 evicts exactly the replica of lower priority when a model of higher priority is requested', async () => {
    await start()
    const old = await serve('a')
    const fresh = await serve('b', { priority: 1 })
    expect(worker.unloads).toEqual([old])
    expect([...worker.processes.keys()]).toEqual([fresh])
    expect([await stateOf('a'), await stateOf('b')]).toEqual(['exited', 'ready'])
    expect(evicted).toEqual([1])
    // It comes back on a request, not automatically.
    expect([await askedFor('a'), await world.rowOf('a')]).toEqual([0, null])
  })

  it('W17 refuses a model of lower priority with the reason, and evicts nothing', async () => {
    await start()
    await serve('b', { priority: 1 })
    await letIdle('b', 3_600)
    const model = await addModel('c')
    await controller.loads.cold.ensure(model)
    expect(await untilRefused('c')).toBe('no node can run c: small: it needs about 2.3 GB of memory, and 1.7 GB of 4 GB are free')
    expect([worker.unloads, await stateOf('b')]).toEqual([[], 'ready'])
  })

  it('never evicts a minimum, whatever the priority of the other model', async () => {
    await start()
    await addModel('a', { min_replicas: 1 })
    await serve('a', { min_replicas: 1 })
    await letIdle('a', 3_600)
    const model = await addModel('b', { priority: 1_000 })
    await controller.loads.cold.ensure(model)
    expect(await untilRefused('b')).toContain('memory')
    expect([worker.unloads, evicted, await stateOf('a')]).toEqual([[], [], 'ready'])
  })

  it('G13 evicts equals only after they were idle for a while', async () => {
    await start()
    const old = await serve('a')
    const model = await addModel('b')
    await controller.loads.cold.ensure(model)
    await untilRefused('b')
    expect(worker.unloads).toEqual([])
    await letIdle('a', 31)
    // A refused load is retried automatically.
    const load = await worker.untilLoads(2)
    expect([load.model, worker.unloads]).toEqual(['b', [old]])
    worker.ready(load)
    await world.untilState('b', 'ready')
    await controller.loads.cold.ensure(await addModel('a'))
    await untilRefused('a')
    expect(worker.unloads).toEqual([old])
  })
})
