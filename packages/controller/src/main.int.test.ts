// How a controller begins and ends when something is in its way.
import { readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { createLocalHub } from '@muster/bus'
import { openDataDir, resolveSettings, silentLog, systemClock, type Clock, type Log } from '@muster/host'
import { boundMs, createTestDatabase, makeTempDir, startNats, startTestController, startTestPostgres, waitFor } from '@muster/testkit'
import { Client } from 'pg'
import { expect, it } from 'vitest'
import { startController } from './main.ts'
import { listProcesses, worksOn } from './postgres/postmaster.ts'
import { defaultSystemBase } from './postgres/home.ts'
import { controllerSettings } from './settings.ts'

const settingsFor = (databaseUrl?: string) =>
  resolveSettings(controllerSettings, {
    flags: { port: '0' },
    env: databaseUrl === undefined ? {} : { MUSTER_DATABASE_URL: databaseUrl },
  })

const familyOf = (server: number): number[] => [server, ...listProcesses().flatMap(({ pid, parent }) => (parent === server ? [pid] : []))]

/** Where the embedded server's files are: as root not in the data directory, so they don't go with it. */
async function homeOf(dataDir: string): Promise<string> {
  const location = await readFile(join(dataDir, 'postgres', 'location.json'), 'utf8').catch(() => null)
  return location === null ? join(dataDir, 'postgres') : join(defaultSystemBase, (JSON.parse(location) as { id: string }).id)
}
const removeHome = async (dataDir: string): Promise<void> => await rm(await homeOf(dataDir), { recursive: true, force: true })

it('a failed loop is reported with its cause, and the controller is not ready any more', async () => {
  await using directory = await makeTempDir('main')
  await using database = await createTestDatabase()
  await using dataDir = await openDataDir({ path: directory.path, role: 'controller' })
  const bug = new Error('a bug in a loop')
  let isBroken = false
  let aheadMs = 0
  const clock: Clock = {
    ...systemClock,
    monotonic: () => {
      if (isBroken) throw bug
      return systemClock.monotonic() + aheadMs
    },
  }
  const errors: unknown[] = []
  const log: Log = { ...silentLog, error: (_, fields) => void errors.push(fields?.['error']), child: () => log }
  const controller = await startController({
    settings: settingsFor(database.url),
    dataDir,
    log,
    clock,
    localHub: createLocalHub({ log: silentLog }),
  })
  await controller.ready(AbortSignal.timeout(120_000))
  isBroken = true
  await expect(controller.ended).rejects.toBe(bug)
  expect(errors).toEqual([bug])
  isBroken = false
  aheadMs = 11_000
  expect((await fetch(`${controller.url}/readyz`)).status).toBe(503)
  await controller.stop()
})

async function chatCode(url: string): Promise<unknown> {
  const body = JSON.stringify({ model: 'known', messages: [] })
  const headers = { 'content-type': 'application/json' }
  const answer = await fetch(`${url}/v1/chat/completions`, { method: 'POST', headers, body })
  return ((await answer.json()) as { error?: { code?: unknown } }).error?.code
}

it('is ready only when the models are read, lists them then, and answers for them', async () => {
  await using directory = await makeTempDir('main')
  await using database = await createTestDatabase()
  // Migrates the database.
  await (await startTestController({ directory: join(directory.path, 'first'), databaseUrl: database.url })).stop()
  const db = new Client({ connectionString: database.url })
  await db.connect()
  const config = { name: 'known', backend: 'stub', parameters: {}, files: [], options: {}, known_usecases: [], scheduling: {} }
  await db.query(`insert into models (name, config, revision, backend, used_at) values ('known', $1, 'r1', 'stub', now())`, [config])
  await db.query('begin')
  await db.query('lock table models in access exclusive mode')
  await using dataDir = await openDataDir({ path: join(directory.path, 'second'), role: 'controller' })
  const localHub = createLocalHub({ log: silentLog })
  const controller = await startController({ settings: settingsFor(database.url), dataDir, log: silentLog, clock: systemClock, localHub })
  try {
    const begun = performance.now()
    const statuses = new Set<number>()
    await waitFor(
      async () => {
        statuses.add((await fetch(`${controller.url}/readyz`)).status)
        const { rows } = await db.query(`select 1 from pg_locks where relation = 'models'::regclass and not granted`)
        // now() is the time of the lock.
        const { rows: own } = await db.query('select 1 from controllers where last_seen_at > now()')
        return rows.length > 0 && own.length > 0 && performance.now() - begun > 1_500
      },
      { what: 'the loops to run, and a read of the models to wait' },
    )
    expect([...statuses]).toEqual([503])
    expect(await chatCode(controller.url)).toBe('starting')
    await db.query('commit')
    await waitFor(async () => (await fetch(`${controller.url}/readyz`)).status === 200, { what: 'the controller to be ready' })
    // Not a moment later: a load balancer sends requests from now on.
    expect(await (await fetch(`${controller.url}/v1/models`)).json()).toMatchObject({ data: [{ id: 'known' }] })
    expect(await chatCode(controller.url)).toBe('no_capacity')
  } finally {
    await db.end()
    await controller.stop()
  }
})

it('waits for its database at the end of its start too', async () => {
  await using directory = await makeTempDir('main')
  await using postgres = await startTestPostgres()
  const database = await createTestDatabase({ serverUrl: postgres.url() })
  await using dataDir = await openDataDir({ path: directory.path, role: 'controller' })
  const logged: string[] = []
  const log: Log = { ...silentLog, warn: (message) => void logged.push(message), child: () => log }
  const localHub = createLocalHub({ log: silentLog })
  const controller = await startController({ settings: settingsFor(database.url), dataDir, log, clock: systemClock, localHub })
  try {
    await controller.ready(AbortSignal.timeout(120_000))
    postgres.kill('SIGKILL')
    await waitFor(async () => (await fetch(`${controller.url}/readyz`)).status === 503, { what: 'the controller to notice' })
    const link = controller.createLoginLink()
    const model = controller.anyModel()
    const isWaiting = (): boolean => logged.filter((message) => message === 'database is not ready; retrying').length >= 2
    await waitFor(isWaiting, { what: 'both to wait' })
    await postgres.restart()
    expect((await link).url).toContain('/login?token=')
    expect(await model).toBe(null)
  } finally {
    await controller.stop()
  }
})

it('stops within 8 s while its database hangs', async () => {
  await using directory = await makeTempDir('main')
  await using postgres = await startTestPostgres()
  const database = await createTestDatabase({ serverUrl: postgres.url() })
  const controller = await startTestController({ directory: directory.path, databaseUrl: database.url })
  const family = familyOf(postgres.pid)
  const tell = (signal: NodeJS.Signals): void => family.forEach((pid) => process.kill(pid, signal))
  tell('SIGSTOP')
  try {
    const request = controller.api.get('/api/nodes').catch(() => null)
    const begin = performance.now()
    await controller.stop()
    expect(performance.now() - begin).toBeLessThan(boundMs(8_000))
    expect([503, undefined]).toContain((await request)?.status)
  } finally {
    tell('SIGCONT')
  }
})

it('stops within 8 s while its embedded database hangs', async () => {
  await using directory = await makeTempDir('main')
  await using dataDir = await openDataDir({ path: directory.path, role: 'controller' })
  const localHub = createLocalHub({ log: silentLog })
  const controller = await startController({ settings: settingsFor(), dataDir, log: silentLog, clock: systemClock, localHub })
  try {
    await controller.ready(AbortSignal.timeout(120_000))
    const home = await homeOf(directory.path)
    const server = listProcesses().find(({ args }) => worksOn(args, join(home, 'data')))
    for (const pid of familyOf(server?.pid ?? 0)) process.kill(pid, 'SIGSTOP')
    const begin = performance.now()
    await controller.stop()
    expect(performance.now() - begin).toBeLessThan(boundMs(8_000))
  } finally {
    await controller.stop()
    await removeHome(directory.path)
  }
})

it('stops within 8 s while its NATS server hangs', async () => {
  await using directory = await makeTempDir('main')
  await using database = await createTestDatabase()
  const nats = await startNats()
  const flags = { 'nats-url': nats.url }
  const controller = await startTestController({ directory: directory.path, databaseUrl: database.url, flags })
  await nats.kill('SIGSTOP')
  try {
    const begin = performance.now()
    await controller.stop()
    expect(performance.now() - begin).toBeLessThan(boundMs(8_000))
  } finally {
    await nats.kill('SIGCONT')
    await nats.stop()
  }
})

it('can be cancelled while its database starts', async () => {
  await using directory = await makeTempDir('main')
  await using dataDir = await openDataDir({ path: directory.path, role: 'controller' })
  const giveUp = new AbortController()
  const starting = startController({
    settings: settingsFor(),
    dataDir,
    log: silentLog,
    clock: systemClock,
    localHub: createLocalHub({ log: silentLog }),
    signal: giveUp.signal,
  })
  giveUp.abort(new Error('enough'))
  await expect(starting).rejects.toThrow('enough')
  await removeHome(directory.path)
})
