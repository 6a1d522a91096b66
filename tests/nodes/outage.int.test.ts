// Outages of NATS and PostgreSQL: no node is marked dead for them.
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import {
  boundMs,
  createProcesses,
  createTestDatabase,
  isLongRun,
  joinToken,
  makeTempDir,
  nodesOf,
  startCluster,
  startNats,
  startTestPostgres,
  waitFor,
  type ApiClient,
  type NatsServer,
  type StartedProcess,
  type TestPostgres,
} from '@muster/testkit'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'

const fleetSize = 50
/** Longer than the node timeout, or the outage would prove nothing. */
const { natsAwayMs, databaseAwayMs, settleMs, timeouts } = isLongRun
  ? { natsAwayMs: 30_000, databaseAwayMs: 10_000, settleMs: 20_000, timeouts: [] }
  : { natsAwayMs: 8_000, databaseAwayMs: 6_000, settleMs: 5_000, timeouts: ['--heartbeat-interval', '1s', '--node-timeout', '4s'] }
const processes = createProcesses()
let nats: NatsServer
let postgres: TestPostgres
let fleet: StartedProcess
let apis: ApiClient[] = []
let controllers: Awaited<ReturnType<typeof startCluster>>['controllers']
const endings: (() => Promise<unknown>)[] = [() => processes.stopAll()]

beforeAll(async () => {
  const directory = await makeTempDir()
  nats = await startNats()
  postgres = await startTestPostgres({ version: 18, durability: 'disk' })
  endings.push(
    () => nats.stop(),
    () => postgres.stop(),
    () => directory.remove(),
  )
  const database = await createTestDatabase({ serverUrl: postgres.url('postgres') })
  const cluster = await startCluster({
    processes,
    directory: directory.path,
    databaseUrl: database.url,
    natsUrl: nats.url,
    controllers: 2,
    args: ['--auto-approve', ...timeouts],
  })
  controllers = cluster.controllers
  apis = controllers.map((controller) => controller.api)
  fleet = await processes.start('node', {
    args: [
      join(import.meta.dirname, '../../packages/testkit/src/many-workers.ts'),
      '--join',
      apis[0]?.url ?? '',
      '--count',
      String(fleetSize),
      '--directory',
      directory.path,
    ],
    env: { MUSTER_TOKEN: joinToken },
  })
  await waitFor(allHealthy, { what: 'the whole fleet to be healthy' })
})
afterAll(async () => {
  for (const end of endings) await end()
})

async function allHealthy(): Promise<boolean> {
  const views = await Promise.all(apis.map(nodesOf))
  return views.every((nodes) => nodes.length === fleetSize && nodes.every((node) => node.status === 'healthy'))
}

/** Looks at both controllers all the time until told to stop; what it saw besides `healthy`. */
function watch(): { stop: () => Promise<string[]> } {
  const bad: string[] = []
  let isOver = false
  const looking = (async () => {
    while (!isOver) {
      for (const api of apis) {
        const nodes = await nodesOf(api).catch(() => []) // the database is away: 503, which shows nothing
        bad.push(...nodes.filter((node) => node.status !== 'healthy').map((node) => `${node.name} ${node.status}: ${node.status_reason}`))
      }
      await delay(100) // a look ten times a second
    }
  })()
  return {
    stop: async () => {
      isOver = true
      await looking
      return bad
    },
  }
}

async function until(moment: number): Promise<void> {
  await waitFor(() => Date.now() >= moment, { what: 'the outage to last' })
}

describe(`under ${fleetSize} workers`, () => {
  it('C1 C2 an outage of NATS marks no node dead, and all are healthy within 10 s after it returns', async () => {
    const watching = watch()
    await nats.kill('SIGKILL')
    const killedAt = Date.now()
    await waitFor(async () => (await apis[0]?.get('/readyz'))?.status === 503, { what: '/readyz to say that the bus is away' })
    expect((await apis[0]?.get('/healthz'))?.status).toBe(200)
    await until(killedAt + natsAwayMs)
    await nats.restart()
    const back = Date.now()
    await waitFor(async () => (await allHealthy()) && (await apis[0]?.get('/readyz'))?.status === 200, {
      what: 'all to be healthy again',
      timeoutMs: boundMs(10_000),
    })
    // One node timeout later silence counts again: a node that did not come back would be shown now.
    await until(back + settleMs)
    expect(await allHealthy()).toBe(true)
    expect(await watching.stop()).toEqual([])
  })

  it('D2 an outage of PostgreSQL marks no node dead, and all are healthy within 10 s after it returns', async () => {
    const watching = watch()
    postgres.kill('SIGKILL')
    const killedAt = Date.now()
    await waitFor(async () => (await apis[1]?.get('/api/nodes'))?.status === 503, { what: 'the API to say 503' })
    expect((await apis[1]?.get('/api/nodes'))?.headers.get('retry-after')).toMatch(/^\d+$/)
    expect((await apis[1]?.get('/healthz'))?.status).toBe(200)
    await until(killedAt + databaseAwayMs)
    await postgres.restart()
    const back = Date.now()
    await waitFor(async () => (await allHealthy()) && (await apis[1]?.get('/readyz'))?.status === 200, {
      what: 'all to be healthy again',
      timeoutMs: boundMs(10_000),
    })
    await until(back + settleMs)
    expect(await allHealthy()).toBe(true)
    expect(await watching.stop()).toEqual([])
  })

  it('no process ended', () => {
    expect(fleet.hasExited(), fleet.output()).toBe(false)
    expect(fleet.stderr()).not.toMatch(/ended/)
    for (const controller of controllers) expect(controller.process.hasExited(), controller.process.output()).toBe(false)
  })
})
