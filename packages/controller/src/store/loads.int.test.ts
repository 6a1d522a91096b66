// Two controllers decide about the same loads at the same time, and one of them writes.
import { type LoadEvent, ModelName, type NodeId, OperationId, ReplicaId, stepLoad } from '@muster/protocol'
import fc from 'fast-check'
import { sql } from 'kysely'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { openTwoControllers, type TwoControllers } from '../../test/two-controllers.ts'
import type { LoadRecord } from './load-rows.ts'
import type { LoadStep, Written } from './loads.ts'
import type { ReplicaChange } from './replicas.ts'
import type { Store } from './store.ts'

const model = ModelName.parse('m')
const failure = { code: 'unavailable', retry: 'backoff', message: 'the node is away' } as const
const lockLoads = sql`select from loads for update`
const lockModels = sql`select pg_advisory_xact_lock(hashtextextended('model ' || name, 0)) from models`

let two: TwoControllers
let node: NodeId
let made = 0

beforeAll(async () => {
  two = await openTwoControllers()
})
beforeEach(async () => {
  node = await two.addNode(`n-${++made}`)
})
afterEach(clear)
afterAll(() => two[Symbol.asyncDispose]())

async function clear(): Promise<void> {
  for (const table of ['models', 'replicas', 'nodes', 'operations']) await sql`delete from ${sql.table(table)}`.execute(two.db)
}

/** A model with this many waiting loads that are due. */
async function addModel(name: string, loads: number): Promise<ModelName> {
  const config = { name, backend: 'llama', parameters: {}, files: [], options: {}, known_usecases: [], scheduling: { max_replicas: 8 } }
  await sql`insert into models (name, config, revision, backend, requested_replicas)
    values (${name}, ${JSON.stringify(config)}::jsonb, 'rev-1', 'llama', ${loads}::int)`.execute(two.db)
  for (let ordinal = 0; ordinal < loads; ordinal += 1)
    await sql`insert into loads (model, purpose, ordinal, revision, state, next_at)
      values (${name}, 'serve', ${ordinal}, 'rev-1', 'waiting', now() - interval '1 second')`.execute(two.db)
  return ModelName.parse(name)
}

/** A ready replica, of this load or of none. */
async function addReplica(of: { model: string; ordinal: number } | null): Promise<ReplicaId> {
  const id = ReplicaId.parse(`r-${++made}`)
  await sql`insert into replicas (id, model, revision, ordinal, node_id, backend, config, state, op_id, ready_at, slot)
    values (${id}, ${of?.model ?? 'm'}, 'rev-1', ${of?.ordinal ?? null}, ${node}, 'llama', '{}', 'ready', 'op-old', now(), ${made})`.execute(
    two.db,
  )
  if (of !== null)
    await sql`update loads set state = 'ready', node_id = ${node}, op_id = 'op-old', replica_id = ${id}, next_at = null, sign_at = now(),
      row_version = row_version + 1 where model = ${of.model} and ordinal = ${of.ordinal}`.execute(two.db)
  return id
}

const read = async (name: string = model): Promise<LoadRecord[]> => [...(await two.a.loads.listOfModel(name)).rows]
const facts = ({ load, version }: LoadRecord) => ({ state: load.state, epoch: load.epoch, attempts: load.attempts, version })

type EventName = 'failed' | 'unwanted' | 'revision_changed' | 'room_requested' | 'looked' | 'hurried' | 'nothing'

function eventOf(name: EventName): LoadEvent | null {
  switch (name) {
    case 'nothing':
      return null
    case 'failed':
      return { type: 'failed', failure }
    case 'revision_changed':
      return { type: 'revision_changed', revision: 'rev-2' }
    case 'room_requested':
      return { type: 'room_requested', made: 'an old replica ended first', againInMs: 1_000 }
    case 'looked':
      return { type: 'looked', againInMs: 1_000 }
    case 'hurried':
      return { type: 'hurried', isFresh: true }
    case 'unwanted':
      return { type: 'unwanted' }
    default:
      throw new Error('unknown event')
  }
}

function stepOf(from: LoadRecord | undefined, event: LoadEvent | null, replicas: readonly ReplicaChange[] = []): LoadStep | null {
  if (from === undefined || event === null) return null
  const to = stepLoad(from.load, event, { now: Date.now(), chance: 0 })
  return to === null ? null : { from, to, replicas }
}

/** Like `stepOf`, for a step that has to be legal. */
function mustStep(from: LoadRecord | undefined, event: LoadEvent, replicas: readonly ReplicaChange[] = []): LoadStep {
  const step = stepOf(from, event, replicas)
  if (step === null) throw new Error(`${event.type} is not legal here`)
  return step
}

const apply = async (store: Store, step: LoadStep | null): Promise<Written | null> => (step === null ? null : await store.loads.apply(step))

const names = fc.constantFrom<EventName>('failed', 'unwanted', 'revision_changed', 'room_requested', 'looked', 'hurried', 'nothing')

describe('two controllers', () => {
  it('I6 that decide at once about one load: it gets the decision of one of them, and the other has to decide again', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.tuple(names, names), { minLength: 1, maxLength: 5 }), async (rounds) => {
        await sql`delete from models`.execute(two.db)
        await addModel(model, 1)
        for (const chosen of rounds) {
          const [record] = await read()
          if (record === undefined) return
          const steps = chosen.map((name) => stepOf(record, eventOf(name)))
          const written = await two.atOnce(
            lockLoads,
            () => apply(two.a, steps[0] ?? null),
            () => apply(two.b, steps[1] ?? null),
          )
          const winners = steps.filter((_, index) => written[index] === 'written')
          expect(winners).toHaveLength(steps.some((step) => step !== null) ? 1 : 0)
          expect(written.filter((each) => each === 'moved')).toHaveLength(steps.every((step) => step !== null) ? 1 : 0)
          const [winner] = winners
          const wanted = winner?.to === 'gone' ? [] : [winner ? { ...record, load: winner.to, version: record.version + 1 } : record]
          expect((await read()).map(facts)).toEqual(wanted.map(facts))
        }
      }),
      { numRuns: 25 },
    )
  })

  it('that decide at once about all loads of a model: only the first decision is written, also when they concern other loads', async () => {
    const pair = fc.tuple(fc.nat({ max: 2 }), fc.nat({ max: 2 }))
    await fc.assert(
      fc.asyncProperty(pair, fc.tuple(names, names), async (ordinals, chosen) => {
        await sql`delete from models`.execute(two.db)
        await addModel(model, 3)
        const among = await read()
        const steps = chosen.map((name, index) => stepOf(among[ordinals[index] ?? 0], eventOf(name)))
        const [ofA, ofB] = steps.map((step) => (step === null ? null : { ...step, among }))
        const written = await two.atOnce(
          lockModels,
          () => apply(two.a, ofA ?? null),
          () => apply(two.b, ofB ?? null),
        )
        expect(written.filter((each) => each === 'written')).toHaveLength(steps.some((step) => step !== null) ? 1 : 0)
      }),
      { numRuns: 20 },
    )
  })

  it('a decision about all loads of a model is not written when one was added or removed meanwhile', async () => {
    await addModel(model, 2)
    const among = await read()
    const step = { ...mustStep(among[0], { type: 'unwanted' }), among }
    await two.b.loads.add([{ model, ordinal: 2, pin: null, needsCheck: false }])
    expect(await two.a.loads.apply(step)).toBe('moved')
    await sql`delete from loads where ordinal > 0`.execute(two.db)
    expect(await two.a.loads.apply(step)).toBe('moved')
    expect(await read()).toHaveLength(1)
  })

  it('that claim at once share the due loads, of each model only the first', async () => {
    const claim = async (store: Store, holder: string): Promise<string[]> => {
      const { rows } = await store.loads.claim({ holder, leaseMs: 60_000, limit: 10 })
      return rows.map(({ load }) => `${load.model} ${load.ordinal}`)
    }
    await fc.assert(
      fc.asyncProperty(fc.array(fc.integer({ min: 1, max: 3 }), { minLength: 1, maxLength: 4 }), fc.boolean(), async (sizes, isHeld) => {
        await sql`delete from models`.execute(two.db)
        for (const [index, size] of sizes.entries()) await addModel(`m${index}`, size)
        const claims = [() => claim(two.a, 'a'), () => claim(two.b, 'b')] as const
        const taken = (isHeld ? await two.atOnce(lockLoads, ...claims) : await Promise.all(claims.map((each) => each()))).flat()
        const all = [...taken, ...(await claim(two.b, 'b'))]
        expect(all.toSorted()).toEqual(sizes.map((_, index) => `m${index} 0`))
        for (const index of sizes.keys()) expect((await read(`m${index}`))[0]).toMatchObject({ version: 1, load: { lease: {} } })
      }),
      { numRuns: 15 },
    )
  })

  it('a claimed load is claimed by nobody else until its lease ends', async () => {
    await addModel(model, 1)
    const claim = async (leaseMs: number): Promise<number> => (await two.b.loads.claim({ holder: 'b', leaseMs, limit: 10 })).rows.length
    expect([await claim(60_000), await claim(60_000)]).toEqual([1, 0])
    await sql`update loads set lease_until = now() - interval '1 second'`.execute(two.db)
    expect(await claim(60_000)).toBe(1)
  })

  it('that ask for a cold model at once get one load', async () => {
    await addModel(model, 0)
    const asked = await Promise.all(Array.from({ length: 6 }, (_, index) => (index % 2 === 0 ? two.a : two.b).loads.ensure(model)))
    expect(asked).toContain(true)
    expect(await read()).toHaveLength(1)
  })

  it('that add the same load at once, or evict the same replica: it happens once', async () => {
    await addModel(model, 1)
    const victim = await addReplica({ model, ordinal: 0 })
    const other = { model, ordinal: 1, pin: null, needsCheck: false }
    await Promise.all([two.a.loads.add([other]), two.b.loads.add([other])])
    expect(await read()).toHaveLength(2)
    const evicted = await two.atOnce(
      lockModels,
      () => two.a.loads.evict([victim]),
      () => two.b.loads.evict([victim]),
    )
    expect(new Set(evicted)).toEqual(new Set([[model], null]))
    const { rows } = await sql<{ requested_replicas: number }>`select requested_replicas from models`.execute(two.db)
    expect(rows).toEqual([{ requested_replicas: 0 }])
    expect((await two.a.replicas.find(victim))?.state).toBe('draining')
  })
})

describe('two controllers that start replicas', () => {
  const start = (from: LoadRecord | undefined, nodeId: NodeId, seen: readonly ReplicaId[]): LoadStep => {
    const id = ReplicaId.parse(`r-${++made}`)
    const opId = OperationId.parse(`op-${made}`)
    const { model: name = '', ordinal = 0, revision = '' } = from?.load ?? {}
    const change = { id, do: 'start', model: name, revision, ordinal, nodeId, backend: 'llama', config: {}, opId, needsCheck: false, seen }
    return mustStep(from, { type: 'placed', nodeId, opId, replicaId: id }, [change as ReplicaChange])
  }

  it('on one node at once: the memory of the node is booked by one, and the other sees its replica first', async () => {
    const other = await two.addNode(`n-${++made}`)
    await fc.assert(
      fc.asyncProperty(fc.boolean(), fc.boolean(), async (isOther, hasSeen) => {
        for (const table of ['models', 'replicas']) await sql`delete from ${sql.table(table)}`.execute(two.db)
        await addModel('m1', 1)
        await addModel('m2', 1)
        const seen = hasSeen ? [await addReplica(null)] : []
        const [first, second] = [(await read('m1'))[0], (await read('m2'))[0]]
        const [ofA, ofB] = [start(first, node, seen), start(second, isOther ? other : node, isOther ? [] : seen)]
        const written = await two.atOnce(
          sql`select from nodes for update`,
          () => two.a.loads.apply(ofA),
          () => two.b.loads.apply(ofB),
        )
        expect(written.toSorted()).toEqual(isOther ? ['written', 'written'] : ['crowded', 'written'])
        expect((await two.a.replicas.listOfNode(node)).filter(({ state }) => state === 'starting')).toHaveLength(1)
        const states = [...(await read('m1')), ...(await read('m2'))].map(({ load }) => load.state)
        expect(states.toSorted()).toEqual(isOther ? ['starting', 'starting'] : ['starting', 'waiting'])
      }),
      { numRuns: 12 },
    )
  })

  it('of one model on one node one after the other: they get different slots, and the slot of an exited one is used again', async () => {
    await addModel(model, 3)
    const slots = async (): Promise<Set<number>> => new Set((await two.a.replicas.listOfNode(node)).map(({ slot }) => slot))
    for (let ordinal = 0; ordinal < 3; ordinal += 1) {
      const seen = (await two.a.replicas.listOfNode(node)).map(({ id }) => id)
      expect(await two.b.loads.apply(start((await read())[ordinal], node, seen))).toBe('written')
    }
    expect(await slots()).toEqual(new Set([0, 1, 2]))
    const middle = (await two.a.replicas.listOfNode(node)).find(({ slot }) => slot === 1)
    if (middle === undefined) throw new Error('slot 1 is empty')
    await two.a.replicas.change({ id: middle.id, do: 'exit', exit: {}, stamp: null })
    const [load] = (await read()).filter((record) => record.load.ordinal === middle.ordinal)
    await two.a.loads.apply(mustStep(load, { type: 'failed', failure }))
    const seen = (await two.a.replicas.listOfNode(node)).map(({ id }) => id)
    const [again] = (await read()).filter((record) => record.load.ordinal === middle.ordinal)
    expect(await two.b.loads.apply(start(again, node, seen))).toBe('written')
    expect(await slots()).toEqual(new Set([0, 1, 2]))
  })
})

describe('a replica that returned', () => {
  const retake = (from: LoadRecord | undefined, id: ReplicaId): LoadStep =>
    mustStep(from, { type: 'returned', nodeId: node, replicaId: id, opId: OperationId.parse('op-old'), isReady: true }, [
      { id, do: 'retake', ordinal: from?.load.ordinal ?? 0 },
    ])

  it('is taken back by one of two loads', async () => {
    await addModel(model, 2)
    const id = await addReplica(null)
    const [first, second] = await read()
    const written = await two.atOnce(
      sql`select from replicas for update`,
      () => two.a.loads.apply(retake(first, id)),
      () => two.b.loads.apply(retake(second, id)),
    )
    expect(written.toSorted()).toEqual(['moved', 'written'])
    expect((await read()).filter(({ load }) => load.state === 'ready')).toHaveLength(1)
  })

  it('is taken back or drained as a surplus, but not both', async () => {
    for (let round = 0; round < 6; round += 1) {
      await clear()
      node = await two.addNode(`n-${++made}`)
      await addModel(model, 1)
      const id = await addReplica(null)
      // A surplus replica is kept for a load without one, unless no operation started it.
      await sql`update replicas set op_id = null`.execute(two.db)
      const [load] = await read()
      const [written, isDrained] = await two.atOnce(
        sql`select from replicas for update`,
        () => two.a.loads.apply(retake(load, id)),
        () => two.b.replicas.change({ id, do: 'drain_surplus', ordinal: null }),
      )
      expect(written).toBe(isDrained ? 'moved' : 'written')
      expect((await read())[0]?.load.state).toBe(isDrained ? 'waiting' : 'ready')
      expect((await two.a.replicas.find(id))?.state).toBe(isDrained ? 'draining' : 'ready')
    }
  })

  it.each<ReplicaChange['do']>(['drain', 'exit'])('is not taken back after the change %s', async (how) => {
    await addModel(model, 1)
    const id = await addReplica(null)
    await two.b.replicas.change(how === 'exit' ? { id, do: 'exit', exit: {}, stamp: null } : { id, do: 'drain' })
    expect(await two.a.loads.apply(retake((await read())[0], id))).toBe('moved')
    expect((await read())[0]?.load.state).toBe('waiting')
  })
})

describe('a decision on a load', () => {
  it.each<[string, () => Promise<unknown>]>([
    ['another controller claimed', () => two.b.loads.claim({ holder: 'b', leaseMs: 60_000, limit: 10 })],
    [
      'an administrator requested again',
      () => two.b.modelSubmissions.load({ id: OperationId.parse(`op-${++made}`), model, requestedBy: 'test', replicas: 1 }, null),
    ],
    ['another controller removed', () => sql`delete from loads`.execute(two.db)],
  ])('that %s meanwhile writes nothing', async (_, happen) => {
    await addModel(model, 1)
    const [record] = await read()
    await happen()
    const before = await read()
    expect(await two.a.loads.apply(mustStep(record, { type: 'failed', failure }))).toBe('moved')
    expect(await two.a.loads.apply(mustStep(record, { type: 'unwanted' }))).toBe('moved')
    expect(await read()).toEqual(before)
  })

  it('that found no room writes nothing when a node has changed meanwhile', async () => {
    await addModel(model, 1)
    await two.a.loads.apply(mustStep((await read())[0], { type: 'failed', failure: { ...failure, code: 'no_capacity' } }))
    const [record] = await read()
    expect(await two.b.loads.reconsider(8)).toBe(true)
    expect(await two.a.loads.apply(mustStep(record, { type: 'failed', failure }))).toBe('moved')
    const [load] = await read()
    expect(load?.load).toMatchObject({ state: 'failed', failure: { code: 'no_capacity' } })
  })

  it.each<[string, () => Promise<unknown>]>([
    ['was removed with its node', () => two.b.nodes.remove(node)],
    ['was evicted', async () => await two.b.loads.evict((await two.b.replicas.listOfModel(model)).map(({ id }) => id))],
  ])('that %s meanwhile writes nothing', async (_, happen) => {
    await addModel(model, 1)
    await addReplica({ model, ordinal: 0 })
    const [record] = await read()
    await happen()
    const before = await read()
    expect(await two.a.loads.apply(mustStep(record, { type: 'exited', failure, wasCommanded: false }))).toBe('moved')
    expect(await read()).toEqual(before)
  })
})

it('progress of a load that two controllers store at once, in any order, only grows', async () => {
  await addModel(model, 1)
  const id = ReplicaId.parse('r-x')
  const opId = OperationId.parse('op-x')
  await two.a.loads.apply(mustStep((await read())[0], { type: 'placed', nodeId: node, opId, replicaId: id }))
  await fc.assert(
    fc.asyncProperty(fc.array(fc.tuple(fc.nat({ max: 50 }), fc.nat({ max: 50 })), { minLength: 1, maxLength: 6 }), async (pairs) => {
      let highest = (await read())[0]?.bytes.seq ?? -1
      for (const pair of pairs) {
        const ticks = pair.map((seq) => [
          { nodeId: node, opId, phase: null, fileName: 'f', current: seq, total: 50, percentage: seq, seq, epoch: null },
        ])
        await Promise.all([two.a.loads.recordProgress(ticks[0] ?? [], 1_000), two.b.loads.recordProgress(ticks[1] ?? [], 1_000)])
        const { seq, current } = (await read())[0]?.bytes ?? { seq: -1, current: 0 }
        expect(seq).toBeGreaterThanOrEqual(highest)
        expect(current).toBe(seq)
        highest = seq ?? -1
      }
    }),
    { numRuns: 8 },
  )
})
