// Inventories on a real database and bus: what is pushed, what is asked for, and which of two words counts.
import { fileURLToPath } from 'node:url'
import { createLocalHub, type Bus } from '@muster/bus'
import { silentLog, systemClock } from '@muster/host'
import {
  backendList,
  BackendName,
  Digest,
  Incarnation,
  InstalledBackend,
  nodeEvents,
  NodeId,
  Registration,
  type BackendList,
} from '@muster/protocol'
import { boundMs, createTestDatabase, waitFor } from '@muster/testkit'
import { sql } from 'kysely'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { statusOf } from '../nodes/view.ts'
import { connectDatabase } from '../store/connect.ts'
import { migrate } from '../store/migrate.ts'
import { createStore, type Store } from '../store/store.ts'
import type { Database } from '../store/tables.ts'
import { createFleetBackends } from './fleet-backends.ts'
import { createInventoryReports, createNodeQueries, isDoubtful } from './node-inventories.ts'
import { createInbound } from '../work/exchange.ts'

let database: Awaited<ReturnType<typeof createTestDatabase>>
let connection: ReturnType<typeof connectDatabase<Database>>
let store: Store
let bus: Bus
let worker: Bus
const settled: { node: NodeId; list: BackendList }[] = []
const settleByInventory = async (node: NodeId, list: BackendList): Promise<void> => void settled.push({ node, list })
const hub = createLocalHub({ log: silentLog })
const backends = (...names: string[]) => names.map((name) => InstalledBackend.parse({ name }))

beforeAll(async () => {
  database = await createTestDatabase()
  connection = connectDatabase<Database>({ to: { url: database.url }, log: silentLog, applicationName: 'test' })
  const directory = fileURLToPath(new URL('../store/migrations', import.meta.url))
  await migrate({ pool: connection.pool, directory, log: silentLog, afterwards: async () => undefined })
  store = createStore(connection.db)
  bus = hub.connect()
  worker = hub.connect()
})
afterAll(async () => {
  await Promise.all([bus.close(), worker.close()])
  await connection.close()
  await database.drop()
})
beforeEach(async () => {
  settled.length = 0
  await sql`delete from nodes`.execute(connection.db)
})

let made = 0
type Facts = { approved?: boolean; draining?: boolean; liveness?: string; answering?: string; agent?: boolean; features?: string[] }
async function put({ approved = true, draining = false, liveness = 'present', answering = 'yes', agent = false, features }: Facts = {}) {
  made += 1
  const id = NodeId.parse(`n-${made}`)
  const registration = {
    name: id,
    public_key: `U${String.fromCodePoint(65 + (made % 26)).repeat(55)}`,
    incarnation: 'i-1',
    node_type: agent ? 'agent' : 'backend',
    features: features ?? ['async'],
  }
  await store.nodes.insert(id, Registration.parse(registration), { approvedBy: approved ? 'test' : null, signedAt: new Date() })
  await store.nodes.setDraining(id, draining)
  await sql`update node_pulses set liveness = ${liveness}, answering = ${answering}, incarnation = 'i-1', last_seen_at = now()
    where node_id = ${id}`.execute(connection.db)
  return id
}
const namesOf = async (id: NodeId): Promise<string[]> => (await store.nodes.find(id))?.inventory.map(({ name }) => name) ?? []
const statusNow = async (id: NodeId): Promise<string | null> => {
  const node = await store.nodes.find(id)
  return node === null ? null : statusOf(node).status
}

describe('an inventory that is stored', () => {
  it('is never replaced by an older one, nor by one of a process that no longer speaks', async () => {
    const id = await put()
    const record = (seq: number, name: string, incarnation = 'i-1') =>
      store.inventory.record(id, { incarnation, seq, backends: backends(name) })
    expect(await record(5, 'five')).toBe(true)
    expect(await record(4, 'four')).toBe(false)
    expect(await record(5, 'five-again')).toBe(false)
    expect(await record(9, 'other', 'i-0')).toBe(false)
    expect(await namesOf(id)).toEqual(['five'])
    await sql`update nodes set incarnation = 'i-2' where id = ${id}`.execute(connection.db)
    expect(await record(6, 'late', 'i-1')).toBe(false)
    expect(await record(0, 'new', 'i-2')).toBe(true)
    expect(await namesOf(id)).toEqual(['new'])
  })

  it('is replaced by an answer only if that was requested afterwards, and by any later event', async () => {
    const id = await put()
    const early = { id, incarnation: 'i-1', requestedAt: await store.inventory.now() }
    await store.inventory.record(id, { incarnation: 'i-1', seq: 5, backends: backends('pushed') })
    expect(await store.inventory.recordAnswer(early, { backends: backends('stale') })).toBe(false)
    const asked = await waitFor(
      async () => {
        const requestedAt = await store.inventory.now()
        return (await store.inventory.recordAnswer({ ...early, requestedAt }, { backends: backends('answered') })) ? requestedAt : null
      },
      { what: 'a later millisecond' },
    )
    expect(await namesOf(id)).toEqual(['answered'])
    expect(
      await store.inventory.recordAnswer({ ...early, incarnation: 'i-0', requestedAt: asked }, { backends: backends('foreign') }),
    ).toBe(false)
    expect(await store.inventory.record(id, { incarnation: 'i-1', seq: 5, backends: backends('pushed') })).toBe(false)
    expect(await store.inventory.record(id, { incarnation: 'i-1', seq: 6, backends: backends('six') })).toBe(true)
  })

  it('S4.14 made just before an install ended does not hide it; the first one of a new process does, because its disk may be empty', async () => {
    const id = await put()
    const record = (incarnation: string, seq: number) => store.inventory.record(id, { incarnation, seq, backends: [], generations: {} })
    await record('i-1', 1)
    await sql`insert into intents (node_id, backend, kind, generation, op_id, plan, state, finished_at)
      values (${id}, 'llama', 'install', 7, 'op-1', '{}', 'applied', now())`.execute(connection.db)
    await record('i-1', 2)
    expect(await store.intents.installedUnlisted(BackendName.parse('llama'))).toEqual(new Set([id]))
    await sql`update nodes set incarnation = 'i-2' where id = ${id}`.execute(connection.db)
    for (const seq of [1, 2]) {
      await record('i-2', seq)
      expect(await store.intents.installedUnlisted(BackendName.parse('llama'))).toEqual(new Set())
    }
  })
})

describe('files of models that a node keeps', () => {
  const digest = (hex: string) => Digest.parse(`sha256:${hex.repeat(64)}`)
  const filesOf = async (id: NodeId): Promise<unknown> =>
    (await connection.db.selectFrom('nodes').select('files').where('id', '=', id).executeTakeFirstOrThrow()).files
  const changeOf = async (id: NodeId): Promise<unknown> =>
    (await connection.db.selectFrom('changes').select('seq').where('kind', '=', 'node').where('id', '=', id).executeTakeFirst())?.seq

  it('are stored with its inventory, and a change is recorded only when they differ', async () => {
    const id = await put()
    const kept = [
      { digest: digest('b'), size: 2 },
      { digest: digest('a'), size: 2 ** 40 },
    ]
    const say = (seq: number, files?: typeof kept) =>
      store.inventory.record(id, { incarnation: 'i-1', seq, backends: [], ...(files === undefined ? {} : { files }) })
    await say(1, kept)
    expect(await filesOf(id)).toEqual(kept.toReversed())
    const before = await changeOf(id)
    await say(2, kept.toReversed())
    expect(await changeOf(id)).toBe(before)
    // A worker that says nothing of them, or could not look, has not lost them.
    await say(3)
    expect(await filesOf(id)).toEqual(kept.toReversed())
    expect(await changeOf(id)).toBe(before)
    await say(4, [])
    expect(await filesOf(id)).toEqual([])
    expect(await changeOf(id)).not.toBe(before)
  })

  it('come with an answer too', async () => {
    const id = await put()
    const requestedAt = await store.inventory.now()
    await store.inventory.recordAnswer({ id, incarnation: 'i-1', requestedAt }, { backends: [], files: [{ digest: digest('c'), size: 7 }] })
    expect(await filesOf(id)).toEqual([{ digest: digest('c'), size: 7 }])
  })
})

describe('inventories that nodes publish', () => {
  it('are stored, and settle intents, once', async () => {
    const id = await put()
    expect(isDoubtful((await store.nodes.find(id)) ?? expect.fail())).toBe(true)
    const ending = new AbortController()
    const listen = async (): Promise<void> => {
      const listener = createInventoryReports({ inventories: store.inventory, settleByInventory, clock: systemClock, log: silentLog })
      const inbound = createInbound({ bus, receivers: { inventory: listener.receive }, log: silentLog })
      await Promise.all([inbound.run(ending.signal), listener.run(ending.signal)])
    }
    const running = [listen(), listen()]
    const say = (seq: number, more: object) =>
      worker.publish(
        nodeEvents,
        { node: id },
        { type: 'inventory', incarnation: Incarnation.parse('i-1'), seq, backends: backends('llama'), ...more },
      )
    say(3, { generations: { llama: 7 } })
    await waitFor(() => settled.length === 1, { what: 'the inventory to be told' })
    expect(settled).toMatchObject([{ node: id, list: { generations: { llama: 7 } } }])
    expect(await namesOf(id)).toEqual(['llama'])
    say(2, { backends: [] })
    say(4, { backends: [], error: 'cannot read' })
    say(5, { backends: backends('piper') })
    await waitFor(async () => (await namesOf(id))[0] === 'piper', { what: 'the newest inventory' })
    await waitFor(() => settled.length === 2, { what: 'the newest inventory to settle intents' })
    expect(isDoubtful((await store.nodes.find(id)) ?? expect.fail())).toBe(false)
    ending.abort()
    await Promise.all(running)
    expect(settled).toHaveLength(2)
  })
})

describe('queries of inventories', () => {
  const queries = () =>
    createNodeQueries({ bus, inventories: store.inventory, pulses: store.pulses, settleByInventory, clock: systemClock, log: silentLog })

  it('a list of backends shows what succeeded a moment ago, although the node has not published it yet', async () => {
    const id = await put()
    let installed = backends('llama')
    const served = worker.serve(backendList, { node: id }, () => ({ backends: installed }))
    const { nodes, available, duties, intents } = store
    const fleet = createFleetBackends({ nodes, available, duties, intents, queries: queries() })
    const listed = async (): Promise<string[]> => (await fleet.list()).map(({ name }) => name)
    await store.inventory.record(id, { incarnation: 'i-1', seq: 1, backends: installed })
    installed = backends('llama', 'piper')
    expect(await listed()).toEqual(['llama'])
    await sql`insert into intents (node_id, backend, kind, generation, op_id, plan, state, finished_at)
      values (${id}, 'piper', 'install', 8, 'op-1', '{}', 'applied', now())`.execute(connection.db)
    expect(await listed()).toEqual(['llama', 'piper'])
    installed = backends('llama')
    expect(await listed()).toEqual(['llama', 'piper'])
    await sql`update intents set kind = 'delete', finished_at = now() where node_id = ${id}`.execute(connection.db)
    expect(await listed()).toEqual(['llama'])
    await served.stop()
  })

  it('S0.23 never query pending, offline, draining or agent nodes; unhealthy ones are queried', async () => {
    const asked: NodeId[] = []
    const served = worker.serve(backendList, { node: '*' }, (_, { node }) => {
      asked.push(node)
      return { backends: backends('llama') }
    })
    await put({ approved: false })
    await put({ liveness: 'left' })
    await put({ draining: true })
    await put({ agent: true })
    const unhealthy = await put({ answering: 'no' })
    const healthy = await put()
    expect((await queries().query(await store.nodes.list())).toSorted()).toEqual([unhealthy, healthy].toSorted())
    expect(asked.toSorted()).toEqual([unhealthy, healthy].toSorted())
    expect(await statusNow(unhealthy)).toBe('healthy')
    expect(await namesOf(healthy)).toEqual(['llama'])
    await served.stop()
  })

  it('S0.24 W34 no responders makes unhealthy, other errors affect that node only, and all are queried at once', async () => {
    const [nobody, broken, hanging, agent] = [await put(), await put(), await put(), await put({ agent: true })]
    const well = await Promise.all(Array.from({ length: 3 }, () => put()))
    const hang = Promise.withResolvers<{ backends: InstalledBackend[] }>()
    const served = [
      worker.serve(backendList, { node: broken }, () => ({ backends: null, error: 'disk is gone' })),
      worker.serve(backendList, { node: hanging }, () => hang.promise),
      ...well.map((node) => worker.serve(backendList, { node }, () => ({ backends: backends('llama') }))),
    ]
    const began = performance.now()
    const one = queries()
    expect((await one.query(await store.nodes.list())).toSorted()).toEqual(well.toSorted())
    expect(performance.now() - began).toBeLessThan(boundMs(15_000))
    expect(await statusNow(nobody)).toBe('unhealthy')
    for (const id of [broken, hanging, agent, ...well]) expect(await statusNow(id), id).toBe('healthy')
    expect(settled.map(({ node }) => node).toSorted()).toEqual(well.toSorted())
    // A node that did not answer is skipped for a while: a listing does not wait for it each time.
    const again = performance.now()
    await one.query(await store.nodes.list())
    expect(performance.now() - again).toBeLessThan(boundMs(1_900))
    hang.resolve({ backends: [] })
    await Promise.all(served.map((each) => each.stop()))
  })
})
