// How what runs is replaced by what is wanted, on a real database and bus: edits, versions, drained nodes, too little room.
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { silentLog } from '@muster/host'
import { ModelName, OperationId, type LoadModel, type ReplicaId } from '@muster/protocol'
import { waitFor } from '@muster/testkit'
import { sql } from 'kysely'
import { createAdvance } from './load-work.ts'
import { endFirst } from './apply.ts'
import { startLoadsWorld, type LoadsWorld, type ModelWorker, type TestLoads } from '../../test/loads-world.ts'

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

const [oldDigest, newDigest] = [`sha256:${'a'.repeat(64)}`, `sha256:${'b'.repeat(64)}`]
const one = { scheduling: { min_replicas: 1 } }
const edited = { ...one, options: { threads: 4 } }
const stateOf = async (id: ReplicaId): Promise<string | undefined> => (await world.store.replicas.find(id))?.state
const untilReplica = (id: ReplicaId, state: string) => waitFor(async () => (await stateOf(id)) === state, { what: `${id} to be ${state}` })
const shown = async () => await world.store.models.find('tiny' as never)
const ordinals = async (): Promise<number[]> => (await world.store.loads.listOfModel('tiny')).rows.map(({ load }) => load.ordinal)

/** One replica that serves. */
async function up(more: Record<string, unknown> = one, digest?: string): Promise<{ worker: ModelWorker; old: LoadModel }> {
  const worker = await world.addWorker('one')
  if (digest !== undefined) await worker.upgrade(digest)
  await world.addModel('tiny', more)
  const old = await worker.untilLoads(1)
  worker.ready(old, digest)
  await world.untilState('tiny', 'ready')
  return { worker, old }
}

describe('an edit', () => {
  it('S4.7 brings the new revision up beside the old one, checks it, and lets the old one go then', async () => {
    await controller()
    const { worker, old } = await up({ ...one, options: { threads: 2 } })
    await world.addModel('tiny', edited, 'rev-2')
    const next = await worker.untilLoads(2)
    expect(next).toMatchObject({ revision: 'rev-2', config: { options: { threads: 4 } }, slot: 1 })
    expect(old.slot).toBe(0)
    worker.ready(next)
    await world.untilState('tiny', 'ready', { ordinal: 1 })
    expect(await stateOf(old.replica_id)).toBe('ready')
    expect(await shown()).toMatchObject({ ready: 1 })
    await world.pass(next.replica_id)
    await untilReplica(old.replica_id, 'exited')
    expect(worker.unloads).toEqual([old.replica_id])
    expect(await ordinals()).toEqual([1])
    const { rows } = await sql`select revision, config from replicas where id = ${old.replica_id}`.execute(world.db)
    expect(rows).toMatchObject([{ revision: 'rev-1', config: { options: { threads: 2 } } }])
  })

  it('waits until every controller asks the new one, and until none asks the old one', async () => {
    await controller()
    const { worker, old } = await up()
    await world.routes('other', 0)
    await world.addModel('tiny', edited, 'rev-2')
    const next = await worker.untilLoads(2)
    worker.ready(next)
    await world.pass(next.replica_id)
    // Not by waiting: by something that happened after the loop had looked.
    const looked = world.store.loads.listSets()
    expect((await looked).rows.map(({ ready }) => ready?.isAdmitted)).toEqual([false, false])
    expect(await stateOf(old.replica_id)).toBe('ready')
    await world.routes('other', 'all')
    await untilReplica(old.replica_id, 'draining')
    expect(worker.unloads).toEqual([])
    expect((await world.store.replicas.takeDrains({ everyMs: 1, patienceMs: 60_000, limit: 9 })).due).toEqual([])
    await world.routes('other', 'all')
    await untilReplica(old.replica_id, 'exited')
    expect(worker.unloads).toEqual([old.replica_id])
  })

  it('is not held up forever by a controller that is cut off', async () => {
    await world.routes('cut-off', 0)
    const worker = await world.addWorker('one')
    await world.addModel('tiny', one)
    const { loads } = world.store
    await loads.add([{ model: 'tiny' as never, ordinal: 0, pin: null, needsCheck: false }])
    await sql`insert into replicas (id, model, revision, ordinal, node_id, backend, config, state, ready_at)
      values ('r-1', 'tiny', 'rev-1', 0, ${worker.id}, 'llama', '{}'::jsonb, 'ready', now())`.execute(world.db)
    await sql`update loads set state = 'ready', replica_id = 'r-1', node_id = ${worker.id}, sign_at = now(), next_at = null`.execute(
      world.db,
    )
    const isAdmitted = async () => (await loads.listSets()).rows[0]?.ready?.isAdmitted
    expect(await isAdmitted()).toBe(false)
    await sql`update changes set at = now() - interval '31 seconds' where kind = 'replica'`.execute(world.db)
    expect(await isAdmitted()).toBe(true)
    await world.store.replicas.change({ id: 'r-1' as ReplicaId, do: 'drain' })
    const take = async () => await world.store.replicas.takeDrains({ everyMs: 5_000, patienceMs: 10_000, limit: 9 })
    expect(await take()).toEqual({ due: [], areSomeWaiting: true })
    await sql`update replicas set drain_since = now() - interval '11 seconds'`.execute(world.db)
    expect(await take()).toEqual({ due: [{ id: 'r-1', nodeId: worker.id }], areSomeWaiting: false })
    // A controller that was silent for long does not count.
    await sql`update replicas set drain_since = now(), stop_sent_at = null`.execute(world.db)
    await sql`update controllers set last_seen_at = now() - interval '16 seconds'`.execute(world.db)
    expect((await take()).due).toHaveLength(1)
  })

  it('that does not come up leaves the old one serving, and the model ready with the failure', async () => {
    const { loads } = await controller()
    const { worker, old } = await up()
    await world.addModel('tiny', edited, 'rev-2')
    const next = await worker.untilLoads(2)
    worker.fail({ code: 'internal', retry: 'backoff', message: 'no such option' }, next)
    await world.untilState('tiny', 'failed', { ordinal: 1 })
    expect(await stateOf(old.replica_id)).toBe('ready')
    expect(await shown()).toMatchObject({ ready: 1, loads: [{ state: 'ready' }, { state: 'failed' }] })
    expect(await loads.cold.status('tiny')).toEqual({ kind: 'ready' })
    // Taken back: the old one is as it should be, and the other goes.
    await world.addModel('tiny', one, 'rev-1')
    await waitFor(async () => (await ordinals()).length === 1, { what: 'the failed one to go' })
    expect(await ordinals()).toEqual([0])
    expect(worker.unloads).toEqual([])
  })

  it('leaves loads under other numbers, and load asks for those', async () => {
    await controller()
    const { worker, old } = await up()
    await world.addModel('tiny', edited, 'rev-2')
    const next = await worker.untilLoads(2)
    worker.ready(next)
    await world.pass(next.replica_id)
    await untilReplica(old.replica_id, 'exited')
    const { modelSubmissions } = world.store
    const submission = { model: ModelName.parse('tiny'), requestedBy: 'test' }
    await modelSubmissions.load({ ...submission, id: OperationId.parse('op-1'), replicas: 1 }, null)
    expect(await ordinals()).toEqual([1])
    await modelSubmissions.load({ ...submission, id: OperationId.parse('op-2'), replicas: 3 }, null)
    expect(await ordinals()).toEqual([0, 1, 2])
  })

  it('of two goes one by one', async () => {
    await controller()
    const workers = [await world.addWorker('one'), await world.addWorker('two')]
    const both = { scheduling: { min_replicas: 2 } }
    await world.addModel('tiny', both)
    const olds = await Promise.all(workers.map((worker) => worker.untilLoads(1)))
    for (const worker of workers) worker.ready()
    await Promise.all([world.untilState('tiny', 'ready'), world.untilState('tiny', 'ready', { ordinal: 1 })])
    await world.addModel('tiny', { ...both, options: { threads: 4 } }, 'rev-2')
    const newest = async (count: number): Promise<[ModelWorker, LoadModel]> =>
      await waitFor(
        () => {
          const all = workers.flatMap((worker) => worker.loads.map((load): [ModelWorker, LoadModel] => [worker, load]))
          const fresh = all.filter(([, { revision }]) => revision === 'rev-2')
          return fresh.length === count ? fresh.find(([worker, { replica_id: id }]) => worker.processes.get(id) === 'starting') : undefined
        },
        { what: `${count} new ones` },
      )
    for (const count of [1, 2]) {
      const [worker, load] = await newest(count)
      expect((await ordinals()).length).toBe(3)
      worker.ready(load)
      await world.pass(load.replica_id)
    }
    await waitFor(async () => (await ordinals()).length === 2, { what: 'the old ones to go' })
    for (const { replica_id: id } of olds) await untilReplica(id, 'exited')
    expect(workers.flatMap(({ loads }) => loads)).toHaveLength(4)
  })
})

it('two controllers that decide at once never let two go', async () => {
  await world.addModel('tiny', one)
  const tiny = ModelName.parse('tiny')
  await world.store.loads.add([0, 1].map((ordinal) => ({ model: tiny, ordinal, pin: null, needsCheck: false })))
  const { rows: among } = await world.store.loads.listSets()
  const drop = async (ordinal: number) => {
    const from = among.find(({ load }) => load.ordinal === ordinal)
    if (from === undefined) throw new Error('it is there')
    return await world.store.loads.apply({ from, to: 'gone', replicas: [], among })
  }
  expect((await Promise.all([drop(0), drop(1)])).toSorted()).toEqual(['moved', 'written'])
  expect(await ordinals()).toHaveLength(1)
})

it('a draining replica, or one that a restarted worker does not know, does not count as serving', async () => {
  const first = await controller()
  const { worker, old } = await up()
  running.splice(running.indexOf(first), 1)
  await first.stop()
  const isReachable = async () => (await world.store.loads.listSets()).rows.map(({ load, ready }) => [load.state, ready?.isReachable])
  expect(await isReachable()).toEqual([['ready', true]])
  const restart = (incarnation: string) => sql`update nodes set incarnation = ${incarnation} where id = ${worker.id}`.execute(world.db)
  await restart('i-2')
  expect(await isReachable()).toEqual([['ready', false]])
  await restart('i-1')
  expect(await isReachable()).toEqual([['ready', true]])
  await world.store.replicas.change({ id: old.replica_id, do: 'drain' })
  expect(await isReachable()).toEqual([['ready', false]])
})

it('of many that found no room a few are looked at again at once, those first that failed first', async () => {
  const { loads } = world.store
  await world.addModel('tiny', { scheduling: { min_replicas: 20 } })
  await loads.add(Array.from({ length: 20 }, (_, ordinal) => ({ model: ModelName.parse('tiny'), ordinal, pin: null, needsCheck: false })))
  const failure = JSON.stringify({ code: 'no_capacity', retry: 'backoff', message: 'no' })
  await sql`update loads set state = 'failed', failure = ${failure}::jsonb, failed_at = now() - make_interval(secs => ordinal),
    next_at = now() + interval '1 hour'`.execute(world.db)
  expect(await loads.reconsider(8)).toBe(true)
  const { rows } = await loads.claim({ holder: 'test', leaseMs: 1_000, limit: 100 })
  const due = await sql<{ ordinal: number }>`select ordinal from loads where next_at <= now() order by ordinal`.execute(world.db)
  expect(due.rows.map(({ ordinal }) => ordinal)).toEqual([12, 13, 14, 15, 16, 17, 18, 19])
  expect(rows.map(({ load }) => load.ordinal)).toEqual([12])
})

it('a replica started after the inventory of its node is not replaced because of that inventory, but because of the next one', async () => {
  const worker = await world.addWorker('one')
  await worker.upgrade(`sha256:${'1'.repeat(64)}`)
  await world.addModel('tiny', one)
  const { loads } = world.store
  await loads.add([{ model: ModelName.parse('tiny'), ordinal: 0, pin: null, needsCheck: false }])
  await sql`insert into replicas (id, model, revision, ordinal, node_id, backend, backend_digest, config, state, ready_at)
    values ('r-1', 'tiny', 'rev-1', 0, ${worker.id}, 'llama', ${`sha256:${'2'.repeat(64)}`}, '{}'::jsonb, 'ready', now())`.execute(world.db)
  await sql`update loads set state = 'ready', replica_id = 'r-1', node_id = ${worker.id}, sign_at = now(), next_at = null`.execute(world.db)
  const listed = async () => (await loads.listSets()).rows[0]?.ready?.listed
  expect(await listed()).toBeNull()
  await worker.upgrade(`sha256:${'3'.repeat(64)}`)
  expect(await listed()).toBe(`sha256:${'3'.repeat(64)}`)
})

it('another version of the backend comes up beside the old one, on the node that has it', async () => {
  await controller()
  const { worker, old } = await up(one, oldDigest)
  await world.addWorker('two')
  await worker.upgrade(newDigest)
  const next = await worker.untilLoads(2)
  expect((await world.rowOf('tiny', 1))?.load).toMatchObject({ pin: worker.id, needsCheck: true })
  worker.ready(next, newDigest)
  await world.pass(next.replica_id)
  await untilReplica(old.replica_id, 'exited')
  expect(worker.loads).toHaveLength(2)
})

describe('a node that is drained', () => {
  it('serves on until another one serves elsewhere, and then has none', async () => {
    const { loads } = await controller()
    const { worker, old } = await up()
    await world.setDraining(worker.id, true)
    await world.untilState('tiny', 'failed', { ordinal: 1 })
    expect(await loads.cold.status('tiny')).toEqual({ kind: 'ready' })
    expect(await world.store.replicas.find(old.replica_id)).toMatchObject({ state: 'ready', isReachable: true, ordinal: 0 })
    const two = await world.addWorker('two')
    const next = await two.untilLoads(1)
    two.ready(next)
    await world.untilState('tiny', 'ready', { ordinal: 1 })
    expect(await stateOf(old.replica_id)).toBe('ready')
    await world.pass(next.replica_id)
    await untilReplica(old.replica_id, 'exited')
    expect(worker.unloads).toEqual([old.replica_id])
    expect(await ordinals()).toEqual([1])
  })

  it('keeps its replicas when that is cancelled', async () => {
    await controller()
    const { worker, old } = await up()
    await world.setDraining(worker.id, true)
    await world.untilState('tiny', 'failed', { ordinal: 1 })
    await world.setDraining(worker.id, false)
    await waitFor(async () => (await ordinals()).length === 1, { what: 'the other one to go' })
    expect(await stateOf(old.replica_id)).toBe('ready')
    expect([...worker.unloads, ...worker.loads.slice(1)]).toEqual([])
  })

  it('loses a replica that is still starting there to another node', async () => {
    await controller()
    const worker = await world.addWorker('one')
    await world.addModel('tiny', one)
    const first = await worker.untilLoads(1)
    const two = await world.addWorker('two')
    await world.setDraining(worker.id, true)
    await two.untilLoads(1)
    two.ready()
    await world.untilState('tiny', 'ready')
    await untilReplica(first.replica_id, 'exited')
  })

  it('and was absent is taken back with its serving replica, which is then moved to another node', async () => {
    await controller()
    const { worker, old } = await up()
    await world.setDraining(worker.id, true)
    await world.untilState('tiny', 'failed', { ordinal: 1 })
    await world.setPulse(worker.id, 'silent')
    await waitFor(async () => (await world.store.replicas.find(old.replica_id))?.ordinal === null, { what: 'it to be let go' })
    await world.setPulse(worker.id, 'present')
    await waitFor(async () => (await world.store.replicas.find(old.replica_id))?.ordinal !== null, { what: 'it to be taken back' })
    const two = await world.addWorker('two')
    const next = await two.untilLoads(1)
    two.ready(next)
    await world.pass(next.replica_id).catch(() => undefined)
    await untilReplica(old.replica_id, 'exited')
  })
})

const gb = 1e9
const setResources = (id: string, resources: object) =>
  sql`update node_pulses set resources = ${JSON.stringify(resources)}::jsonb where node_id = ${id}`.execute(world.db)
const file = (letter: string) => ({ uri: `https://example.com/${letter}`, filename: `${letter}.gguf`, sha256: letter.repeat(64) })
const keep = (id: string, sizes: Readonly<Record<string, number>>) => {
  const files = Object.entries(sizes).map(([letter, size]) => ({ digest: `sha256:${letter.repeat(64)}`, size }))
  return sql`update nodes set files = ${JSON.stringify(files)}::jsonb where id = ${id}`.execute(world.db)
}

describe('where there is no room for two', () => {
  it('the old replica ends first, and the note of its load records that', async () => {
    await controller()
    const { worker, old } = await up({ ...one, files: [file('a')] }, oldDigest)
    await keep(worker.id, { a: 4 * gb })
    await setResources(worker.id, { total_ram: 6 * gb, available_ram: 1 * gb })
    await worker.upgrade(newDigest)
    await untilReplica(old.replica_id, 'exited')
    // Nothing is booked on what its node has not said to be free; until then it is waited for.
    await setResources(worker.id, { total_ram: 6 * gb, available_ram: 6 * gb })
    const next = await worker.untilLoads(2)
    const { load } = await world.untilState('tiny', 'starting', { ordinal: 1 })
    expect(load).toMatchObject({
      pin: worker.id,
      note: 'not enough memory for two replicas on one: the old replica was stopped first (recreate)',
    })
    // The slot that the old one had is free.
    expect(next.slot).toBe(0)
    worker.ready(next, newDigest)
    await world.pass(next.replica_id)
    expect(await ordinals()).toEqual([1])
  })

  /** As many nodes as replicas, with memory for one each. */
  async function three(): Promise<{ workers: ModelWorker[]; olds: LoadModel[] }> {
    const workers: ModelWorker[] = []
    for (const name of ['one', 'two', 'three']) workers.push(await world.addWorker(name))
    for (const { id } of workers) await keep(id, { a: 4 * gb })
    for (const { id } of workers) await setResources(id, { total_ram: 6 * gb, available_ram: 6 * gb })
    await world.addModel('tiny', { ...files, scheduling: { min_replicas: 3 } })
    const olds = await Promise.all(workers.map((worker) => worker.untilLoads(1)))
    for (const worker of workers) worker.ready()
    for (const ordinal of [0, 1, 2]) await world.untilState('tiny', 'ready', { ordinal })
    return { workers, olds }
  }
  const files = { files: [file('a')] }

  it('I9 of three one at a time goes first, the next when its place is taken', async () => {
    await controller()
    const { workers, olds } = await three()
    await world.addModel('tiny', { ...files, scheduling: { min_replicas: 3 }, options: { threads: 4 } }, 'rev-2')
    const endedCount = async (): Promise<number> => {
      const states = await Promise.all(olds.map(({ replica_id: id }) => stateOf(id)))
      return states.filter((state) => state !== 'ready').length
    }
    for (const count of [1, 2, 3]) {
      const worker = await waitFor(() => workers.find(({ loads }) => loads.at(-1)?.revision === 'rev-2' && loads.length === 2), {
        what: `new one ${count}`,
      })
      workers.splice(workers.indexOf(worker), 1)
      // The next one has looked for room, and was told that there is none.
      if (count < 3)
        await waitFor(
          async () => (await world.store.loads.listOfModel('tiny')).rows.some(({ load }) => load.state === 'failed' && load.failedAt > 0),
          { what: 'the next one to find no room' },
        )
      expect(await endedCount()).toBe(count)
      const [next] = worker.loads.slice(-1)
      if (next === undefined) throw new Error('it came')
      worker.ready(next)
      await world.pass(next.replica_id)
    }
    await waitFor(async () => (await world.store.loads.listSets()).rows.every(({ load }) => load.revision === 'rev-2'), { what: 'the end' })
  })

  it('two that would end one each, by the same moment, end one', async () => {
    const first = await controller()
    await three()
    running.splice(running.indexOf(first), 1)
    await first.stop()
    const { loads } = world.store
    const advance = createAdvance({ loads, onStep: () => undefined, random: () => 0.5, log: silentLog })
    const set = await loads.listSets(ModelName.parse('tiny'))
    const end = async (ordinal: number) => await endFirst({ ordinal, nodeId: 'n-x' as never, ends: 'now' }, set, { advance })
    expect((await Promise.all([end(0), end(1)])).toSorted()).toEqual([false, true])
    expect(await ordinals()).toHaveLength(2)
  })

  it('the old one that goes is on the node where the new one has to be, however many there are', async () => {
    await controller()
    const many = { ...files, scheduling: { min_replicas: 10 } }
    const workers: ModelWorker[] = []
    for (let index = 0; index < 10; index += 1) workers.push(await world.addWorker(`w-${index}`))
    for (const worker of workers) await worker.upgrade(oldDigest)
    for (const { id } of workers) await keep(id, { a: 4 * gb })
    for (const { id } of workers) await setResources(id, { total_ram: 6 * gb, available_ram: 6 * gb })
    await world.addModel('tiny', many)
    for (const worker of workers) worker.ready(await worker.untilLoads(1), oldDigest)
    await waitFor(async () => (await world.store.loads.listOfModel('tiny')).rows.every(({ load }) => load.state === 'ready'), {
      what: 'all',
    })
    const { rows } = await world.store.loads.listOfModel('tiny')
    const last = rows.at(-1)?.load
    if (last?.state !== 'ready' || last.replicaId === null) throw new Error('it is ready')
    // All of them are of another version at once, as after an upgrade that no controller saw.
    for (const each of running.splice(0)) await each.stop()
    for (const worker of workers) await worker.upgrade(newDigest)
    await controller()
    await untilReplica(last.replicaId, 'exited')
  })

  it('a new one that has to be where another model has the room by now goes elsewhere', async () => {
    await controller()
    const worker = await world.addWorker('one')
    await keep(worker.id, { a: 4 * gb, b: 4 * gb })
    await setResources(worker.id, { total_ram: 6 * gb, available_ram: 6 * gb })
    await world.addModel('other', { files: [file('b')], scheduling: { min_replicas: 1 } })
    await worker.untilLoads(1)
    worker.ready()
    await world.untilState('other', 'ready')
    const two = await world.addWorker('two')
    await world.addModel('tiny', { ...files })
    await world.store.loads.add([{ model: ModelName.parse('tiny'), ordinal: 0, pin: worker.id, needsCheck: true }])
    await world.setModel('tiny', { asked: 1 })
    expect((await two.untilLoads(1)).model).toBe('tiny')
    expect(worker.unloads).toEqual([])
  })

  it('the old one stays when there would be none without it either', async () => {
    await controller()
    const { worker, old } = await up({ ...one, files: [file('a')] })
    await keep(worker.id, { a: 1 * gb, b: 9 * gb })
    await setResources(worker.id, { total_ram: 6 * gb, available_ram: 4 * gb })
    await world.addModel('tiny', { ...one, files: [file('b')] }, 'rev-2')
    const { load } = await world.untilState('tiny', 'failed', { ordinal: 1 })
    expect(load).toMatchObject({ failure: { code: 'no_capacity', message: expect.stringContaining('of memory') } })
    expect(await stateOf(old.replica_id)).toBe('ready')
    expect(worker.unloads).toEqual([])
  })

  it('on a node that is drained the old one serves on', async () => {
    await controller()
    const { worker, old } = await up({ ...one, files: [file('a')] })
    await keep(worker.id, { a: 4 * gb })
    await setResources(worker.id, { total_ram: 6 * gb, available_ram: 1 * gb })
    await world.setDraining(worker.id, true)
    await world.untilState('tiny', 'failed', { ordinal: 1 })
    expect(await stateOf(old.replica_id)).toBe('ready')
  })
})

describe('W16 a model that fits nowhere', () => {
  /** `small` is idle and beyond its minimum, on the one node, which has memory for one. */
  async function full(scheduling: object): Promise<{ worker: ModelWorker; small: LoadModel }> {
    const worker = await world.addWorker('one')
    await keep(worker.id, { a: 4 * gb, b: 4 * gb })
    await setResources(worker.id, { total_ram: 6 * gb, available_ram: 6 * gb })
    await world.addModel('small', { files: [file('a')], scheduling })
    await world.setModel('small', { asked: 1 })
    const small = await worker.untilLoads(1)
    worker.ready(small)
    await world.untilState('small', 'ready')
    return { worker, small }
  }

  it('S4.12 evicts a replica of lower priority, which comes back only on request', async () => {
    const { loads } = await controller()
    const { worker, small } = await full({ priority: -1 })
    await world.store.loadInfo.saveNew()
    const tiny = await world.addModel('tiny', { files: [file('b')] })
    await loads.cold.ensure(tiny)
    const next = await worker.untilLoads(2)
    expect(next.model).toBe('tiny')
    expect(worker.unloads).toEqual([small.replica_id])
    expect((await world.rowOf('tiny'))?.load.note).toBe('evicted small on one to make room')
    worker.ready(next)
    await world.untilState('tiny', 'ready')
    const shownSmall = await world.store.models.find('small' as never)
    expect(shownSmall).toMatchObject({ requestedReplicas: 0, loads: [] })
    expect(await world.store.loadInfo.find('small')).toMatchObject({ revision: 'rev-1' })
  })

  it('has not the place of one that is kept up', async () => {
    const { loads } = await controller()
    const { worker } = await full({ priority: -1, min_replicas: 1 })
    const tiny = await world.addModel('tiny', { files: [file('b')] })
    await loads.cold.ensure(tiny)
    await world.untilState('tiny', 'failed')
    expect(worker.unloads).toEqual([])
  })

  it('does not evict a model at its minimum, or a replica that is gone', async () => {
    const { small } = await (async () => {
      await controller()
      return await full({ priority: -1 })
    })()
    await world.addModel('small', { files: [file('a')], scheduling: { priority: -1, min_replicas: 1 } })
    expect(await world.store.loads.evict([small.replica_id])).toBeNull()
    expect(await world.store.loads.evict(['r-nobody' as ReplicaId])).toBeNull()
    expect(await stateOf(small.replica_id)).toBe('ready')
    await world.addModel('small', { files: [file('a')], scheduling: { priority: -1, max_replicas: 1 } })
    await world.setModel('small', { asked: 5 })
    expect(await world.store.loads.evict([small.replica_id])).toEqual(['small'])
    // A request beyond its maximum does not bring it back.
    expect(await world.store.models.find('small' as never)).toMatchObject({ requestedReplicas: 0 })
  })

  it('I15 two that find the same room do not both get it', async () => {
    const worker = await world.addWorker('one')
    await keep(worker.id, { a: 4 * gb, b: 4 * gb })
    await setResources(worker.id, { total_ram: 6 * gb, available_ram: 6 * gb })
    const [first, second] = [await controller(), await controller()]
    await world.addModel('tiny', { files: [file('a')], scheduling: { min_replicas: 1 } })
    await world.addModel('other', { files: [file('b')], scheduling: { min_replicas: 1 } })
    await worker.untilLoads(1)
    await waitFor(
      async () => {
        const { rows } = await world.store.loads.listOfModels(['tiny', 'other'])
        return (
          rows
            .map(({ load }) => load.state)
            .toSorted()
            .join() === 'failed,starting'
        )
      },
      { what: 'one of them to find no room' },
    )
    expect(worker.loads).toHaveLength(1)
    expect([...first.taken, ...second.taken].filter(({ event }) => event.type === 'placed')).toHaveLength(1)
  })
})
