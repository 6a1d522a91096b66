// Controllers reduced to what brings models up, on a real database and bus, and workers that do with a load what a test
// says. As many of each as wanted.
import { fileURLToPath } from 'node:url'
import { createLocalHub, type Bus } from '@muster/bus'
import { silentLog, systemClock, type Log } from '@muster/host'
import {
  heartbeat,
  Incarnation,
  modelLoad,
  ModelName,
  modelUnload,
  nodeEvents,
  NodeId,
  opCancel,
  opStatus,
  progress,
  Registration,
  type Failure,
  type LoadModel,
  type NodeEvent,
  type OperationId,
  type OpStatusReply,
  type ReplicaId,
  type ReplicaState,
} from '@muster/protocol'
import { createTestDatabase, waitFor } from '@muster/testkit'
import { sql } from 'kysely'
import { createFeed } from './feed.ts'
import { createLoads, type Loads, type LoadsDeps } from '../src/loads/create-loads.ts'
import type { LoadTransition } from '../src/loads/load-work.ts'
import { connectDatabase } from '../src/store/connect.ts'
import type { LoadRecord } from '../src/store/load-rows.ts'
import { migrate } from '../src/store/migrate.ts'
import { createStore, type Store } from '../src/store/store.ts'
import type { Database } from '../src/store/tables.ts'
import { createInbound } from '../src/work/exchange.ts'

export type LoadsWorld = Awaited<ReturnType<typeof startLoadsWorld>>
export type TestLoads = Readonly<{
  loads: Loads
  taken: LoadTransition[]
  stop(): Promise<void>
  /** Nothing of it goes on, and nobody waits for it. */ kill(): void
}>
type ReportedEvent = NodeEvent extends infer E ? (E extends NodeEvent ? Omit<E, 'incarnation' | 'seq'> : never) : never

/** A worker as far as models go: it takes every load on and does nothing more, unless told. */
export interface ModelWorker {
  readonly id: NodeId
  readonly bus: Bus
  /** Every `model.load` that came, repetitions included. */
  readonly loads: LoadModel[]
  readonly unloads: ReplicaId[]
  readonly cancels: OperationId[]
  readonly processes: Map<ReplicaId, ReplicaState>
  /** The answer to `model.load`. `silent`: none. `one_per_slot`: refuses a second process in a slot. */
  answer: 'accept' | 'silent' | 'one_per_slot' | Failure
  /** It answers nothing: as if its messages were lost. */
  isDeaf: boolean
  say(event: ReportedEvent): void
  /** The load that came last: its process is ready. */
  ready(load?: LoadModel, digest?: string): void
  /** Its backend has another version in use from now on. */
  upgrade(digest: string): Promise<void>
  fail(failure: Failure, load?: LoadModel): void
  exit(replicaId: ReplicaId, how?: object): void
  tick(load: LoadModel, bytes: { current: number; total: number; seq: number; phase?: 'downloading' | 'starting' }): void
  /** One heartbeat, with the list of its processes. */
  beat(): void
  untilLoads(count: number): Promise<LoadModel>
}

export async function startLoadsWorld({ log = silentLog }: { log?: Log } = {}) {
  const database = await createTestDatabase()
  const hub = createLocalHub({ log })
  const connect = () => connectDatabase<Database>({ to: { url: database.url }, log, applicationName: 'test' })
  const connection = connect()
  const directory = fileURLToPath(new URL('../src/store/migrations', import.meta.url))
  await migrate({ pool: connection.pool, directory, log, afterwards: async () => undefined })
  const store = createStore(connection.db)
  const stops: (() => Promise<void>)[] = []

  async function startController(options: Partial<LoadsDeps> = {}): Promise<TestLoads> {
    const own = connect()
    const taken: LoadTransition[] = []
    const bus = hub.connect()
    const ownStore = createStore(own.db)
    const loads = createLoads({
      isAssembling: async () => false,
      ...{ bus, store: ownStore, clock: systemClock, log, random: () => 0.5 },
      settings: { opStallTimeout: 4_000, reconcileInterval: 10_000, idleScaleDown: 300_000 },
      holder: `c-${stops.length}`,
      catalogue: async () => ({ galleries: [], problems: [] }),
      submissions: { install: () => Promise.reject(new Error('nothing is installed here')), submit: () => Promise.resolve(true) },
      latestProgress: () => null,
      settleProgress: async () => undefined,
      filesFor: async ({ files }) => files,
      onStep: (step) => void taken.push(step),
      step: () => undefined,
      ...options,
    })
    const receivers = { heartbeat: [loads.receiveHeartbeat], replica: loads.receiveEvent, result: { load: loads.receiveEvent } }
    const inbound = createInbound({ bus, receivers, log })
    const stopping = new AbortController()
    const feed = createFeed({ store: ownStore, log }, ({ changes }) => loads.noteChanges(new Set(changes.map(({ kind }) => kind))))
    const running = Promise.all([inbound.run(stopping.signal), loads.run(stopping.signal), feed.run(stopping.signal)])
    const stop = async (): Promise<void> => {
      stopping.abort()
      await running
      await bus.close()
      await own.close()
    }
    stops.push(stop)
    return { loads, taken, stop, kill: () => stopping.abort() }
  }

  const rowOf = async (model: string, ordinal = 0): Promise<LoadRecord | null> =>
    (await store.loads.listOfModel(model)).rows.find(({ load }) => load.ordinal === ordinal) ?? null
  return {
    ...{ store, hub, db: connection.db, startController, rowOf },
    addWorker: (name: string, more: Partial<Registration> & { backends?: readonly string[] } = {}) =>
      addWorker({ name, more }, { store, hub }),
    /** The stored configuration. */
    async addModel(name: string, more: Readonly<Record<string, unknown>> = {}, revision = 'rev-1'): Promise<ModelName> {
      const config = { name, backend: 'llama', parameters: {}, files: [], options: {}, known_usecases: [], scheduling: {}, ...more }
      await sql`
        insert into models (name, config, revision, backend) values (${name}, ${JSON.stringify(config)}::jsonb, ${revision}, ${config.backend})
        on conflict (name) do update set config = excluded.config, revision = excluded.revision, backend = excluded.backend`.execute(
        connection.db,
      )
      return ModelName.parse(name)
    },
    untilState: (model: string, state: string, { ordinal = 0, timeoutMs = 90_000 } = {}): Promise<LoadRecord> =>
      waitFor(
        async () => {
          const row = await rowOf(model, ordinal)
          return row?.load.state === state ? row : null
        },
        { what: `load ${ordinal} of ${model} to be ${state}`, timeoutMs },
      ),
    /** How a node is, as the silence sweep or an answer would say it. */
    async setPulse(id: NodeId, liveness: 'new' | 'present' | 'silent' | 'gone'): Promise<void> {
      await sql`update node_pulses set liveness = ${liveness} where node_id = ${id}`.execute(connection.db)
    },
    /** As an administrator does it. */
    async setDraining(id: NodeId, draining: boolean): Promise<void> {
      await sql`update nodes set draining = ${draining} where id = ${id}`.execute(connection.db)
    },
    /** It answered what it was asked before it gets requests. */
    async pass(id: ReplicaId): Promise<void> {
      await waitFor(
        async () => {
          const { numAffectedRows = 0n } = await sql`
            update replicas set checked = 'passed' where id = ${id} and state = 'ready' and checked = 'due'`.execute(connection.db)
          return numAffectedRows > 0n
        },
        { what: `${id} to be ready for its check` },
      )
    },
    /** A controller that routes by all changes up to this one; `all`: up to the last. */
    async routes(id: string, upTo: number | 'all'): Promise<void> {
      const seq = upTo === 'all' ? sql`coalesce((select max(seq) from changes), 0)` : sql`${upTo}::bigint`
      await sql`insert into controllers (id, url, version, routes_seq) values (${id}, 'http://x', '1', ${seq})
        on conflict (id) do update set routes_seq = excluded.routes_seq, last_seen_at = now()`.execute(connection.db)
    },
    async setModel(name: string, fields: { isUnloaded?: boolean; asked?: number }): Promise<void> {
      await sql`update models set is_unloaded = ${fields.isUnloaded ?? false}, requested_replicas = coalesce(${fields.asked ?? null}::int, requested_replicas)
        where name = ${name}`.execute(connection.db)
    },
    async clear(): Promise<void> {
      await sql`delete from models`.execute(connection.db)
      await sql`delete from nodes`.execute(connection.db)
      await sql`delete from controllers`.execute(connection.db)
      await sql`delete from file_contents`.execute(connection.db)
    },
    async [Symbol.asyncDispose](): Promise<void> {
      await Promise.all(stops.map((stop) => stop().catch(() => undefined)))
      await connection.close()
      await database.drop()
    },
  }
}

let made = 0

async function addWorker(
  { name, more }: { name: string; more: Partial<Registration> & { backends?: readonly string[] } },
  { store, hub }: { store: Store; hub: ReturnType<typeof createLocalHub> },
): Promise<ModelWorker> {
  made += 1
  const id = NodeId.parse(`n-${made}`)
  const incarnation = Incarnation.parse('i-1')
  const { backends = ['llama'], ...fields } = more
  const public_key = `U${Array.from(String(made).padStart(4, '0'), (digit) => 'ABCDEFGHIJ'[Number(digit)]).join('')}${'A'.repeat(51)}`
  const registration = Registration.parse({ name, public_key, incarnation, features: ['async'], ...fields })
  await store.nodes.insert(id, registration, { approvedBy: 'test', signedAt: new Date() })
  const bus = hub.connect()
  const resources = '{}'
  const beatOf = (seq: number) => ({ node_id: id, incarnation, in_flight: 0, seq, resources })
  await store.pulses.recordBeats([{ via: 'bus', ageMs: 0, heartbeat: beatOf(0) }])
  let seq = 10
  const nextSeq = (): number => ++seq
  const upgrade = async (digest: string): Promise<void> => {
    const listed = backends.map((backend) => ({
      ...{ name: backend, is_system: false, is_meta: false, installed_at: '', gallery_url: '', version: '1', uri: '', digest },
    }))
    await store.inventory.record(id, { incarnation, seq: nextSeq(), backends: listed as never })
  }
  await upgrade('')
  const worker = modelWorker({ id, bus, incarnation, nextSeq, upgrade })
  serve(worker)
  return worker
}

function modelWorker({
  id,
  bus,
  incarnation,
  nextSeq,
  upgrade,
}: {
  id: NodeId
  bus: Bus
  incarnation: Incarnation
  nextSeq: () => number
  upgrade: ModelWorker['upgrade']
}): ModelWorker {
  const say = (event: ReportedEvent): void => bus.publish(nodeEvents, { node: id }, { ...event, incarnation, seq: nextSeq() })
  const last = (): LoadModel => {
    const load = worker.loads.at(-1)
    if (load === undefined) throw new Error(`${id} was told to load nothing`)
    return load
  }
  const about = ({ replica_id, model, revision, op_id }: LoadModel) => ({ replica_id, model, revision, op_id, backend_digest: null })
  const worker: ModelWorker = {
    ...{ id, bus, say, upgrade, loads: [], unloads: [], cancels: [], processes: new Map(), answer: 'accept', isDeaf: false },
    ready: (load = last(), digest) => {
      worker.processes.set(load.replica_id, 'ready')
      say({ type: 'replica.ready', ...about(load), ...(digest === undefined ? {} : { backend_digest: digest as never }) })
    },
    fail: (failure, load = last()) => {
      worker.processes.delete(load.replica_id)
      if (load.op_id !== undefined) say({ type: 'op.result', op_id: load.op_id, state: 'failed', failure })
    },
    exit: (replicaId, how = {}) => {
      worker.processes.delete(replicaId)
      const load = worker.loads.find((each) => each.replica_id === replicaId) ?? last()
      say({ type: 'replica.exited', ...about(load), replica_id: replicaId, ...how })
    },
    tick: ({ op_id: op }, { phase = 'downloading', ...bytes }) => {
      if (op === undefined) return
      const percentage = (100 * bytes.current) / bytes.total
      const message = { op_id: op, node_id: id, backend: 'llama' as never, file_name: 'tiny.gguf', percentage, phase, ...bytes }
      bus.publish(progress, { node: id, op }, message)
    },
    beat: () => {
      const replicas = [...worker.processes].map(([replica_id, state]) => ({ replica_id, state, in_flight: 0 }))
      bus.publish(heartbeat, { node: id }, { node_id: id, incarnation, seq: nextSeq(), version: '1', resources: {}, replicas })
    },
    untilLoads: (count) => waitFor(() => (worker.loads.length >= count ? last() : null), { what: `${id} to get ${count} loads` }),
  }
  return worker
}

const taken: Failure = { code: 'conflict', retry: 'backoff', message: 'the slot is taken on this node: unload that one first' }

/** Two loads of one replica are one: the second joins. */
function serve(worker: ModelWorker): void {
  const { bus, id: node } = worker
  const unlessDeaf = async <T>(answer: T): Promise<T> => (worker.isDeaf ? await new Promise<never>(() => undefined) : answer)
  bus.serve(modelLoad, { node }, async (load) => {
    if (worker.isDeaf) await unlessDeaf(null)
    worker.loads.push(load)
    if (worker.answer === 'silent') return await new Promise<never>(() => undefined)
    if (worker.answer === 'one_per_slot' && [...worker.processes.keys()].some((id) => id !== load.replica_id))
      return { accepted: false as const, failure: taken }
    if (typeof worker.answer === 'object') return { accepted: false as const, failure: worker.answer }
    if (!worker.processes.has(load.replica_id) && load.stage_only !== true) worker.processes.set(load.replica_id, 'starting')
    return { accepted: true as const }
  })
  bus.serve(modelUnload, { node }, async ({ replica_id: id }) => {
    worker.unloads.push(id)
    if (worker.processes.has(id)) setImmediate(() => worker.exit(id, { expected: true }))
    return await unlessDeaf({ accepted: true as const })
  })
  const statusOf = (op_id: OperationId): OpStatusReply => {
    const load = worker.loads.findLast((each) => each.op_id === op_id)
    const state = load === undefined ? undefined : worker.processes.get(load.replica_id)
    if (state === undefined) return { op_id, state: 'unknown' }
    return state === 'ready' ? { op_id, state: 'succeeded' } : { op_id, state: 'running', phase: 'starting' }
  }
  bus.serve(opStatus, { node }, ({ op_id }) => unlessDeaf(statusOf(op_id)))
  bus.serve(opCancel, { node }, ({ op_id }) => {
    worker.cancels.push(op_id)
    return unlessDeaf(statusOf(op_id))
  })
}
