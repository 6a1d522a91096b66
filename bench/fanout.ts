// One operation over N nodes: from the POST to its end on all of them, when each needs 100 ms. A real controller as a
// process, a real PostgreSQL that syncs to disk, a real nats-server; the nodes are simulated in a process of their own.
import { join } from 'node:path'
import {
  administer,
  createProcesses,
  createTestDatabase,
  joinToken,
  makeTempDir,
  nodesOf,
  startCluster,
  startNats,
  startTestPostgres,
  waitFor,
  type ApiClient,
} from '@muster/testkit'
import { costOf, costOfFamily } from './process-cost.ts'

const sizes = (process.env['BENCH_NODES'] ?? '10,100,1000').split(',').map(Number)
const rounds = Number(process.env['BENCH_ROUNDS'] ?? 5)
const workMs = 100

interface Row {
  readonly nodes: number
  readonly 'median s': string
  readonly 'all s': string
  readonly 'statements/node': string
  readonly 'controller CPU ms/node': string
  readonly 'PostgreSQL CPU ms/node': string
}

async function measure(nodes: number): Promise<Row> {
  const processes = createProcesses()
  await using directory = await makeTempDir('bench')
  await using nats = await startNats()
  await using postgres = await startTestPostgres({ durability: 'disk' })
  await using database = await createTestDatabase({ serverUrl: postgres.url() })
  try {
    const cluster = await startCluster({
      ...{ processes, directory: directory.path, databaseUrl: database.url, natsUrl: nats.url, controllers: 1 },
      args: ['--auto-approve'],
    })
    const [controller] = cluster.controllers
    if (controller === undefined) throw new Error('one controller was asked for')
    const fleet = await processes.start('node', {
      args: [
        join(import.meta.dirname, 'simulated-fleet.ts'),
        ...['--url', controller.url, '--nats', nats.url, '--count', String(nodes), '--interval', '5000', '--work', String(workMs)],
      ],
      env: { MUSTER_JOIN_TOKEN: joinToken },
    })
    await fleet.waitForOutput(/joined/, 300_000)
    const { api } = controller
    const healthy = async (): Promise<number> => (await nodesOf(api)).filter((node) => node.status === 'healthy').length
    await waitFor(async () => (await healthy()) === nodes, { what: 'all nodes to be healthy', timeoutMs: 60_000 })

    await runOnce(api, -1) // what is compiled and planned once is not counted
    const before = {
      controller: costOf(controller.process.pid),
      postgres: costOfFamily(postgres.pid),
      transactions: await transactionsOf(database.url),
    }
    const times: number[] = []
    for (let round = 0; round < rounds; round += 1) times.push(await runOnce(api, round))
    const after = {
      controller: costOf(controller.process.pid),
      postgres: costOfFamily(postgres.pid),
      transactions: await transactionsOf(database.url),
    }
    const perNode = (total: number): number => total / rounds / nodes
    return {
      nodes,
      'median s': (median(times) / 1_000).toFixed(2),
      'all s': times.map((ms) => (ms / 1_000).toFixed(2)).join(' '),
      'statements/node': perNode(after.transactions - before.transactions).toFixed(2),
      'controller CPU ms/node': perNode(1_000 * (after.controller.cpuSeconds - before.controller.cpuSeconds)).toFixed(2),
      'PostgreSQL CPU ms/node': perNode(1_000 * (after.postgres.cpuSeconds - before.postgres.cpuSeconds)).toFixed(2),
    }
  } finally {
    await processes.stopAll()
  }
}

/** A new backend each time: what is there would be done at once. */
async function runOnce(api: ApiClient, round: number): Promise<number> {
  const name = `backend-${round + 1}`
  const began = performance.now()
  const answer = await api.post('/api/backends/install', { uri: `file:///${name}`, name })
  if (answer.status !== 202) throw new Error(`install: ${answer.status} ${answer.text}`)
  const path = `/api/operations/${String(answer.body['operation_id'])}`
  const hasSucceeded = async (): Promise<boolean> => (await api.get(path)).body['state'] === 'succeeded'
  await waitFor(hasSucceeded, { what: 'the operation to succeed', timeoutMs: 120_000 })
  return performance.now() - began
}

const median = (values: readonly number[]): number => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN

/** Includes the statements of the heartbeats, about five a second. */
async function transactionsOf(url: string): Promise<number> {
  const query = 'select xact_commit + xact_rollback as transactions from pg_stat_database where datname = current_database()'
  const { rows } = await administer(url, (client) => client.query<{ transactions: string }>(query))
  return Number(rows[0]?.transactions)
}

const rows: Row[] = []
for (const nodes of sizes) rows.push(await measure(nodes))
console.table(rows)
