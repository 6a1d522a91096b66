// Measures the cost of an idle fleet for one controller: N nodes that heartbeat every 5 s and hold their sessions, on a real
// PostgreSQL and a real nats-server, for a minute. CPU by the kernel's count, statements by PostgreSQL's.
import { join } from 'node:path'
import {
  adminKey,
  administer,
  createApiClient,
  createProcesses,
  createTestDatabase,
  joinToken,
  makeTempDir,
  nodesOf,
  startCluster,
  startNats,
  startTestPostgres,
  waitFor,
} from '@muster/testkit'
import { costOf, costOfFamily } from './process-cost.ts'

const measureMs = Number(process.env['BENCH_SECONDS'] ?? 60) * 1_000
const sizes = (process.env['BENCH_NODES'] ?? '500,2000,8000').split(',').map(Number)

interface Row {
  readonly nodes: number
  readonly 'controller CPU %': string
  readonly 'PostgreSQL CPU %': string
  readonly 'statements/s': string
  readonly 'rows written/s': string
  readonly 'controller MB': string
  readonly healthy: number
}

async function measure(nodes: number): Promise<Row> {
  const processes = createProcesses()
  await using directory = await makeTempDir('bench')
  await using nats = await startNats()
  await using postgres = await startTestPostgres({ durability: 'disk' })
  await using database = await createTestDatabase({ serverUrl: postgres.url() })
  try {
    const cluster = await startCluster({
      processes,
      directory: directory.path,
      databaseUrl: database.url,
      natsUrl: nats.url,
      controllers: 1,
      args: ['--auto-approve'],
    })
    const [controller] = cluster.controllers
    if (controller === undefined) throw new Error('one controller was asked for')
    const fleet = await processes.start('node', {
      args: [
        join(import.meta.dirname, 'simulated-fleet.ts'),
        '--url',
        controller.url,
        '--nats',
        nats.url,
        '--count',
        String(nodes),
        '--interval',
        '5000',
      ],
      env: { MUSTER_JOIN_TOKEN: joinToken },
    })
    await fleet.waitForOutput(/joined/, 300_000)
    const api = createApiClient(controller.url, adminKey)
    const healthy = async (): Promise<number> => (await nodesOf(api)).filter((node) => node.status === 'healthy').length
    await waitFor(async () => (await healthy()) === nodes, { what: 'all nodes to be healthy', timeoutMs: 60_000 })

    const before = {
      controller: costOf(controller.process.pid),
      postgres: costOfFamily(postgres.pid),
      counts: await countsOf(database.url),
      at: performance.now(),
    }
    await new Promise((resolve) => setTimeout(resolve, measureMs))
    const seconds = (performance.now() - before.at) / 1_000
    const after = { controller: costOf(controller.process.pid), postgres: costOfFamily(postgres.pid), counts: await countsOf(database.url) }
    const percent = (used: number): string => ((100 * used) / seconds).toFixed(1)
    return {
      nodes,
      'controller CPU %': percent(after.controller.cpuSeconds - before.controller.cpuSeconds),
      'PostgreSQL CPU %': percent(after.postgres.cpuSeconds - before.postgres.cpuSeconds),
      'statements/s': ((after.counts.transactions - before.counts.transactions) / seconds).toFixed(1),
      'rows written/s': ((after.counts.updated - before.counts.updated) / seconds).toFixed(0),
      'controller MB': (after.controller.rssBytes / 1e6).toFixed(0),
      healthy: await healthy(),
    }
  } finally {
    await processes.stopAll()
  }
}

/** Outside of transactions every statement is one; a controller at rest opens none. */
async function countsOf(url: string): Promise<{ transactions: number; updated: number }> {
  const query =
    'select xact_commit + xact_rollback as transactions, tup_updated as updated from pg_stat_database where datname = current_database()'
  const { rows } = await administer(url, (client) => client.query<{ transactions: string; updated: string }>(query))
  return { transactions: Number(rows[0]?.transactions), updated: Number(rows[0]?.updated) }
}

const rows: Row[] = []
for (const nodes of sizes) rows.push(await measure(nodes))
console.table(rows)
