// How long `npm start` takes on a warm clone until /readyz is 200 and its node is healthy, first start and later
// starts; and what an idle controller and an idle worker hold in memory, each in a process of its own.
import { join } from 'node:path'
import {
  adminKey,
  createApiClient,
  createProcesses,
  createTestDatabase,
  freePort,
  joinToken,
  makeTempDir,
  nodesOf,
  startCluster,
  startNats,
  startTestPostgres,
  waitFor,
} from '@muster/testkit'
import { readFile, rm } from 'node:fs/promises'
import { costOf } from './process-cost.ts'

const rounds = 5
const median = (values: readonly number[]): number => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0

async function startOnce(dataDir: string): Promise<number> {
  await using processes = createProcesses()
  const port = await freePort()
  const began = performance.now()
  const started = await processes.start('npm', {
    args: ['start', '--', '--port', String(port), '--data-dir', dataDir],
    stopTimeoutMs: 20_000,
  })
  const isUp = async (): Promise<boolean> => {
    if (started.hasExited()) throw new Error(started.output())
    const key = (await readFile(join(dataDir, 'admin.key'), 'utf8')).trim()
    const api = createApiClient(`http://127.0.0.1:${port}`, key)
    return (await api.get('/readyz')).status === 200 && (await nodesOf(api)).some((node) => node.status === 'healthy')
  }
  await waitFor(isUp, { what: 'a healthy node', timeoutMs: 30_000 })
  return (performance.now() - began) / 1_000
}

/** As root the database's files are elsewhere, since its server can't be root. */
async function removeServerFiles(dataDir: string): Promise<void> {
  const location = await readFile(join(dataDir, 'postgres', 'location.json'), 'utf8').catch(() => null)
  if (location !== null)
    await rm(join('/var/lib/muster-postgres', (JSON.parse(location) as { id: string }).id), { recursive: true, force: true })
}

async function starts(): Promise<{ first: number; later: number }> {
  await using directory = await makeTempDir('bench')
  const [first, later]: [number[], number[]] = [[], []]
  for (let round = 0; round < rounds; round += 1) {
    const dataDir = join(directory.path, `data-${round}`)
    first.push(await startOnce(dataDir))
    later.push(await startOnce(dataDir))
    await removeServerFiles(dataDir)
  }
  return { first: median(first), later: median(later) }
}

async function idleMemory(): Promise<{ controller: number; worker: number }> {
  await using processes = createProcesses()
  await using directory = await makeTempDir('bench')
  await using nats = await startNats()
  await using postgres = await startTestPostgres()
  await using database = await createTestDatabase({ serverUrl: postgres.url() })
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
  const worker = await cluster.startWorker({ name: 'idle', join: controller.url, token: joinToken })
  const api = createApiClient(controller.url, adminKey)
  await waitFor(async () => (await nodesOf(api)).some((node) => node.status === 'healthy'), { what: 'a healthy node' })
  await new Promise((resolve) => setTimeout(resolve, 30_000))
  return { controller: costOf(controller.process.pid).rssBytes / 1e6, worker: costOf(worker.pid).rssBytes / 1e6 }
}

const [time, memory] = [await starts(), await idleMemory()]
console.table([
  { figure: 'npm start to a healthy node, first start (s)', median: time.first.toFixed(2) },
  { figure: 'npm start to a healthy node, later starts (s)', median: time.later.toFixed(2) },
  { figure: 'idle controller after 30 s (MB resident)', median: memory.controller.toFixed(0) },
  { figure: 'idle worker after 30 s (MB resident)', median: memory.worker.toFixed(0) },
])
