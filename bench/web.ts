// The web page with a large fleet: when it shows something, what keeps it from answering, and what it holds. A real
// controller as a process, a real PostgreSQL and nats-server, nodes simulated in a process of their own that heartbeat and
// carry out operations, and a real browser (Debian's chromium) that goes through the lists while nodes change.
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import {
  createProcesses,
  createTestDatabase,
  joinToken,
  makeTempDir,
  nodesOf,
  openBrowser,
  startCluster,
  startNats,
  startTestPostgres,
  waitFor,
  type ApiClient,
} from '@muster/testkit'

type BrowserContext = Awaited<ReturnType<Awaited<ReturnType<typeof openBrowser>>['newContext']>>
type Page = Awaited<ReturnType<BrowserContext['newPage']>>
type Debugger = Awaited<ReturnType<BrowserContext['newCDPSession']>>

const nodes = Number(process.env['BENCH_NODES'] ?? 500)
const operations = Number(process.env['BENCH_OPERATIONS'] ?? 200)
const seconds = Number(process.env['BENCH_SECONDS'] ?? 20)
const changesPerSecond = 10

interface Row {
  readonly page: string
  readonly rows: number
  readonly 'first paint ms': number
  readonly 'rows shown ms': number
  readonly 'scrolling: tasks > 50 / 100 ms, longest': string
  readonly [changes: `${number} changes/s: tasks > 50 / 100 ms, longest`]: string
  readonly 'heap MB': string
}

// As text: this file knows no browser's types.
const observe = `
  globalThis.longTasks = []
  new PerformanceObserver((list) => { for (const { duration } of list.getEntries()) longTasks.push(duration) }).observe({ type: 'longtask', buffered: true })
`

async function measure(context: BrowserContext, address: string): Promise<Row> {
  const page = await context.newPage()
  const debug = await context.newCDPSession(page)
  await page.goto(address)
  await page.locator('[data-row]').first().waitFor({ timeout: 60_000 })
  const shown = await page.evaluate<number>('performance.now()')
  const painted = await page.evaluate<number>(`performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? -1`)
  await takeTasks(page)
  await scrollThrough(page)
  const scrolling = await takeTasks(page)
  await change(new URL(address).origin)
  const changing = await takeTasks(page)
  const rows = await page.locator('[data-row]').count()
  const heap = await heapOf(debug)
  await page.close()
  return {
    page: new URL(address).pathname,
    rows,
    'first paint ms': Math.round(painted),
    'rows shown ms': Math.round(shown),
    'scrolling: tasks > 50 / 100 ms, longest': say(scrolling),
    [`${changesPerSecond} changes/s: tasks > 50 / 100 ms, longest`]: say(changing),
    'heap MB': (heap / 1e6).toFixed(1),
  }
}

const takeTasks = (page: Page): Promise<number[]> => page.evaluate<number[]>('longTasks.splice(0)')
const say = (tasks: readonly number[]): string =>
  `${tasks.length} / ${tasks.filter((ms) => ms > 100).length}, ${Math.round(Math.max(0, ...tasks))} ms`

/** Downwards by what a wheel turns, 40 times a second, to the end and back. */
async function scrollThrough(page: Page): Promise<void> {
  await page.mouse.move(640, 400)
  for (const by of [400, -400])
    for (let at = -1, now = 0; at !== now;) {
      at = now
      for (let turn = 0; turn < 5; turn += 1) {
        await page.mouse.wheel(0, by)
        await delay(25)
      }
      now = await page.evaluate<number>('scrollY')
    }
}

let api: ApiClient
/** Labels of nodes, one after the other: each is a change of a row that is stored, told and drawn. */
async function change(origin: string): Promise<void> {
  const all = await nodesOf(api)
  const until = performance.now() + 1_000 * seconds
  for (let index = 0; performance.now() < until; index += 1) {
    const { id } = all[(index * 37) % all.length] ?? { id: '' }
    const { status, text } = await api.patch(`/api/nodes/${id}/labels`, { round: String(index) })
    if (status !== 200) throw new Error(`${origin} ${status} ${text}`)
    await delay(1_000 / changesPerSecond)
  }
}

async function heapOf(debug: Debugger): Promise<number> {
  await debug.send('HeapProfiler.collectGarbage')
  await debug.send('Performance.enable')
  const { metrics } = await debug.send('Performance.getMetrics')
  return metrics.find(({ name }) => name === 'JSHeapUsedSize')?.value ?? Number.NaN
}

/** Each on three nodes. */
async function operate(ids: readonly string[]): Promise<void> {
  for (let index = 0; index < operations; index += 1) {
    const meant = [0, 1, 2].map((more) => ids[(index * 3 + more) % ids.length])
    const name = `backend-${index}`
    const { status, text } = await api.post('/api/backends/install', { uri: `file:///${name}`, name, nodes: meant })
    if (status !== 202) throw new Error(`install: ${status} ${text}`)
  }
  const ended = async (): Promise<boolean> =>
    ((await api.get('/api/operations?state=active')).body['operations'] as unknown as object[]).length === 0
  await waitFor(ended, { what: 'the operations to end', timeoutMs: 120_000 })
}

const processes = createProcesses()
await using directory = await makeTempDir('bench')
await using nats = await startNats()
await using postgres = await startTestPostgres()
await using database = await createTestDatabase({ serverUrl: postgres.url() })
try {
  const cluster = await startCluster({
    ...{ processes, directory: directory.path, databaseUrl: database.url, natsUrl: nats.url, controllers: 1 },
    args: ['--auto-approve', '--node-timeout', '60s'],
  })
  const [controller] = cluster.controllers
  if (controller === undefined) throw new Error('one controller was asked for')
  api = controller.api
  const fleet = await processes.start('node', {
    args: [
      join(import.meta.dirname, 'simulated-fleet.ts'),
      ...['--url', controller.url, '--nats', nats.url, '--count', String(nodes), '--interval', '5000', '--work', '100'],
    ],
    env: { MUSTER_JOIN_TOKEN: joinToken },
  })
  await fleet.waitForOutput(/joined/, 300_000)
  const healthy = async (): Promise<boolean> => (await nodesOf(api)).filter(({ status }) => status === 'healthy').length === nodes
  await waitFor(healthy, { what: 'all nodes to be healthy', timeoutMs: 120_000 })
  await operate((await nodesOf(api)).map(({ id }) => id))
  await using browser = await openBrowser()
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 } })
  await context.addInitScript(observe)
  const first = await context.newPage()
  await first.goto(String((await api.post('/api/login-links', {})).body['url']))
  await first.locator('h1').first().waitFor({ timeout: 60_000 })
  await first.close()
  const rows: Row[] = []
  for (const path of ['/nodes', '/operations?tab=history']) rows.push(await measure(context, `${controller.url}${path}`))
  for (const row of rows) console.table(row)
} finally {
  await processes.stopAll()
}
