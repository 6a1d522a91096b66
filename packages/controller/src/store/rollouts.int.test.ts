// Two controllers advance the same rollout at the same time: each decision is made on the outcome of the last one.
import { BackendName, Digest, type NodeId, OperationId } from '@muster/protocol'
import fc from 'fast-check'
import { sql } from 'kysely'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { openTwoControllers, type TwoControllers } from '../../test/two-controllers.ts'
import { nothingToFetch } from './intent-rows.ts'
import type { RolloutAction, RolloutRecord, RolloutRound } from './rollouts.ts'
import type { Store } from './store.ts'

const backend = BackendName.parse('llama')
const digestOf = (digit: string): Digest => Digest.parse(`sha256:${digit.repeat(64)}`)
const failure = { code: 'internal', retry: 'never', message: 'a replica exits' } as const
const lockBackend = sql`select pg_advisory_xact_lock(hashtextextended(${`backend ${backend}`}, 0))`

let two: TwoControllers
let made = 0

beforeAll(async () => {
  two = await openTwoControllers()
})
afterEach(clear)
afterAll(() => two[Symbol.asyncDispose]())

async function clear(): Promise<void> {
  for (const table of ['operations', 'nodes', 'replicas', 'intent_events']) await sql`delete from ${sql.table(table)}`.execute(two.db)
}

/** An upgrade of this many nodes, one per ring. */
async function begin(count: number): Promise<OperationId> {
  await clear()
  const nodes: NodeId[] = []
  for (let each = 0; each < count; each += 1) {
    const node = await two.addNode(`n-${++made}`)
    const inventory = JSON.stringify([{ name: backend, digest: digestOf('1'), version: 'v1', uri: 'oci://h/llama:1' }])
    await sql`update nodes set inventory = ${inventory}::jsonb, inventory_at = now() where id = ${node}`.execute(two.db)
    await sql`insert into replicas (id, model, revision, node_id, backend, backend_digest, config, state, ready_at)
      values (${`r-${made}`}, 'm', 'r', ${node}, ${backend}, ${digestOf('1')}, '{}', 'ready', now())`.execute(two.db)
    nodes.push(node)
  }
  const id = OperationId.parse(`op-${++made}`)
  const plan = { ...nothingToFetch, uri: 'oci://h/llama:2', digest: digestOf('2'), version: 'v2', strategy: 'rolling' as const }
  const submitted = nodes.map((nodeId) => ({ nodeId, nodeName: nodeId, plan, isCurrent: false }))
  const rollout = { canary: 1, maxParallel: 1, minHealthyMs: 0 }
  await two.a.submissions.submit(
    [{ id, kind: 'backend.upgrade', backend, requestedBy: 'test', options: {}, rollout, nodes: submitted }],
    null,
  )
  return id
}

type Decide = (rollout: RolloutRecord) => readonly RolloutAction[]

/** Enters the next ring and begins its nodes. */
const nextRing: Decide = ({ ring, rings, nodes }) =>
  ring >= rings
    ? []
    : [
        { do: 'enter', ring: ring + 1 },
        ...nodes.filter((node) => node.ring === ring + 1).map(({ nodeId }) => ({ do: 'begin', nodeId }) as const),
      ]

const both = (id: OperationId, first: Decide, second: Decide): Promise<[RolloutRound | null, RolloutRound | null]> => {
  const advance = (store: Store, decide: Decide) => () => store.rollouts.advance(id, decide)
  return two.atOnce(lockBackend, advance(two.a, first), advance(two.b, second))
}
const row = async (id: OperationId) =>
  await two.db.selectFrom('rollouts').select(['ring', 'rings', 'state', 'failure']).where('operation_id', '=', id).executeTakeFirstOrThrow()
const begun = async (): Promise<string[]> => {
  const { rows } = await sql<{ node_id: string }>`select node_id from intent_events where type = 'begun'`.execute(two.db)
  return rows.map((event) => event.node_id)
}
describe('two controllers', () => {
  it('that advance a rollout at once enter each ring once, and begin each node once', async () => {
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 2, max: 5 }), fc.integer({ min: 1, max: 3 }), async (count, rounds) => {
        const id = await begin(count)
        let ring = 1
        for (let round = 0; round < rounds; round += 1) {
          const results = await both(id, nextRing, nextRing)
          const entered = results.flatMap(
            (result) => result?.actions.flatMap((action) => (action.do === 'enter' ? [action.ring] : [])) ?? [],
          )
          const wanted = [ring + 1, ring + 2].filter((each) => each <= count)
          expect({ count: entered.length, rings: new Set(entered) }).toEqual({ count: wanted.length, rings: new Set(wanted) })
          ring = Math.min(ring + 2, count)
          expect((await row(id)).ring).toBe(ring)
        }
        const nodes = await begun()
        expect(nodes).toHaveLength(new Set(nodes).size)
        expect(nodes).toHaveLength(ring - 1)
      }),
      { numRuns: 10 },
    )
  })

  it('of which one stops the rollout and the other enters the next ring: no ring begins after the stop', async () => {
    for (let round = 0; round < 6; round += 1) {
      const id = await begin(3)
      const stop: Decide = (rollout) => (rollout.failure === null ? [{ do: 'stop', failure }] : [])
      const goOn: Decide = (rollout) => (rollout.failure === null ? nextRing(rollout) : [])
      const results = await both(id, stop, goOn)
      expect(await row(id)).toMatchObject({ state: 'returning', failure })
      const wasFirst = (results[1]?.actions.length ?? 0) > 0
      expect((await row(id)).ring).toBe(wasFirst ? 2 : 1)
      expect(await begun()).toHaveLength(wasFirst ? 1 : 0)
    }
  })

  it('that end a rollout at once: it ends once, and an ended rollout is not advanced', async () => {
    const id = await begin(2)
    const endAs =
      (end: 'succeeded' | 'cancelled'): Decide =>
      () => [{ do: 'end', end }]
    const results = await both(id, endAs('succeeded'), endAs('cancelled'))
    expect(results.filter((result) => result === null)).toHaveLength(1)
    const { state } = await row(id)
    expect(state).toBe(results[0] === null ? 'cancelled' : 'succeeded')
    expect(await two.a.rollouts.advance(id, nextRing)).toBeNull()
    expect(await row(id)).toMatchObject({ state, ring: 1 })
  })

  it('a decision on an intent that began meanwhile writes nothing', async () => {
    const id = await begin(2)
    const records = (await two.a.intents.findByBackend(backend)).rows.filter(({ awaitsRing }) => awaitsRing)
    await two.b.rollouts.advance(id, nextRing)
    expect(await begun()).toEqual(records.map(({ intent }) => intent.nodeId))
    const steps = records.map((from) => ({
      from,
      to: { ...from.intent, state: 'cancelled' as const, finishedAt: Date.now(), note: '' },
      event: 'withdrawn',
    }))
    expect(steps).toHaveLength(1)
    expect(await two.a.intents.apply(steps)).toEqual([])
  })
})
