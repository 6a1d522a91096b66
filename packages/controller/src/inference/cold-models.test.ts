import { Secret, silentLog, systemClock } from '@muster/host'
import { NodeId, ReplicaId, type LoadFailure } from '@muster/protocol'
import { waitFor } from '@muster/testkit'
import { afterEach, describe, expect, it } from 'vitest'
import { ClientLink } from '../routing/attempt.ts'
import { ReplicaTable } from '../routing/replica-table.ts'
import { createSuspects } from '../routing/dispatch.ts'
import type { ReadyReplica } from '../store/routes.ts'
import { createColdModels, type LoadStatus } from './cold-models.ts'

const endings: (() => Promise<void>)[] = []
afterEach(async () => {
  for (const end of endings.splice(0)) await end()
})

const loading: LoadStatus = {
  kind: 'loading',
  loading: { model: 'tiny', state: 'loading', node: 'gpu-1', progress: 41.2, current_bytes: 1, total_bytes: 2 },
}
const failure: LoadFailure = { code: 'integrity', message: 'the hash is wrong', at: '', next_retry_at: null, attempts: 1 }
const replica: ReadyReplica = {
  id: ReplicaId.parse('r-1'),
  model: 'tiny',
  revision: 'r1',
  node: {
    id: NodeId.parse('n-1'),
    name: 'gpu-1',
    gatewayUrl: 'http://127.0.0.1:1',
    gatewaySecret: new Secret('s'),
    approved: true,
    draining: false,
    liveness: 'present',
    answering: 'yes',
    lastSeenAt: null,
  },
}

async function world(first: LoadStatus | Error = loading) {
  let status = first
  const asked = { ensure: 0, status: 0 }
  const rows = {
    models: [{ name: 'tiny', createdAt: '2026-01-01', policy: 'prefix' as const, isDisabled: false }],
    replicas: [] as ReadyReplica[],
  }
  const table = new ReplicaTable({
    routes: { models: async () => rows.models, replicas: async () => rows.replicas },
    ...{ feedCursor: () => null, onRead: () => undefined },
    ...{ controllerId: 'c', clock: systemClock, log: silentLog },
  })
  const stopping = new AbortController()
  const running = table.run(stopping.signal)
  endings.push(async () => {
    stopping.abort()
    await running
  })
  await waitFor(() => table.isLoaded, { what: 'the table' })
  const answer = async (kind: 'ensure' | 'status'): Promise<LoadStatus> => {
    asked[kind] += 1
    if (status instanceof Error) throw status
    return status
  }
  const cold = createColdModels({
    table,
    loads: { ensure: () => answer('ensure'), status: () => answer('status') },
    suspects: createSuspects(systemClock),
    clock: systemClock,
  })
  const wait = ({ ms = 30_000, link = new ClientLink() } = {}) =>
    cold.wait('tiny', {
      isRoutable: () => (table.find('tiny')?.replicas.length ?? 0) > 0,
      link,
      deadline: systemClock.monotonic() + ms,
    })
  return { table, rows, asked, cold, wait, set: (next: LoadStatus) => void (status = next) }
}

describe('a model that is not loaded', () => {
  it('W28 a thousand requests wait for it with one query', async () => {
    const { wait, asked, cold, rows, table } = await world()
    const waiting = Array.from({ length: 1_000 }, () => wait())
    expect(cold.count()).toBe(1_000)
    await waitFor(() => asked.ensure === 1, { what: 'somebody to ask' })
    rows.replicas = [replica]
    table.markChanged([{ kind: 'model', id: 'tiny', seq: 1, deleted: false }])
    expect(new Set(await Promise.all(waiting))).toEqual(new Set([null]))
    expect(asked.ensure + asked.status).toBeLessThan(10)
    expect(cold.count()).toBe(0)
  })

  it('that does not load in time: waiting requests get its progress', async () => {
    const { wait } = await world()
    expect(await wait({ ms: 50 })).toEqual(loading)
  })

  it('G4 that fails: all waiting requests get the cause, and the next ones at once', async () => {
    const { wait, set, asked } = await world()
    const waiting = [wait(), wait()]
    await waitFor(() => asked.ensure === 1, { what: 'somebody to ask' })
    set({ kind: 'failed', failure })
    expect(await Promise.all(waiting)).toEqual([
      { kind: 'failed', failure },
      { kind: 'failed', failure },
    ])
    const before = asked.ensure + asked.status
    expect(await Promise.all(Array.from({ length: 100 }, () => wait()))).toEqual(
      Array.from({ length: 100 }, () => ({ kind: 'failed', failure })),
    )
    expect(asked.ensure + asked.status - before).toBeLessThan(3)
  })

  it('that fits on no node: refused at once', async () => {
    const { wait } = await world({ kind: 'no_capacity', message: 'no node has a GPU' })
    expect(await wait()).toEqual({ kind: 'no_capacity', message: 'no node has a GPU' })
  })

  it('that is deleted while requests wait is not found', async () => {
    const { wait, asked, rows, table } = await world()
    const waiting = wait()
    await waitFor(() => asked.ensure === 1, { what: 'somebody to ask' })
    rows.models = []
    table.markChanged([{ kind: 'model', id: 'tiny', seq: 1, deleted: true }])
    expect(await waiting).toEqual({ kind: 'model_not_found' })
  })

  it('G3 a client that disconnects stops waiting and ends nothing else', async () => {
    const { wait, cold, asked } = await world()
    const link = new ClientLink()
    const [gone, stays] = [wait({ link }), wait({ ms: 300 })]
    await waitFor(() => asked.ensure === 1, { what: 'somebody to ask' })
    link.leave()
    expect(await gone).toBeNull()
    expect(cold.count()).toBe(1)
    expect(await stays).toEqual(loading)
  })

  it('D4 requests keep waiting while the database is away, and are refused at their deadline', async () => {
    const error = new Error('the database is away')
    const { wait } = await world(error)
    const began = performance.now()
    expect(await wait({ ms: 300 })).toEqual({ kind: 'unknown', error })
    expect(performance.now() - began).toBeGreaterThanOrEqual(299)
  })

  it('D4 is requested again when the database is back, for a request that met the outage', async () => {
    const { wait, asked, set } = await world(new Error('the database is away'))
    const waiting = wait({ ms: 10_000 })
    await waitFor(() => asked.ensure === 1, { what: 'the first query' })
    const later = { ensure: 0, status: 0 }
    set(loading)
    await waitFor(() => asked.ensure + asked.status > 1, { what: 'the next query' })
    Object.assign(later, asked)
    set({ kind: 'failed', failure })
    expect(await waiting).toEqual({ kind: 'failed', failure })
    expect(later).toEqual({ ensure: 2, status: 0 })
  })

  it('is requested again for later requests, also while others still wait', async () => {
    const { wait, asked } = await world()
    const waiting = [wait({ ms: 2_500 })]
    await waitFor(() => asked.ensure === 1, { what: 'the first to ask' })
    waiting.push(wait({ ms: 2_500 }))
    await waitFor(() => asked.ensure === 2, { what: 'the second to ask' })
    await Promise.all(waiting)
    expect(asked.ensure).toBe(2)
  })
})
