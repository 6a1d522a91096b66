// Two controllers decide about the same intents at the same time, and one of them writes.
import { BackendName, Digest, stepIntent, type IntentEvent, type NodeId, OperationId } from '@muster/protocol'
import fc from 'fast-check'
import { sql } from 'kysely'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { openTwoControllers, type TwoControllers } from '../../test/two-controllers.ts'
import { nothingToFetch, type IntentRecord, type Plan } from './intent-rows.ts'
import type { IntentStep, ProgressTick } from './intents.ts'
import type { Store } from './store.ts'

const backend = BackendName.parse('llama')
const retry = { retry: { baseMs: 60_000, maxMs: 60_000, maxAttempts: 3 }, chance: 0 }
const failure = { code: 'unavailable', retry: 'backoff', message: 'the registry is away' } as const
const plan: Plan = { ...nothingToFetch, uri: 'oci://h/llama:1', digest: Digest.parse(`sha256:${'1'.repeat(64)}`) }
const otherPlan: Plan = { ...plan, digest: Digest.parse(`sha256:${'2'.repeat(64)}`) }
const lockAll = sql`select from intents for update`

let two: TwoControllers
let nodes: NodeId[]
let made = 0

beforeAll(async () => {
  two = await openTwoControllers()
})
afterEach(async () => {
  for (const table of ['operations', 'nodes', 'intent_events']) await sql`delete from ${sql.table(table)}`.execute(two.db)
})
afterAll(() => two[Symbol.asyncDispose]())

async function submit(store: Store, more: { plan?: Plan; kind?: 'backend.install' | 'backend.delete' } = {}): Promise<OperationId> {
  const id = OperationId.parse(`op-${++made}`)
  const planned = nodes.map((nodeId) => ({ nodeId, nodeName: nodeId, plan: more.plan ?? plan, isCurrent: false }))
  const kind = more.kind ?? 'backend.install'
  await store.submissions.submit([{ id, kind, backend, requestedBy: 'test', options: {}, nodes: planned }], null)
  return id
}

/** Nodes with a waiting intent each. */
async function begin(count: number): Promise<OperationId> {
  await sql`delete from nodes`.execute(two.db)
  nodes = []
  for (let each = 0; each < count; each += 1) nodes.push(await two.addNode(`n-${++made}`))
  return await submit(two.a)
}

const claim = (store: Store, holder: string, leaseMs = 60_000) => store.intents.claim({ holder, leaseMs, limit: 10 })
const accept = (store: Store, records: readonly IntentRecord[]) => store.intents.apply(stepsOf(records, () => ({ type: 'accepted' })))
const read = async (): Promise<IntentRecord[]> => [...(await two.a.intents.findByBackend(backend)).rows].toSorted(byNode)
const readAll = async (): Promise<IntentRecord[]> =>
  (await Promise.all(nodes.map((id) => two.a.intents.find(id, backend)))).flatMap(({ rows }) => rows).toSorted(byNode)
const byNode = (one: IntentRecord, other: IntentRecord): number => (one.intent.nodeId < other.intent.nodeId ? -1 : 1)
const events = async (): Promise<string[]> => {
  const { rows } = await sql<{ event: string }>`select node_id || ' ' || type as event from intent_events order by id`.execute(two.db)
  return rows.map((row) => row.event)
}

function stepsOf(records: readonly IntentRecord[], choose: (record: IntentRecord, index: number) => IntentEvent | null): IntentStep[] {
  return records.flatMap((from, index) => {
    const event = choose(from, index)
    const to = event === null ? null : stepIntent(from.intent, event, { now: Date.now(), ...retry })
    return to === null || event === null ? [] : [{ from, to, event: event.type }]
  })
}

const facts = ({ intent, rowVersion }: IntentRecord) => {
  const { state, epoch, attempts, cancelRequested, generation } = intent
  return { state, epoch, attempts, cancelRequested, generation, rowVersion }
}

type EventName =
  | 'accepted'
  | 'succeeded'
  | 'failed'
  | 'failed_for_good'
  | 'unheard'
  | 'cancel_requested'
  | 'withdrawn'
  | 'overdue'
  | 'nothing'

function eventOf(name: EventName, { intent: { epoch } }: IntentRecord): IntentEvent | null {
  switch (name) {
    case 'nothing':
      return null
    case 'failed':
      return { type: 'failed', failure, epoch }
    case 'failed_for_good':
      return { type: 'failed', failure: { ...failure, retry: 'never' }, epoch }
    case 'unheard':
    case 'overdue':
      return { type: name, againInMs: 60_000 }
    case 'succeeded':
    case 'withdrawn':
      return { type: name, note: '' }
    case 'accepted':
    case 'cancel_requested':
      return { type: name }
    default:
      throw new Error('unknown event')
  }
}

const names = fc.constantFrom<EventName>(
  ...(['accepted', 'succeeded', 'failed', 'failed_for_good', 'unheard', 'cancel_requested', 'withdrawn', 'overdue', 'nothing'] as const),
)

describe('two controllers', () => {
  it('I6 that decide at once about the same intents: each intent gets the decision of one, with its history and its operation', async () => {
    const round = fc.record({
      first: fc.array(names, { minLength: 3, maxLength: 3 }),
      second: fc.array(names, { minLength: 3, maxLength: 3 }),
    })
    await fc.assert(
      fc.asyncProperty(fc.array(round, { minLength: 1, maxLength: 4 }), async (rounds) => {
        const id = await begin(3)
        await claim(two.a, 'a')
        for (const { first, second } of rounds) {
          const records = await read()
          const before = await events()
          const [ofA, ofB] = [first, second].map((chosen) =>
            stepsOf(records, (record, index) => eventOf(chosen[index] ?? 'nothing', record)),
          )
          const moved = await two.atOnce(
            lockAll,
            () => two.a.intents.apply(ofA ?? []),
            () => two.b.intents.apply(ofB ?? []),
          )
          const written = (await events()).slice(before.length)
          const after = new Map((await readAll()).map((record) => [record.intent.nodeId, record]))
          for (const record of records) {
            const { nodeId } = record.intent
            const steps = [ofA, ofB].map((of) => of?.find(({ from }) => from.intent.nodeId === nodeId))
            const winners = steps.filter((_, index) => moved[index]?.some((each) => each.nodeId === nodeId))
            expect(winners).toHaveLength(steps.some((step) => step !== undefined) ? 1 : 0)
            const [winner] = winners
            const wanted = winner === undefined ? record : { ...record, intent: winner.to, rowVersion: record.rowVersion + 1 }
            expect(facts(after.get(nodeId) ?? record)).toEqual(facts(wanted))
            expect(written.filter((event) => event.startsWith(`${nodeId} `))).toEqual(
              winner === undefined ? [] : [`${nodeId} ${winner.event}`],
            )
          }
        }
        const shown = await sql<{ is_open: boolean; node_id: string }>`
          select node_id, status = 'open' as is_open from operation_nodes where operation_id = ${id}`.execute(two.db)
        const open = new Set((await read()).map(({ intent }) => intent.nodeId as string))
        expect(shown.rows.filter((row) => row.is_open !== open.has(row.node_id))).toEqual([])
      }),
      { numRuns: 25 },
    )
  })

  it('that claim at once share the due intents: each goes to one of them, with the next epoch', async () => {
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 1, max: 8 }), fc.boolean(), async (count, isHeld) => {
        await begin(count)
        const before = await read()
        const claims = [() => claim(two.a, 'a'), () => claim(two.b, 'b')] as const
        const [ofA, ofB] = isHeld ? await two.atOnce(lockAll, ...claims) : await Promise.all(claims.map((each) => each()))
        if (ofA === undefined || ofB === undefined) throw new Error('there are two claims')
        const taken = [...ofA.rows, ...ofB.rows].map(({ intent }) => intent.nodeId)
        // An intent that both looked at is skipped by one of them, and due again.
        expect(taken).toHaveLength(new Set(taken).size)
        const left = await claim(two.a, 'a')
        expect([...taken, ...left.rows.map(({ intent }) => intent.nodeId)].toSorted()).toEqual([...nodes].toSorted())
        for (const [index, { intent, rowVersion }] of (await read()).entries()) {
          expect(intent).toMatchObject({ state: 'sending', epoch: (before[index]?.intent.epoch ?? 0) + 1 })
          expect(rowVersion).toBe((before[index]?.rowVersion ?? 0) + 1)
        }
      }),
      { numRuns: 15 },
    )
  })

  it('that poll at once share the quiet intents', async () => {
    await begin(6)
    await accept(two.a, (await claim(two.a, 'a')).rows)
    await sql`update intents set sign_at = now() - interval '1 minute', accepted_at = now() - interval '1 minute'`.execute(two.db)
    const poll = async (store: Store): Promise<string[]> => {
      const { rows } = await store.intents.takeQuiet({ quietMs: 5_000, unansweredMs: 0, claimMs: 0, cancelEveryMs: 0, limit: 10 })
      return rows.map(({ intent }) => intent.nodeId)
    }
    const polled = [
      ...(await two.atOnce(
        lockAll,
        () => poll(two.a),
        () => poll(two.b),
      )),
      ...(await Promise.all([poll(two.a), poll(two.b)])),
      await poll(two.a),
    ].flat()
    expect(polled.toSorted()).toEqual([...nodes].toSorted())
  })
})

describe('the content of a path on the nodes', () => {
  const path: Plan = { ...nothingToFetch, uri: 'file:///srv/llama' }
  const [one, other] = [plan, otherPlan].map(({ digest }) => Digest.parse(digest)) as [Digest, Digest]
  const pin = (store: Store, nodeId: NodeId, digest: Digest) => async () => {
    const [record] = (await store.intents.find(nodeId, backend)).rows
    return await store.pins.pin({ nodeId, backend, generation: record?.intent.generation ?? 0, digest })
  }
  const pinned = async () => (await readAll()).map((record) => record.plan.digest)

  it('that two nodes report at once is that of the first, for every node of the operation', async () => {
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 2, max: 5 }), async (count) => {
        await begin(count)
        await submit(two.a, { plan: path })
        const [first, last] = [nodes[0] ?? expect.fail(), nodes.at(-1) ?? expect.fail()]
        const decided = await two.atOnce(lockAll, pin(two.a, first, one), pin(two.b, last, other))
        expect(decided[0]).toBe(decided[1])
        expect(await pinned()).toEqual(nodes.map(() => decided[0]))
        expect(await pin(two.b, last, other)()).toBe(decided[0])
      }),
      { numRuns: 5 },
    )
  })

  it('is pinned for failed nodes and operations that joined, not for those that asked again', async () => {
    await begin(3)
    const [first, second, third] = nodes as [NodeId, NodeId, NodeId]
    const all = nodes
    await submit(two.a, { plan: path })
    const failed = (await read()).filter(({ intent }) => intent.nodeId === second)
    await two.a.intents.apply(stepsOf(failed, () => ({ type: 'withdrawn', note: '' })))
    nodes = [third]
    await submit(two.a, { plan: { ...path, exact: true } })
    nodes = all
    expect(await pin(two.b, first, one)()).toBe(one)
    expect(await pinned()).toEqual([one, one, null])
    nodes = [third]
    await submit(two.b, { plan: { ...path, exact: true } })
    nodes = all
    expect(await pin(two.b, third, other)()).toBe(other)
    expect(await pinned()).toEqual([one, one, other])
    expect(await two.a.pins.pin({ nodeId: first, backend, generation: 0, digest: other })).toBeNull()
  })
})

describe('a decision on an intent', () => {
  it.each<[string, (id: OperationId) => Promise<unknown>]>([
    ['another controller claimed', () => claim(two.b, 'b')],
    ['a request for the same joined', () => submit(two.b)],
    ['a request for another version took over', () => submit(two.b, { plan: otherPlan })],
    ['a deletion took over', () => submit(two.b, { kind: 'backend.delete' })],
    ['an administrator cancelled', (id) => two.b.reopen.cancel(id, null)],
  ])('that %s meanwhile writes nothing', async (_, happen) => {
    const id = await begin(1)
    const records = await read()
    await happen(id)
    const [before, history] = [await readAll(), await events()]
    const settled = await two.a.intents.apply(stepsOf(records, () => ({ type: 'succeeded', note: '' })))
    expect(settled).toEqual([])
    expect([await readAll(), await events()]).toEqual([before, history])
  })

  it('that another controller parked meanwhile, because the node left, writes nothing', async () => {
    await begin(1)
    await sql`update node_pulses set liveness = 'gone'`.execute(two.db)
    // As if the node had left while the intent was written.
    await sql`update intents set is_parked = false`.execute(two.db)
    const records = await read()
    expect(await two.b.intents.park()).toBe(true)
    expect(await two.a.intents.apply(stepsOf(records, () => ({ type: 'withdrawn', note: '' })))).toEqual([])
    expect((await read())[0]?.intent.state).toBe('waiting')
  })

  it('that an administrator cancelled while the worker works writes nothing', async () => {
    const id = await begin(1)
    await accept(two.a, (await claim(two.a, 'a')).rows)
    const records = await read()
    expect(await two.b.reopen.cancel(id, null)).toBe('done')
    expect(await two.a.intents.apply(stepsOf(records, () => ({ type: 'unknown_to_worker', againInMs: 0 })))).toEqual([])
    expect((await read())[0]?.intent).toMatchObject({ state: 'working', cancelRequested: true })
  })

  it('that was retried meanwhile writes nothing', async () => {
    const id = await begin(1)
    const [claimed] = (await claim(two.a, 'a')).rows
    if (claimed === undefined) throw new Error('nothing was claimed')
    const never = { ...failure, retry: 'never' as const }
    await two.a.intents.apply(stepsOf([claimed], () => ({ type: 'failed', failure: never, epoch: claimed.intent.epoch })))
    expect(await two.b.reopen.retry({ id, nodeId: null }, null)).toBe('done')
    expect(await two.a.intents.apply(stepsOf([claimed], () => ({ type: 'accepted' })))).toEqual([])
    expect((await read())[0]?.intent).toMatchObject({ state: 'waiting', attempts: 0 })
  })
})

describe('the lease of an open request', () => {
  it('is renewed by its holder only', async () => {
    await begin(1)
    const { rows } = await claim(two.a, 'a')
    const leaseUntil = Date.now() + 10_000
    await two.a.intents.apply(stepsOf(rows, () => ({ type: 'request_opened', holder: 'a', leaseUntil })))
    const held = nodes.map((nodeId) => ({ nodeId, backend }))
    const lease = async (): Promise<unknown> => {
      const [record] = await read()
      return record?.intent.state === 'working' && record.intent.wait.for === 'reply' ? record.intent.wait.leaseUntil : null
    }
    const before = await lease()
    await two.b.intents.renew('b', 600_000, held)
    expect(await lease()).toBe(before)
    await two.a.intents.renew('a', 600_000, held)
    expect(await lease()).toBeGreaterThan(leaseUntil + 60_000)
  })

  it('is not renewed for a request that its holder does not hold any more', async () => {
    await begin(2)
    const { rows } = await claim(two.a, 'a')
    await two.a.intents.apply(stepsOf(rows, () => ({ type: 'request_opened', holder: 'a', leaseUntil: Date.now() - 1_000 })))
    const [lost, held] = nodes
    if (lost === undefined || held === undefined) throw new Error('there are two nodes')
    await two.a.intents.renew('a', 600_000, [{ nodeId: held, backend }])
    expect((await two.b.intents.findLost(10)).rows.map(({ intent }) => intent.nodeId)).toEqual([lost])
  })
})

describe('progress', () => {
  const tick = (more: Partial<ProgressTick>): ProgressTick => ({
    ...{ nodeId: nodes[0] ?? ('' as NodeId), opId: OperationId.parse('op-x'), phase: 'downloading', fileName: 'f' },
    ...{ current: 0, total: 100, percentage: 0, seq: null, epoch: null, ...more },
  })

  it('that two controllers store at once, in any order, only grows', async () => {
    await fc.assert(
      fc.asyncProperty(fc.uniqueArray(fc.integer({ min: 1, max: 100 }), { minLength: 2, maxLength: 8 }), async (seqs) => {
        const opId = await begin(1)
        await accept(two.a, (await claim(two.a, 'a')).rows)
        let highest = 0
        for (const [index, seq] of seqs.entries()) {
          const other = seqs[(index + 1) % seqs.length] ?? seq
          const ticks = [seq, other].map((each) => [tick({ opId, seq: each, current: each, percentage: each, epoch: 1 })])
          await Promise.all([two.a.intents.recordProgress(ticks[0] ?? []), two.b.intents.recordProgress(ticks[1] ?? [])])
          const { percentage, current, seq: stored } = (await read())[0]?.bytes ?? { percentage: 0, current: 0, seq: 0 }
          expect(stored).toBeGreaterThanOrEqual(highest)
          expect({ percentage, current }).toEqual({ percentage: stored, current: stored })
          highest = stored ?? 0
        }
      }),
      { numRuns: 10 },
    )
  })

  it('of an attempt that failed is not shown for the next one', async () => {
    const opId = await begin(1)
    const { rows } = await claim(two.a, 'a')
    await two.a.intents.apply(stepsOf(rows, ({ intent }) => ({ type: 'failed', failure, epoch: intent.epoch })))
    await sql`update intents set next_at = now()`.execute(two.db)
    await accept(two.a, (await claim(two.a, 'a')).rows)
    await two.b.intents.recordProgress([tick({ opId, percentage: 90, current: 90, seq: 5, epoch: 1 })])
    expect((await read())[0]?.bytes).toMatchObject({ percentage: 0, current: 0 })
    await two.b.intents.recordProgress([tick({ opId, percentage: 10, current: 10, seq: 1, epoch: 2 })])
    expect((await read())[0]?.bytes).toMatchObject({ percentage: 10, current: 10 })
  })
})
