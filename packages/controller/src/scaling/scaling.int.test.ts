// Scaling on a real database and bus: by load, by an administrator's settings, by the nodes of the fleet.
import { silentLog, systemClock } from '@muster/host'
import { ModelName, Scheduling, type ReplicaId } from '@muster/protocol'
import { waitFor } from '@muster/testkit'
import { sql } from 'kysely'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { startLoadsWorld, type LoadsWorld, type ModelWorker, type TestLoads } from '../../test/loads-world.ts'
import { viewModel } from '../models/view.ts'
import { decideScaling } from './scaling.pure.ts'
import { createScaleLoop } from './scale-loop.ts'

let world: LoadsWorld
const running: TestLoads[] = []
const stopping: (() => Promise<void>)[] = []
const workers: ModelWorker[] = []
/** In-flight counts as heartbeats would report them. */
const inFlight = new Map<ReplicaId, number>()
const idleMs = 60_000

beforeAll(async () => {
  world = await startLoadsWorld()
})
afterEach(async () => {
  for (const stop of stopping.splice(0)) await stop()
  for (const each of running.splice(0)) await each.stop()
  workers.length = 0
  inFlight.clear()
  await world.clear()
})
afterAll(() => world[Symbol.asyncDispose]())

async function start({ nodes, controllers = 1 }: { nodes: readonly string[]; controllers?: number }): Promise<void> {
  for (const name of nodes) workers.push(await world.addWorker(name))
  for (let count = 0; count < controllers; count += 1) {
    running.push(await world.startController())
    const { scaling } = world.store
    const loop = createScaleLoop({
      ...{ scaling, inFlight: (id) => inFlight.get(id) ?? 0, isInformed: () => true, idleMs, clock: systemClock, log: silentLog },
    })
    const stop = new AbortController()
    const ended = loop.run(stop.signal)
    stopping.push(async () => {
      stop.abort()
      await ended
    })
  }
}

/** Every started process reports that it is ready. */
function comeUp(): void {
  for (const worker of workers)
    for (const load of worker.loads) if (worker.processes.get(load.replica_id) === 'starting') worker.ready(load)
}

const live = () => workers.flatMap(({ id, processes }) => [...processes].map(([replica, state]) => ({ node: id, replica, state })))
/** Exactly so many processes, all of them ready and none on its way. */
async function untilReady(model: string, count: number): Promise<ReplicaId[]> {
  return await waitFor(
    async () => {
      comeUp()
      const { rows } = await world.store.loads.listOfModel(model)
      const isSo = rows.length === count && rows.every(({ load }) => load.state === 'ready') && live().length === count
      return isSo ? live().map(({ replica }) => replica) : null
    },
    { what: `${count} ready replicas of ${model}` },
  )
}
const asked = async (model: string): Promise<number> =>
  (await sql<{ asked: number }>`select requested_replicas as asked from models where name = ${model}`.execute(world.db)).rows[0]?.asked ??
  -1
async function schedule(model: string, scheduling: object): Promise<void> {
  await world.store.models.setScheduling(ModelName.parse(model), Scheduling.parse(scheduling))
}
/** As if it had been so for that long. */
const age = async (column: 'busy_since' | 'slack_since', ms: number): Promise<void> => {
  await sql`update models set ${sql.ref(column)} = ${sql.ref(column)} - make_interval(secs => ${ms / 1000}) where ${sql.ref(column)} is not null`.execute(
    world.db,
  )
}
const streak = async (column: 'busy_since' | 'slack_since'): Promise<boolean> =>
  (await sql`select from models where ${sql.ref(column)} is not null`.execute(world.db)).rows.length > 0

describe('a model with several replicas', () => {
  it('gets one more when all are busy for a while, and loses it when idle for a while, with two controllers', async () => {
    await start({ nodes: ['one', 'two', 'three'], controllers: 2 })
    await world.addModel('tiny', { scheduling: { min_replicas: 1, max_replicas: 2 } })
    const [first] = await untilReady('tiny', 1)
    if (first === undefined) throw new Error('there is one')
    inFlight.set(first, 3)
    await waitFor(() => streak('busy_since'), { what: 'a streak' })
    expect(await asked('tiny')).toBe(0)
    await age('busy_since', 10_000)
    const both = await untilReady('tiny', 2)
    expect(await asked('tiny')).toBe(2)
    expect(new Set(live().map(({ node }) => node)).size).toBe(2)

    for (const id of both) inFlight.set(id, 5)
    expect(await streak('busy_since')).toBe(false)
    inFlight.clear()
    await waitFor(() => streak('slack_since'), { what: 'a streak' })
    await age('slack_since', idleMs)
    await untilReady('tiny', 1)
    expect(await asked('tiny')).toBe(1)
    await waitFor(async () => !(await streak('slack_since')), { what: 'the streak to be over' })
  })

  it('W35 gets one more and not two when two controllers find it busy at once', async () => {
    await start({ nodes: ['one'], controllers: 0 })
    await world.addModel('tiny', { scheduling: { max_replicas: 4 } })
    await world.setModel('tiny', { asked: 1 })
    running.push(await world.startController())
    const [first] = await untilReady('tiny', 1)
    if (first === undefined) throw new Error('there is one')
    const { scaling } = world.store
    const look = async (counts: readonly number[]) => {
      const { now, models } = await scaling.list()
      return models.flatMap((model) => {
        const to = decideScaling({ model, inFlight: counts, now, idleMs })
        return to === null ? [] : [{ from: model, to }]
      })
    }
    const [begun, late] = await Promise.all([look([2]), look([2])])
    expect(await scaling.write(begun)).toEqual([])
    await age('busy_since', 10_000)
    const [ups, again] = await Promise.all([look([2]), look([2])])
    expect(ups).toMatchObject([{ to: { requestedReplicas: 2 } }])
    const written = await Promise.all([scaling.write(ups), scaling.write(again), scaling.write(late)])
    expect(written.flat()).toEqual(['tiny'])
    expect(await asked('tiny')).toBe(2)
    expect(await streak('busy_since')).toBe(false)
  })

  it('resets its streak when it is unloaded, or its maximum is reached', async () => {
    await start({ nodes: ['one'] })
    await world.addModel('tiny', { scheduling: { min_replicas: 1, max_replicas: 2 } })
    const [first] = await untilReady('tiny', 1)
    if (first === undefined) throw new Error('there is one')
    inFlight.set(first, 2)
    await waitFor(() => streak('busy_since'), { what: 'a streak' })
    await schedule('tiny', { min_replicas: 1, max_replicas: 1 })
    await waitFor(async () => !(await streak('busy_since')), { what: 'the streak to be over' })
    expect(live()).toHaveLength(1)
  })
})

describe('a change of its scheduling', () => {
  it('of its maximum below the running number ends only the surplus', async () => {
    await start({ nodes: ['one', 'two', 'three'] })
    await world.addModel('tiny', { scheduling: { min_replicas: 3, max_replicas: 3 } })
    const three = await untilReady('tiny', 3)
    await schedule('tiny', { min_replicas: 1, max_replicas: 1 })
    const one = await untilReady('tiny', 1)
    expect(three).toContain(one[0])
    const told = workers.flatMap(({ unloads }) => unloads)
    expect(new Set(told)).toEqual(new Set(three.filter((id) => id !== one[0])))
  })

  it('of its maximum, down and up again, restores nothing that the load does not need', async () => {
    await start({ nodes: ['one', 'two', 'three'] })
    await world.addModel('tiny', { scheduling: { min_replicas: 1, max_replicas: 3 } })
    await world.setModel('tiny', { asked: 3 })
    await untilReady('tiny', 3)
    await schedule('tiny', { min_replicas: 1, max_replicas: 2 })
    await untilReady('tiny', 2)
    await schedule('tiny', { min_replicas: 1, max_replicas: 0 })
    expect(await asked('tiny')).toBe(2)
  })

  it('of its minimum starts the missing replicas beside the running ones', async () => {
    await start({ nodes: ['one', 'two', 'three'] })
    await world.addModel('tiny', { scheduling: { min_replicas: 1, max_replicas: 3 } })
    const [first] = await untilReady('tiny', 1)
    await schedule('tiny', { min_replicas: 3, max_replicas: 3 })
    expect(await untilReady('tiny', 3)).toContain(first)
    expect(new Set(live().map(({ node }) => node)).size).toBe(3)
    expect(workers.flatMap(({ unloads }) => unloads)).toEqual([])
  })

  it('from all nodes to one leaves one', async () => {
    await start({ nodes: ['one', 'two'] })
    await world.addModel('tiny', { scheduling: { replicas: 'all' } })
    await untilReady('tiny', 2)
    await schedule('tiny', { min_replicas: 1 })
    await untilReady('tiny', 1)
  })
})

describe('one on every node', () => {
  it('S4.9 follows nodes that come and go', async () => {
    await start({ nodes: ['one', 'two'] })
    await world.addModel('tiny', { scheduling: { replicas: 'all' } })
    await untilReady('tiny', 2)
    workers.push(await world.addWorker('three'))
    await untilReady('tiny', 3)
    expect(new Set(live().map(({ node }) => node)).size).toBe(3)

    const [gone] = workers.splice(0, 1)
    if (gone === undefined) throw new Error('there is one')
    await world.setPulse(gone.id, 'silent')
    await untilReady('tiny', 2)
    expect(workers.flatMap(({ loads }) => loads)).toHaveLength(2)
    await world.setPulse(gone.id, 'present')
    workers.push(gone)
    await untilReady('tiny', 3)
    expect(gone.loads.length).toBeLessThanOrEqual(2)
    expect(new Set(live().map(({ node }) => node)).size).toBe(3)
  })
})

describe('a minimum that cannot be met', () => {
  const failures = async () => {
    const { rows, now } = await world.store.loads.listOfModel('tiny')
    return rows.flatMap(({ load }) => (load.state === 'failed' ? [{ failure: load.failure, inMs: (load.nextAt ?? Infinity) - now }] : []))
  }
  /** News of nodes may hurry them once more; then they wait. */
  const untilQuiet = (count: number) =>
    waitFor(
      async () => {
        const found = await failures()
        return found.length === count && found.every(({ inMs }) => inMs > 1_000)
      },
      { what: 'tries that are not due yet' },
    )
  /** Each load once, and once more per controller for news of nodes: a loop would be hundreds. */
  const tries = (): number => running.flatMap(({ taken }) => taken.filter(({ to }) => to !== 'gone' && to.state === 'failed')).length

  it('G15 is reported with the reason of every node, is not retried constantly, and is met when a node fits', async () => {
    await start({ nodes: ['one', 'two'], controllers: 2 })
    await world.addModel('tiny', {
      scheduling: { min_replicas: 3, max_replicas: 3, node_selector: { 'node.name': ['three', 'four'] } },
    })
    await waitFor(async () => (await failures()).length === 3, { what: 'all to have found no place' })
    const model = await world.store.models.find(ModelName.parse('tiny'))
    if (model === null) throw new Error('there is one')
    expect(viewModel(model, 0)).toMatchObject({
      ...{ state: 'failed', replicas_ready: 0, replicas_desired: 3 },
      failure: { code: 'no_capacity', message: expect.stringMatching(/one: its label node\.name is "one".*two: /) as string },
    })
    await untilQuiet(3)
    expect(tries()).toBeLessThanOrEqual(18)

    workers.push(await world.addWorker('three'), await world.addWorker('four'))
    await untilReady('tiny', 3)
    expect(new Set(live().map(({ node }) => node))).toEqual(new Set(workers.slice(2).map(({ id }) => id)))
  })

  it('G15 does not stop replicas that fit, reports the missing resources of the others, and is fulfilled by one more node', async () => {
    await start({ nodes: ['one', 'two'] })
    const ids = workers.map(({ id }) => id)
    await sql`update node_pulses set resources = resources || '{"max_replicas": 1}' where node_id = any(${ids}::text[])`.execute(world.db)
    await world.addModel('tiny', { scheduling: { min_replicas: 3, max_replicas: 3 } })
    const view = await waitFor(
      async () => {
        comeUp()
        const model = await world.store.models.find(ModelName.parse('tiny'))
        const shown = model === null ? null : viewModel(model, 0)
        return shown?.replicas_ready === 2 && shown.failure !== null ? shown : null
      },
      { what: 'two of three' },
    )
    expect(view).toMatchObject({ state: 'ready', replicas_desired: 3, failure: { code: 'no_capacity' } })
    expect(view.failure?.message).toMatch(/one: .*two: /)
    expect(new Set(live().map(({ node }) => node))).toEqual(new Set(ids))
    await untilQuiet(1)
    expect(tries()).toBeLessThanOrEqual(6)

    workers.push(await world.addWorker('three'))
    await untilReady('tiny', 3)
    expect(workers.flatMap(({ unloads }) => unloads)).toEqual([])
  })
})
