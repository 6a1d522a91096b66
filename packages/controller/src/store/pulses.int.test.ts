// The statements about pulses do what protocol/states/node.ts says, for every state and event, on a real database.
import { fileURLToPath } from 'node:url'
import { silentLog, systemClock } from '@muster/host'
import { step, type Responsiveness, type Liveness, type PulseEvent } from '@muster/protocol'
import { createTestDatabase } from '@muster/testkit'
import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { connectDatabase } from './connect.ts'
import { migrate } from './migrate.ts'
import { NodeStore } from './nodes.ts'
import { PulseStore, type Beat } from './pulses.ts'
import type { Database } from './tables.ts'

let database: Awaited<ReturnType<typeof createTestDatabase>>
let connection: ReturnType<typeof connectDatabase<Database>>
let pulses: PulseStore

beforeAll(async () => {
  database = await createTestDatabase({ serverUrl: inject('postgresUrl') })
  connection = connectDatabase<Database>({ to: { url: database.url }, clock: systemClock, log: silentLog, applicationName: 'test' })
  const directory = fileURLToPath(new URL('./migrations', import.meta.url))
  await migrate({ pool: connection.pool, directory, log: silentLog, afterwards: async () => undefined })
  pulses = new PulseStore(connection.db)
})
afterAll(async () => {
  await connection.close()
  await database.drop()
})

const livenesses: Liveness[] = ['new', 'present', 'silent', 'gone', 'left']
const answerings: Responsiveness[] = ['yes', 'unproven', 'no']
const id = 'n-1' as never

async function put(pulse: {
  liveness: Liveness
  answering: Responsiveness
  seenSecondsAgo?: number
  incarnation?: string
  seq?: number
}): Promise<void> {
  await sql`delete from nodes`.execute(connection.db)
  await sql`
    insert into nodes (id, public_key, name, node_type, version, features, os, arch, capability, gateway_url, reported_labels, incarnation, approved_at, approved_by)
    values ('n-1', ${`U${'A'.repeat(55)}`}, 'n', 'backend', '', '{}', '', '', '', '', '{}', 'second', now() - interval '1 day', 'test')`.execute(
    connection.db,
  )
  await sql`
    insert into node_pulses (node_id, liveness, answering, last_seen_at, incarnation, seq, resources)
    values ('n-1', ${pulse.liveness}, ${pulse.answering}, now() - make_interval(secs => ${pulse.seenSecondsAgo ?? 0}), ${pulse.incarnation ?? 'second'}, ${pulse.seq ?? 5}, '{}')`.execute(
    connection.db,
  )
}
/** Many nodes that were silent for long, inserted in the opposite order of their ids. */
async function many(count: number): Promise<void> {
  await put({ liveness: 'present', answering: 'yes' })
  await sql`
    insert into nodes (id, public_key, name, node_type, version, features, os, arch, capability, gateway_url, reported_labels, incarnation, approved_at, approved_by)
    select 'm-' || i, 'U' || rpad(translate(i::text, '0123456789', 'ABCDEFGHIJ') || 'Z', 55, 'A'), 'm', 'backend', '', '{}', '', '', '', '', '{}', 'second', now(), 'test' from generate_series(${count}::int, 0, -1) i`.execute(
    connection.db,
  )
  await sql`
    insert into node_pulses (node_id, liveness, last_seen_at, incarnation, seq, resources)
    select id, 'present', now() - interval '1 hour', 'second', 1, '{}' from nodes where id like 'm-%' order by id desc`.execute(
    connection.db,
  )
}
async function approveAgain(): Promise<void> {
  await sql`update nodes set approved_at = null, approved_by = null`.execute(connection.db)
  await new NodeStore(connection.db).approve(id, 'test')
}
async function get(): Promise<{ liveness: string; answering: string; last_seen_at: string | null; in_flight: number }> {
  return await connection.db
    .selectFrom('node_pulses')
    .select(['liveness', 'answering', 'last_seen_at', 'in_flight'])
    .executeTakeFirstOrThrow()
}
const beat = (changes: Partial<Beat> & { incarnation?: string; seq?: number | null } = {}): Beat => ({
  via: changes.via ?? 'bus',
  ageMs: changes.ageMs ?? 0,
  heartbeat: {
    node_id: id,
    incarnation: (changes.incarnation ?? 'second') as never,
    seq: changes.seq === undefined ? 6 : changes.seq,
    in_flight: 3,
    resources: '{"cpus":4}',
  },
})
const limits = { nodeTimeoutMs: 15_000, offlineAfterMs: 600_000, maxClockJumpMs: 60_000 }

const cases: [PulseEvent, () => Promise<unknown>, Partial<Parameters<typeof put>[0]>][] = [
  [{ type: 'heartbeat', via: 'bus', isNewIncarnation: false, isAgent: false }, () => pulses.recordBeats([beat()]), {}],
  [{ type: 'heartbeat', via: 'bus', isNewIncarnation: true, isAgent: false }, () => pulses.recordBeats([beat()]), { incarnation: 'first' }],
  [
    { type: 'heartbeat', via: 'http', isNewIncarnation: false, isAgent: false },
    () => pulses.recordBeats([beat({ via: 'http', seq: null })]),
    {},
  ],
  [
    { type: 'heartbeat', via: 'http', isNewIncarnation: true, isAgent: false },
    () => pulses.recordBeats([beat({ via: 'http', seq: null })]),
    { incarnation: 'first' },
  ],
  [{ type: 'answered' }, () => pulses.recordAnswered({ id, incarnation: 'second' }), {}],
  [{ type: 'no_responders' }, () => pulses.recordNoResponders({ id, incarnation: 'second' }), {}],
  [{ type: 'leaving' }, () => pulses.recordLeaving(id, { incarnation: 'second', seq: 9 }), {}],
  [{ type: 'approved' }, () => approveAgain(), {}],
  [{ type: 'silent_for_timeout' }, () => pulses.sweep(limits, Date.now()), { seenSecondsAgo: 16 }],
  [{ type: 'silent_for_offline' }, () => pulses.sweep(limits, Date.now()), { seenSecondsAgo: 601 }],
]

describe.each(cases)('%o', (event, apply, situation) => {
  const states = livenesses.flatMap((liveness) => answerings.map((answering) => ({ liveness, answering })))
  it.each(states)('in $liveness/$answering equals step()', async (state) => {
    await put({ ...state, ...situation })
    await apply()
    const { liveness, answering } = await get()
    expect({ liveness, answering }).toEqual(step(state, event))
  })
})

describe('an agent node', () => {
  const event: PulseEvent = { type: 'heartbeat', via: 'http', isNewIncarnation: true, isAgent: true }
  it('owes no proof that it answers commands, and is never called unanswering', async () => {
    await put({ liveness: 'gone', answering: 'yes', incarnation: 'first' })
    await sql`update nodes set node_type = 'agent'`.execute(connection.db)
    await pulses.recordBeats([beat({ via: 'http', seq: null })])
    await pulses.recordNoResponders({ id, incarnation: 'second' })
    const { liveness, answering } = await get()
    expect({ liveness, answering }).toEqual(step({ liveness: 'gone', answering: 'yes' }, event))
  })
})

describe('a batch of heartbeats', () => {
  it.each<[string, Beat]>([
    ['of another process than the one registered', beat({ incarnation: 'first' })],
    ['that is older than what is known', beat({ seq: 4 })],
    ['that is known already', beat({ seq: 5 })],
  ])('ignores one %s', async (_, ignored) => {
    await put({ liveness: 'silent', answering: 'yes' })
    expect(await pulses.recordBeats([ignored])).toBe(0)
    expect((await get()).liveness).toBe('silent')
  })

  it('counts a heartbeat from when it arrived, not from when it was written, and never back', async () => {
    await put({ liveness: 'present', answering: 'yes', seenSecondsAgo: 60 })
    await pulses.recordBeats([beat({ ageMs: 10_000 })])
    const age = Date.now() - Date.parse((await get()).last_seen_at ?? '')
    expect(age).toBeGreaterThan(9_000)
    expect(age).toBeLessThan(15_000)
    await pulses.recordBeats([beat({ ageMs: 30_000, seq: 7 })])
    expect(Date.now() - Date.parse((await get()).last_seen_at ?? '')).toBeLessThan(15_000)
  })

  it('does not bring back a node that left after it', async () => {
    await put({ liveness: 'present', answering: 'yes' })
    await pulses.recordLeaving(id, { incarnation: 'second', seq: 7 })
    expect(await pulses.recordBeats([beat({ seq: 6 })])).toBe(0)
    expect((await get()).liveness).toBe('left')
  })

  it('marks no node while the clock of the database differs from the expected time', async () => {
    await put({ liveness: 'present', answering: 'yes', seenSecondsAgo: 999 })
    expect(await pulses.sweep(limits, (await pulses.databaseNow()) - 3_600_000)).toEqual([])
    expect((await get()).liveness).toBe('present')
    expect(await pulses.sweep(limits, await pulses.databaseNow())).toEqual([{ id: 'n-1', liveness: 'gone' }])
  })

  it('does not count for another process than the queried one', async () => {
    await put({ liveness: 'present', answering: 'unproven' })
    await pulses.recordNoResponders({ id, incarnation: 'first' })
    await pulses.recordAnswered({ id, incarnation: 'first' })
    expect((await get()).answering).toBe('unproven')
  })

  it('counts the right process also when a wrong one speaks in its name at the same time', async () => {
    await put({ liveness: 'silent', answering: 'yes' })
    expect(await pulses.recordBeats([beat(), beat({ incarnation: 'impostor', seq: 99 })])).toBe(1)
    expect((await get()).liveness).toBe('present')
  })

  it('neither deadlocks with the sweep nor with other batches, whatever their order', async () => {
    await many(60)
    const beats = Array.from({ length: 60 }, (_, i) => ({
      ...beat({ seq: 100 }),
      heartbeat: { ...beat({ seq: 100 }).heartbeat, node_id: `m-${i}` as never },
    }))
    const now = await pulses.databaseNow()
    const rounds = Array.from({ length: 30 }, (_, i) =>
      i % 3 === 0 ? pulses.sweep(limits, now) : pulses.recordBeats(i % 2 === 0 ? beats : beats.toReversed()),
    )
    await expect(Promise.all(rounds)).resolves.toHaveLength(30)
  })

  it('two controllers that write overlapping batches at once do not count twice', async () => {
    await put({ liveness: 'present', answering: 'yes' })
    const written = await Promise.all(Array.from({ length: 8 }, () => pulses.recordBeats([beat({ seq: 9 })])))
    expect(written.reduce((sum, count) => sum + count, 0)).toBe(1)
  })
})
