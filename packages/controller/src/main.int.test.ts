// How a controller begins and ends when something is in its way.
import { readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { createLocalHub } from '@muster/bus'
import { openDataDir, resolveSettings, silentLog, systemClock, type Clock, type Log } from '@muster/host'
import { createTestDatabase, makeTempDir, startTestController, startTestPostgres } from '@muster/testkit'
import { expect, it } from 'vitest'
import { startController } from './main.ts'
import { listProcesses } from './postgres/process-table.ts'
import { defaultSystemBase } from './postgres/home.ts'
import { controllerSettings } from './settings.ts'

const settingsFor = (databaseUrl?: string) =>
  resolveSettings(controllerSettings, {
    flags: { port: '0' },
    env: databaseUrl === undefined ? {} : { MUSTER_DATABASE_URL: databaseUrl },
  })

it('a loop that dies is told with its cause, and the controller is not ready any more', async () => {
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
  await controller.ready(AbortSignal.timeout(20_000))
  isBroken = true
  await expect(controller.ended).rejects.toBe(bug)
  expect(errors).toEqual([bug])
  isBroken = false
  aheadMs = 11_000
  expect((await fetch(`${controller.url}/readyz`)).status).toBe(503)
  await controller.stop()
}, 30_000)

it('stops within 8 s though its database stands still', async () => {
  await using directory = await makeTempDir('main')
  await using postgres = await startTestPostgres()
  const database = await createTestDatabase({ serverUrl: postgres.url() })
  const controller = await startTestController({ directory: directory.path, databaseUrl: database.url })
  const family = [postgres.pid, ...listProcesses().flatMap(({ pid, parent }) => (parent === postgres.pid ? [pid] : []))]
  const tell = (signal: NodeJS.Signals): void => family.forEach((pid) => process.kill(pid, signal))
  tell('SIGSTOP')
  try {
    const request = controller.api.get('/api/nodes').catch(() => null)
    const begin = performance.now()
    await controller.stop()
    expect(performance.now() - begin).toBeLessThan(8_000)
    expect([503, undefined]).toContain((await request)?.status)
  } finally {
    tell('SIGCONT')
  }
}, 60_000)

it('can be given up while its database starts', async () => {
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
  const location = await readFile(join(directory.path, 'postgres', 'location.json'), 'utf8').catch(() => null)
  if (location !== null) await rm(join(defaultSystemBase, (JSON.parse(location) as { id: string }).id), { recursive: true, force: true })
}, 30_000)
