// The check for newer builds on a real database: what it stores, that one controller at a time runs it, and what it submits.
import { fileURLToPath } from 'node:url'
import { abortable, resolveSettings, silentLog, systemClock } from '@muster/host'
import { Digest, FleetError, InstalledBackend, type BackendName } from '@muster/protocol'
import { GalleryEntry } from '@muster/source'
import { createTestDatabase, waitFor } from '@muster/testkit'
import { sql } from 'kysely'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { nodeRecord } from '../../test/node-record.ts'
import type { Offers } from '../gallery/catalogue.ts'
import type { ResolveSource } from '../gallery/resolve-source.ts'
import { controllerSettings } from '../settings.ts'
import { connectDatabase } from '../store/connect.ts'
import { migrate } from '../store/migrate.ts'
import type { NodeRecord } from '../store/nodes.ts'
import { createStore, type Store } from '../store/store.ts'
import type { Database } from '../store/tables.ts'
import { createUpgradeChecker, type UpgradeCheckerDeps } from './check-upgrades.ts'
import { checkDuty, CheckReport } from './fleet-backends.ts'

const digest = (digit: string): Digest => Digest.parse(`sha256:${digit.repeat(64)}`)
const entry = (fields: object): GalleryEntry => GalleryEntry.parse(fields)
const main: Offers = {
  galleries: [
    {
      name: 'main',
      url: 'https://g.example/index.yaml',
      entries: [
        entry({ name: 'llama', capabilities: { default: 'cpu-llama', 'nvidia-cuda-12': 'cuda-llama' } }),
        entry({ name: 'cpu-llama', uri: 'r.example/cpu:1', version: '2' }),
        entry({ name: 'cuda-llama', uri: 'r.example/cuda:1', version: '2' }),
      ],
      leftOut: [],
      leftOutCount: 0,
    },
  ],
  problems: [],
}
const inventory = (name: string, more: object = {}) => [InstalledBackend.parse({ name, digest: digest('0'), is_meta: true, ...more })]

let database: Awaited<ReturnType<typeof createTestDatabase>>
let connection: ReturnType<typeof connectDatabase<Database>>
let store: Store
let nodes: NodeRecord[]
let offered: Offers
let answers: Map<string, Digest | FleetError>

beforeAll(async () => {
  database = await createTestDatabase()
  connection = connectDatabase<Database>({ to: { url: database.url }, log: silentLog, applicationName: 'test' })
  const directory = fileURLToPath(new URL('../store/migrations', import.meta.url))
  await migrate({ pool: connection.pool, directory, log: silentLog, afterwards: async () => undefined })
  store = createStore(connection.db)
})
afterAll(async () => {
  await connection.close()
  await database.drop()
})
beforeEach(async () => {
  await sql`delete from duties`.execute(connection.db)
  await sql`delete from available_backends`.execute(connection.db)
  nodes = [
    nodeRecord('cpu', { inventory: inventory('llama') }),
    nodeRecord('gpu', { inventory: inventory('llama'), capability: 'nvidia-cuda-12', liveness: 'left' }),
  ]
  offered = main
  answers = new Map([
    ['r.example/cpu:1', digest('1')],
    ['r.example/cuda:1', digest('2')],
    ['r.example/mine:1', digest('3')],
  ])
})

const resolve: ResolveSource = async ({ uri }) => {
  // Only the worker can read it.
  if (uri.startsWith('file:')) return { digest: null, sizeBytes: null }
  const answer = answers.get(uri) ?? new FleetError({ code: 'not_found', retry: 'never', message: `${uri} is not there` })
  if (answer instanceof FleetError) throw answer
  return { digest: answer, sizeBytes: 1 }
}
const checker = (over: Partial<UpgradeCheckerDeps> = {}) =>
  createUpgradeChecker({
    catalogue: async () => offered,
    resolve,
    listNodes: async () => nodes,
    available: store.available,
    duties: store.duties,
    holder: 'c-1',
    intervalMs: 3_600_000,
    submitUpgrade: null,
    stopping: new AbortController().signal,
    clock: systemClock,
    log: silentLog,
    ...over,
  })
const known = async () =>
  (await store.available.list())
    .map(({ concrete, platform, digest: is }) => [concrete, platform, is])
    .toSorted((a, b) => (a.join() < b.join() ? -1 : 1))
const report = async () => CheckReport.parse((await store.duties.read(checkDuty)).report)

describe('a check for newer builds', () => {
  it('S0.27 S3.17 checks every installed backend, also of absent nodes, and a meta backend per kind of node', async () => {
    await checker().checkNow()
    expect(await known()).toEqual([
      ['cpu-llama', 'linux/amd64 default', digest('1')],
      ['cuda-llama', 'linux/amd64 nvidia-cuda-12', digest('2')],
    ])
    expect((await store.duties.read(checkDuty)).doneAt).not.toBeNull()
  })

  it('checks the recorded source of a backend in no gallery, and drops backends that are no longer installed', async () => {
    await checker().checkNow()
    nodes = [nodeRecord('a', { inventory: inventory('mine', { uri: 'r.example/mine:1', is_meta: false }) })]
    await checker().checkNow()
    expect(await known()).toEqual([['r.example/mine:1', 'linux/amd64 default', digest('3')]])
  })

  it('says of a source on the nodes that only an upgrade reads it, and does not call the backend current', async () => {
    const mine = inventory('mine', { uri: 'file:///opt/mine', is_meta: false })
    nodes = ['a', 'b'].map((id) => nodeRecord(id, { inventory: mine }))
    await checker().checkNow()
    const message = 'file:///opt/mine is a path on the nodes, and only an upgrade reads it there: muster backends upgrade mine'
    expect([await known(), (await report()).problems]).toEqual([[], [{ backend: 'mine', message }]])
  })

  it('keeps the last result of sources that do not answer, and reports them', async () => {
    await checker().checkNow()
    answers.set('r.example/cpu:1', new FleetError({ code: 'unavailable', retry: 'backoff', message: 'r.example does not answer' }))
    answers.set('r.example/cuda:1', digest('4'))
    await checker().checkNow()
    expect((await known()).map(([, , is]) => is)).toEqual([digest('1'), digest('4')])
    expect((await report()).problems).toEqual([{ backend: 'llama', message: 'r.example does not answer' }])
    const failure = { code: 'unavailable' as const, retry: 'backoff' as const, message: 'the gallery main answers 503' }
    offered = { galleries: [], problems: [{ gallery: 'main', url: '', failure, precedes: 0, names: null }] }
    await checker().checkNow()
    expect((await known()).map(([, , is]) => is)).toEqual([digest('1'), digest('4')])
    expect((await report()).problems[0]).toEqual({ backend: null, message: failure.message })
  })

  it('keeps the last result while a gallery that comes first cannot be read, whatever later ones offer', async () => {
    await checker().checkNow()
    answers = new Map([...answers.keys()].map((uri) => [uri, digest('9')]))
    const failure = { code: 'invalid' as const, retry: 'never' as const, message: 'the gallery x is not YAML' }
    offered = { ...main, problems: [{ gallery: 'x', url: '', failure, precedes: 0, names: null }] }
    await checker().checkNow()
    expect((await known()).map(([, , is]) => is)).toEqual([digest('1'), digest('2')])
    const message = expect.stringMatching(/the gallery x comes before main, which offers llama.*not YAML/) as string
    expect((await report()).problems).toMatchObject([{ backend: null }, { backend: 'llama', message }])
    offered = { ...main, problems: [{ gallery: 'x', url: '', failure, precedes: 1, names: null }] }
    await checker().checkNow()
    expect((await known()).map(([, , is]) => is)).toEqual([digest('9'), digest('9')])
  })

  it('publishes a new offer to listeners, once', async () => {
    const before = (await store.changes.readSince(0)).last
    await checker().checkNow()
    const after = await store.changes.readSince(before)
    expect(after.changes).toMatchObject([{ kind: 'backend', id: 'llama' }])
    await checker().checkNow()
    expect((await store.changes.readSince(after.last)).changes).toEqual([])
  })
})

describe('of several controllers', () => {
  it('S3.17 one controller at a time checks, however many are requested to', async () => {
    let [running, most, runs] = [0, 0, 0]
    const catalogue = async (): Promise<Offers> => {
      running += 1
      runs += 1
      most = Math.max(most, running)
      await sql`select pg_sleep(0.05)`.execute(connection.db)
      running -= 1
      return main
    }
    const all = ['c-1', 'c-2', 'c-3'].map((holder) => checker({ holder, catalogue }))
    await Promise.all([...all, ...all, ...all].map((each) => each.checkNow()))
    expect(most).toBe(1)
    expect(runs).toBeLessThanOrEqual(6)
  })

  it('a controller that lost its lease writes nothing', async () => {
    const catalogue = async (): Promise<Offers> => {
      await sql`update duties set holder = 'c-2'`.execute(connection.db)
      return main
    }
    await checker({ catalogue }).checkNow()
    expect(await known()).toEqual([])
  })

  it('S3.17 each looks again when it is woken, and one of them every so often', async () => {
    // Sleeps are a tenth as long; what is compared is what happens, not when.
    const hurried = { ...systemClock, sleep: (ms: number, signal?: AbortSignal) => systemClock.sleep(ms / 10, signal) }
    const ending = new AbortController()
    const one = checker({ clock: hurried })
    const running = one.run(ending.signal)
    one.wake()
    const first = await waitFor(async () => (await store.duties.read(checkDuty)).doneAt, { what: 'the first check' })
    one.wake()
    await waitFor(async () => (await store.duties.read(checkDuty)).doneAt !== first, { what: 'another check' })
    ending.abort()
    await running
  })
})

describe('without a request', () => {
  const intervalMs = 6 * 3_600_000

  /** Controllers whose pauses a test ends; `pauses` are the pauses between their rounds. */
  function startCheckers(holders: readonly string[]) {
    const pauses: { readonly ms: number; readonly end: () => void }[] = []
    const ending = new AbortController()
    let checks = 0
    const clock = {
      ...systemClock,
      sleep: (ms: number, signal: AbortSignal = ending.signal) => {
        const over = AbortSignal.any([signal, ending.signal])
        // The deadline of a check is not a pause.
        if (ms === 50_000) return systemClock.sleep(ms, over)
        return abortable(new Promise<void>((end) => void pauses.push({ ms, end })), over)
      },
    }
    const catalogue = async (): Promise<Offers> => ((checks += 1), main)
    const running = holders.map((holder) => checker({ holder, clock, intervalMs, catalogue }).run(ending.signal))
    return {
      checks: () => checks,
      /** Waits until all of them pause, and returns for how long. */
      async pausing(): Promise<readonly { readonly ms: number; readonly end: () => void }[]> {
        await waitFor(() => pauses.length === holders.length, { what: 'all controllers to pause', timeoutMs: 30_000 })
        return pauses.splice(0)
      },
      async [Symbol.asyncDispose](): Promise<void> {
        ending.abort()
        await Promise.all(running)
      },
    }
  }

  it('S3.17 a controller checks soon after its start, and then at each interval', async () => {
    await using started = startCheckers(['c-1'])
    const [first] = await started.pausing()
    expect([first?.ms, started.checks()]).toEqual([5_000, 0])
    first?.end()
    const [second] = await started.pausing()
    expect([second?.ms, started.checks()]).toEqual([intervalMs, 1])
    await sql`update duties set done_at = done_at - interval '6 hours'`.execute(connection.db)
    second?.end()
    const [third] = await started.pausing()
    expect([third?.ms, started.checks()]).toEqual([intervalMs, 2])
  })

  it('S3.17 of controllers that start at the same time one checks', async () => {
    await using started = startCheckers(['c-1', 'c-2', 'c-3'])
    for (const { end } of await started.pausing()) end()
    expect((await started.pausing()).map(({ ms }) => ms)).toEqual([intervalMs, intervalMs, intervalMs])
    expect(started.checks()).toBe(1)
  })

  it('S3.17 the interval is six hours by default', () => {
    expect(resolveSettings(controllerSettings, { flags: {}, env: {} }).upgradeCheckInterval).toBe(intervalMs)
  })
})

it('a controller that stops does not wait for a registry that hangs, and leaves the check to others', async () => {
  const stopping = new AbortController()
  const asked = Promise.withResolvers<void>()
  const hanging: ResolveSource = () => {
    asked.resolve()
    return new Promise(() => undefined)
  }
  const one = checker({ resolve: hanging, stopping: stopping.signal })
  const running = one.run(stopping.signal)
  one.wake()
  await asked.promise
  stopping.abort()
  await running
  await checker({ holder: 'c-2' }).checkNow()
  expect(await known()).toHaveLength(2)
})

describe('--auto-upgrade', () => {
  it('submits each new build once, also when it failed, and again when there is another', async () => {
    const submitted: BackendName[] = []
    const auto = checker({ submitUpgrade: async (backend) => void submitted.push(backend) })
    await auto.checkNow()
    await auto.checkNow()
    expect(submitted).toEqual(['llama'])
    // Another process, later: it is remembered.
    await checker({ holder: 'c-2', submitUpgrade: async (backend) => void submitted.push(backend) }).checkNow()
    expect(submitted).toHaveLength(1)
    answers.set('r.example/cpu:1', digest('5'))
    await auto.checkNow()
    await auto.checkNow()
    expect(submitted).toHaveLength(2)
  })

  it('repeats an upgrade that could not be submitted, and does nothing while a gallery before it is missing', async () => {
    let tries = 0
    const submitUpgrade = async (): Promise<void> => {
      tries += 1
      if (tries === 1) throw new Error('the registry is away')
    }
    const auto = checker({ submitUpgrade })
    await auto.checkNow()
    expect(tries).toBe(1)
    const failure = { code: 'unavailable', retry: 'backoff', message: 'x is away' } as const
    offered = { ...main, problems: [{ gallery: 'x', url: '', failure, precedes: 0, names: null }] }
    await auto.checkNow()
    expect(tries).toBe(1)
    offered = main
    await auto.checkNow()
    await auto.checkNow()
    expect(tries).toBe(2)
  })

  it('is off by default', async () => {
    await checker({ submitUpgrade: null }).checkNow()
    expect((await report()).tried).toEqual({})
  })
})
