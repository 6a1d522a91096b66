// Two controllers change the same replicas at the same time. The states of a replica only go forward.
import { ModelName, type NodeId, ReplicaId, type ReplicaState } from '@muster/protocol'
import fc from 'fast-check'
import { sql } from 'kysely'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { openTwoControllers, type TwoControllers } from '../../test/two-controllers.ts'
import type { ReplicaChange } from './replicas.ts'
import type { Store } from './store.ts'

const order: readonly ReplicaState[] = ['starting', 'ready', 'draining', 'exited']
const lockReplicas = sql`select from replicas for update`

let two: TwoControllers
let node: NodeId
let made = 0

beforeAll(async () => {
  two = await openTwoControllers()
  node = await two.addNode('one')
})
beforeEach(async () => {
  for (const table of ['models', 'replicas', 'controllers']) await sql`delete from ${sql.table(table)}`.execute(two.db)
})
afterAll(() => two[Symbol.asyncDispose]())

async function addReplica(state: ReplicaState, more: { checked?: string } = {}): Promise<ReplicaId> {
  const id = ReplicaId.parse(`r-${++made}`)
  const time = (...states: readonly ReplicaState[]) => (states.includes(state) ? sql`now()` : sql`null`)
  await sql`insert into replicas (id, model, revision, ordinal, node_id, backend, config, state, op_id, ready_at, drain_since, exited_at, slot, checked)
    values (${id}, 'm', 'rev-1', ${state === 'starting' || state === 'ready' ? made : null}, ${node}, 'llama', '{}', ${state}, 'op-1',
      ${time('ready', 'draining', 'exited')}, ${time('draining')}, ${time('exited')}, ${made}, ${more.checked ?? 'passed'})`.execute(two.db)
  return id
}
const stateOf = async (id: ReplicaId): Promise<ReplicaState> => (await two.a.replicas.find(id))?.state ?? 'exited'

type ChangeName = 'ready' | 'exit' | 'drain' | 'drain_surplus' | 'release' | 'retake'
const changeOf = (id: ReplicaId, name: ChangeName): ReplicaChange => {
  const stamp = { incarnation: 'i', seq: 1 }
  const changes: Readonly<Record<ChangeName, ReplicaChange>> = {
    ready: { id, do: 'ready', backendDigest: null, stamp },
    exit: { id, do: 'exit', exit: { exit_code: 1 }, stamp },
    drain: { id, do: 'drain' },
    drain_surplus: { id, do: 'drain_surplus', ordinal: null },
    release: { id, do: 'release' },
    retake: { id, do: 'retake', ordinal: Number(id.slice(2)) },
  }
  return changes[name]
}
const changeNames = fc.constantFrom<ChangeName>('ready', 'exit', 'drain', 'drain_surplus', 'release', 'retake')

describe('two controllers', () => {
  it('that change a replica at once, with any reports in any order: its state never goes back', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.tuple(changeNames, changeNames), { minLength: 1, maxLength: 5 }), async (rounds) => {
        const id = await addReplica('starting')
        let reached = 0
        for (const [first, second] of rounds) {
          await two.atOnce(
            lockReplicas,
            () => two.a.replicas.change(changeOf(id, first)),
            () => two.b.replicas.change(changeOf(id, second)),
          )
          const now = order.indexOf(await stateOf(id))
          expect(now).toBeGreaterThanOrEqual(reached)
          if (first === 'exit' || second === 'exit') expect(now).toBe(order.indexOf('exited'))
          reached = now
        }
      }),
      { numRuns: 25 },
    )
  })

  it.each<[ReplicaState, ChangeName, ReplicaState]>([
    ['draining', 'ready', 'draining'],
    ['exited', 'ready', 'exited'],
    ['exited', 'drain', 'exited'],
    ['exited', 'exit', 'exited'],
    ['draining', 'retake', 'draining'],
    ['exited', 'retake', 'exited'],
    ['exited', 'release', 'exited'],
    ['draining', 'exit', 'exited'],
  ])('a replica that is %s gets the change %s: it is %s', async (state, name, after) => {
    const id = await addReplica(state)
    expect(await two.b.replicas.change(changeOf(id, name))).toBe(after !== state)
    expect(await stateOf(id)).toBe(after)
    expect((await two.a.replicas.find(id))?.ordinal).toBeNull()
  })

  it('the reason of the first exit is kept', async () => {
    const id = await addReplica('ready')
    const exits = await two.atOnce(
      lockReplicas,
      () => two.a.replicas.change({ id, do: 'exit', exit: { reason: 'a' }, stamp: null }),
      () => two.b.replicas.change({ id, do: 'exit', exit: { reason: 'b' }, stamp: null }),
    )
    expect(new Set(exits)).toEqual(new Set([true, false]))
    const { rows } = await sql<{ reason: string }>`select exit ->> 'reason' as reason from replicas`.execute(two.db)
    expect(rows).toEqual([{ reason: exits[0] ? 'a' : 'b' }])
  })

  it('that stop drained replicas at once share them, and repeat the command after a while only', async () => {
    const ids: ReplicaId[] = []
    for (let each = 0; each < 6; each += 1) ids.push(await addReplica('draining'))
    const take = async (store: Store): Promise<ReplicaId[]> =>
      (await store.replicas.takeDrains({ everyMs: 60_000, patienceMs: -1_000, limit: 10 })).due.map(({ id }) => id)
    const held = await two.atOnce(
      lockReplicas,
      () => take(two.a),
      () => take(two.b),
    )
    const taken = [...held, ...(await Promise.all([take(two.a), take(two.b)])), await take(two.b)].flat()
    expect(taken.toSorted()).toEqual(ids.toSorted())
    await sql`update replicas set stop_sent_at = now() - interval '2 minutes'`.execute(two.db)
    expect(await take(two.a)).toHaveLength(6)
  })
})

describe('checks of new replicas', () => {
  const take = async (store: Store, holder: string): Promise<ReplicaId[]> =>
    (await store.replicaChecks.take({ holder, leaseMs: 60_000, limit: 10 })).map(({ id }) => id)

  async function addDue(count: number): Promise<ReplicaId[]> {
    const name = ModelName.parse('m')
    await sql`insert into models (name, config, revision, backend) values (${name}, '{"name": "m", "backend": "llama"}', 'rev-1', 'llama')`.execute(
      two.db,
    )
    const ids: ReplicaId[] = []
    for (let ordinal = 0; ordinal < count; ordinal += 1) {
      const id = await addReplica('ready', { checked: 'due' })
      await sql`insert into loads (model, purpose, ordinal, revision, state, node_id, op_id, replica_id, epoch, sign_at)
        values (${name}, 'serve', ${ordinal}, 'rev-1', 'ready', ${node}, 'op-1', ${id}, 1, now())`.execute(two.db)
      ids.push(id)
    }
    return ids
  }
  const checked = async (): Promise<string[]> => {
    const { rows } = await sql<{ checked: string }>`select checked from replicas order by id`.execute(two.db)
    return rows.map((row) => row.checked)
  }

  it('two controllers that take checks at once share them', async () => {
    const ids = await addDue(5)
    const held = await two.atOnce(
      lockReplicas,
      () => take(two.a, 'a'),
      () => take(two.b, 'b'),
    )
    const taken = [...held, ...(await Promise.all([take(two.a, 'a'), take(two.b, 'b')])), await take(two.b, 'b')].flat()
    expect(taken.toSorted()).toEqual(ids.toSorted())
  })

  it('I6 a controller that lost its lease neither keeps nor passes the check', async () => {
    const [id] = await addDue(1)
    if (id === undefined) throw new Error('there is one replica')
    expect(await take(two.a, 'a')).toEqual([id])
    await sql`update replicas set check_until = now() - interval '1 second'`.execute(two.db)
    expect(await take(two.b, 'b')).toEqual([id])
    expect(await two.a.replicaChecks.keep(id, { holder: 'a', forMs: 60_000 })).toBe(false)
    expect(await two.a.replicaChecks.pass(id, 'a')).toBe(false)
    expect(await checked()).toEqual(['due'])
    expect(await two.b.replicaChecks.keep(id, { holder: 'b', forMs: 60_000 })).toBe(true)
    expect(await two.b.replicaChecks.pass(id, 'b')).toBe(true)
    expect(await checked()).toEqual(['passed'])
  })

  it('a replica that is drained while it is checked does not pass', async () => {
    const [id] = await addDue(1)
    if (id === undefined) throw new Error('there is one replica')
    await take(two.a, 'a')
    const [, isPassed] = await two.atOnce(
      lockReplicas,
      () => two.b.replicas.change({ id, do: 'drain' }),
      () => two.a.replicaChecks.pass(id, 'a'),
    )
    expect(await stateOf(id)).toBe('draining')
    expect(await checked()).toEqual([isPassed ? 'passed' : 'due'])
    expect(await two.a.replicaChecks.pass(id, 'a')).toBe(false)
  })
})
