// Where a model goes, and which replica gets a request. Deciding alone (pure), with what is known of up to 10,000 nodes; the
// same with what a database has to say first; and choosing among the replicas of a model, with 1,000 models in the table.
// Medians of several rounds of many decisions, with the best round beside them.
import { Secret, silentLog, systemClock } from '@muster/host'
import { Incarnation, ModelConfig, ModelName, NodeId, Registration, ReplicaId } from '@muster/protocol'
import { createTestDatabase, startTestPostgres, waitFor } from '@muster/testkit'
import { Client } from 'pg'
import { choosePlacement, type Candidate, type PlacementModel } from '../packages/controller/src/placement/placement.pure.ts'
import { createPlacer } from '../packages/controller/src/placement/placer.ts'
import { needOf, unknownMemory } from '../packages/controller/src/placement/memory.pure.ts'
import { type LiveReplica, noMemory } from '../packages/controller/src/placement/room.pure.ts'
import { chooseReplica } from '../packages/controller/src/routing/replica-choice.pure.ts'
import { ReplicaTable } from '../packages/controller/src/routing/replica-table.ts'
import { connectDatabase } from '../packages/controller/src/store/connect.ts'
import { migrate } from '../packages/controller/src/store/migrate.ts'
import type { ReadyReplica } from '../packages/controller/src/store/routes.ts'
import { createStore } from '../packages/controller/src/store/store.ts'
import type { Database } from '../packages/controller/src/store/tables.ts'

const rounds = Number(process.env['BENCH_ROUNDS'] ?? 5)
const storedNodes = Number(process.env['BENCH_NODES'] ?? 2_000)
const sizes = [10, 1_000, 10_000]
const gb = 1e9

type Figure = Readonly<{ median: number; best: number }>
const median = (values: readonly number[]): number => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0

/** Milliseconds that one takes. A warm-up round does not count. */
async function measure(times: number, act: (at: number) => unknown): Promise<Figure> {
  const found: number[] = []
  for (let round = 0; round <= rounds; round += 1) {
    const took: number[] = []
    for (let at = 0; at < times; at += 1) {
      const began = performance.now()
      await act(at)
      took.push(performance.now() - began)
    }
    if (round > 0) found.push(median(took))
  }
  return { median: median(found), best: Math.min(...found) }
}

/** Milliseconds of processor time, its garbage collector included, that one of many takes: what others do meanwhile does not count. */
function measureMany(times: number, act: (at: number) => unknown): Figure {
  const found = Array.from({ length: rounds + 1 }, () => {
    const began = process.cpuUsage()
    for (let at = 0; at < times; at += 1) act(at)
    const { user, system } = process.cpuUsage(began)
    return (user + system) / 1000 / times
  }).slice(1)
  return { median: median(found), best: Math.min(...found) }
}

const shown = ({ median: usual, best }: Figure): string =>
  best < 0.1 ? `${(usual * 1000).toFixed(2)} µs (best ${(best * 1000).toFixed(2)})` : `${usual.toFixed(2)} ms (best ${best.toFixed(2)})`
const row = (...cells: readonly string[]): void => console.log(`| ${cells.join(' | ')} |`)
const header = (...cells: readonly string[]): void => {
  row(...cells)
  row(...cells.map(() => '---'))
}

const replicaOn = (node: number): LiveReplica => ({
  ...{
    id: ReplicaId.parse(`r-${node}`),
    model: `m-${node % 1_000}`,
    state: 'ready',
    isServing: true,
    need: { ram: 0, vram: 12 * gb },
    card: null,
    isReported: true,
    isCurrent: true,
  },
  ...{ hasLoad: true, priority: node % 3, min: 0, desired: 20, isSpread: false, readyMs: 1e6, unusedMs: node, inFlight: 0 },
})
const candidateOf = (node: number): Candidate => ({
  ...{
    id: NodeId.parse(`n-${node}`),
    name: `node-${node}`,
    nodeType: 'backend',
    status: 'healthy',
    statusReason: '',
    isArriving: false,
    runsModels: true,
  },
  labels: { 'node.os': 'linux', 'node.arch': 'amd64', zone: node % 2 === 0 ? 'a' : 'b', 'gpu.vendor': 'nvidia' },
  ...{
    hasBackend: node % 4 !== 0,
    isUnloaded: false,
    installId: null,
    unfit: null,
    artifactSize: gb,
    files: new Set<string>(),
    availableDisk: 100 * gb,
    awaitedDisk: 0,
  },
  ...{
    ram: { total: null, available: null },
    vram: { total: 24 * gb, available: 12 * gb },
    hasSharedMemory: false,
    device: 'gpu',
    cards: [],
    maxReplicas: 8,
    maxReplicasPerModel: null,
    replicas: [replicaOn(node)],
    vacatedMemory: noMemory,
    pendingMemory: noMemory,
  },
})
const modelOf = (size: number): PlacementModel => ({
  ...{ name: ModelName.parse('new'), backend: 'llama', selector: { zone: 'a' }, files: [{ digest: null, size }], priority: 2 },
  memory: { ...unknownMemory, gpu: { ram: 0, vram: needOf([size]) } },
  ...{ isStaging: false, isSpread: false, avoid: null, pin: null, diskCheck: 'refuse' },
})

function decide(): void {
  console.log('\nplacing one model, decided in memory (processor time)')
  header('nodes', 'half of them fit', 'none fits, room is made')
  for (const count of sizes) {
    const nodes = Array.from({ length: count }, (_, node) => candidateOf(node))
    const [fits, full] = [modelOf(5 * gb), modelOf(15 * gb)]
    if (choosePlacement(fits, nodes).nodes[0]?.eligible !== true || choosePlacement(full, nodes).eviction === null)
      throw new Error('that is not what was to be measured')
    const times = 500_000 / count
    row(
      String(count),
      shown(measureMany(times, () => choosePlacement(fits, nodes))),
      shown(measureMany(times, () => choosePlacement(full, nodes))),
    )
  }
}

async function connectTo(connectionString: string) {
  const client = new Client({ connectionString })
  await client.connect()
  return { client, [Symbol.asyncDispose]: () => client.end() }
}

async function decideStored(): Promise<void> {
  await using postgres = await startTestPostgres()
  const database = await createTestDatabase({ serverUrl: postgres.url() })
  const connection = connectDatabase<Database>({ to: { url: database.url }, log: silentLog, applicationName: 'bench' })
  const directory = new URL('../packages/controller/src/store/migrations', import.meta.url).pathname
  await migrate({ pool: connection.pool, directory, log: silentLog, afterwards: async () => undefined })
  const store = createStore(connection.db)
  const incarnation = Incarnation.parse('i-1')
  for (let node = 0; node < storedNodes; node += 1) {
    const letters = Array.from(String(node).padStart(8, '0'), (digit) => 'ABCDEFGHIJ'[Number(digit)]).join('')
    const public_key = `U${letters}${'A'.repeat(47)}`
    const registration = Registration.parse({ name: `node-${node}`, public_key, incarnation, features: ['async'] })
    await store.nodes.insert(NodeId.parse(`n-${node}`), registration, { approvedBy: 'bench', signedAt: new Date() })
  }
  const files = JSON.stringify(Array.from({ length: 20 }, (_, at) => ({ digest: `sha256:${String(at).padStart(64, '0')}`, size: 5 * gb })))
  const config = ModelConfig.parse({
    ...{ name: 'new', backend: 'llama', scheduling: { node_selector: { 'node.name': '*' } } },
    files: [{ uri: 'https://example.com/x', filename: 'x', sha256: '7'.padStart(64, '0') }],
  })
  await using filling = await connectTo(database.url)
  const run = (statement: string, values: unknown[] = []) => filling.client.query(statement, values)
  // Nobody listens to what changes.
  await run('set session_replication_role = replica')
  await run(`update nodes set inventory = '[{"name":"llama"}]', files = $1::jsonb`, [files])
  await run(`update node_pulses set liveness = 'present', last_seen_at = now(), resources = $1::jsonb`, [
    JSON.stringify({ total_ram: 64 * gb }),
  ])
  await run(
    `insert into models (name, config, revision, backend)
     select 'm-' || i, jsonb_set($1::jsonb, '{name}', to_jsonb('m-' || i)), 'v1', 'llama' from generate_series(1, 1000) i`,
    [JSON.stringify(config)],
  )
  await run(
    `insert into replicas (id, model, revision, slot, node_id, backend, config, state, ready_at)
     select 'r-' || i, 'm-' || (1 + i % 1000), 'v1', i / 1000, 'n-' || (i % $1::int), 'llama', $2::jsonb, 'ready', now()
     from generate_series(1, 3000) i`,
    [storedNodes, JSON.stringify(config)],
  )
  await run('analyze')
  const catalogue = async () => ({ galleries: [], problems: [] })
  const place = createPlacer({ placement: store.placement, catalogue, inFlight: () => 0 })
  console.log(`\nplacing one model, with ${storedNodes} nodes (20 files each) and 3,000 replicas in a database (by the clock)`)
  header('what', 'takes')
  const wanted = { config, purpose: 'serve', avoid: null, pin: null } as const
  row('reading and deciding', shown(await measure(10, async () => await place(wanted))))
  row('of that, the replicas', shown(await measure(10, async () => await store.placement.replicas())))
  const about = { model: 'tiny', backend: 'llama', digests: [`sha256:${'7'.padStart(64, '0')}`] }
  row('of that, the nodes', shown(await measure(10, async () => await store.placement.nodes(about))))
  await connection.close()
  await database.drop()
}

const models = 1_000

function readyOn(at: number, nodes: number): ReadyReplica {
  const node = NodeId.parse(`n-${at % nodes}`)
  return {
    ...{ id: ReplicaId.parse(`r-${at}`), model: `m-${at % models}`, revision: 'v1' },
    node: {
      ...{ id: node, name: node, gatewayUrl: 'http://10.0.0.1:9000', gatewaySecret: new Secret('s') },
      ...{ approved: true, draining: false, liveness: 'present', answering: 'yes', lastSeenAt: null },
    },
  }
}

async function route(): Promise<void> {
  console.log(`\nchoosing one of 3 replicas of a model, with ${models} models in the table (processor time)`)
  header('nodes', 'fewest in flight', 'by prefix')
  for (const nodes of [10, 10_000]) {
    const table = new ReplicaTable({
      routes: {
        models: async () =>
          Array.from({ length: models }, (_, at) => ({ name: `m-${at}`, createdAt: '', policy: 'prefix' as const, isDisabled: false })),
        replicas: async () => Array.from({ length: 3 * models }, (_, at) => readyOn(at, nodes)),
      },
      ...{ feedCursor: () => 0, onRead: () => undefined, controllerId: 'c', clock: systemClock, log: silentLog },
    })
    const stopping = new AbortController()
    const running = table.run(stopping.signal)
    await waitFor(() => table.isLoaded, { what: 'the table' })
    const names = Array.from({ length: models }, (_, at) => `m-${at}`)
    const inFlight = new Map(Array.from({ length: 3 * models }, (_, at) => [`r-${at}`, at % 3]))
    const pick = (at: number, key: number | null) => {
      const candidates = table.find(names[at % models] ?? '')?.replicas ?? []
      return chooseReplica({
        ...{ candidates, turn: at, key },
        inFlight: ({ replicaId }) => inFlight.get(replicaId) ?? 0,
        isExcluded: () => false,
        markOf: ({ mark }) => mark,
      })
    }
    if (pick(1, null) === null) throw new Error('there is nobody to choose')
    row(String(nodes), shown(measureMany(200_000, (at) => pick(at, null))), shown(measureMany(200_000, (at) => pick(at, at))))
    stopping.abort()
    await running
  }
}

decide()
await route()
await decideStored()
