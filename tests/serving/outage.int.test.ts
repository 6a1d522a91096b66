// Serving does not need the database: statements are counted, and then the database is broken in every way, and stopped.
import { readFileSync } from 'node:fs'
import { boundMs, administer, adminKey, isLongRun, startTestPostgres, waitFor, type TestPostgres } from '@muster/testkit'
import { Client } from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startServingWorld, type ServingWorld } from './serving-world.ts'

let world: ServingWorld
let postgres: TestPostgres

beforeAll(async () => {
  postgres = await startTestPostgres()
  world = await startServingWorld({ serverUrl: postgres.url() })
  const node = await world.addNode('gpu-1')
  await world.addModel('tiny')
  await world.addReplica('tiny', node)
  await waitFor(async () => (await world.chat('tiny')).status === 200, { what: 'the first answer' })
})
afterAll(async () => {
  await world[Symbol.asyncDispose]()
  await postgres.stop()
})

/** Statements of the controller, as PostgreSQL counts them. */
async function transactions(): Promise<number> {
  const { rows } = await administer(world.databaseUrl, (client) =>
    client.query<{ count: string }>(
      'select pg_stat_clear_snapshot(), xact_commit + xact_rollback as count from pg_stat_database where datname = current_database()',
    ),
  )
  return Number(rows[0]?.count)
}

describe('a model that is up', () => {
  it('W28 serves requests without a single query', async () => {
    const quiet = async (work: () => Promise<void>): Promise<number> => {
      const before = await transactions()
      const began = performance.now()
      await work()
      return ((await transactions()) - before) / ((performance.now() - began) / 1000)
    }
    const idle = await quiet(() => new Promise((resolve) => setTimeout(resolve, 3_000)))
    let answered = 0
    const busy = await quiet(async () => {
      const until = performance.now() + 3_000
      const ask = async (): Promise<void> => {
        while (performance.now() < until) {
          const response = await world.chat('tiny', {}, { headers: { authorization: 'Bearer any-key' } })
          await response.text()
          answered += response.status === 200 ? 1 : 0
        }
      }
      await Promise.all(Array.from({ length: 8 }, ask))
    })
    expect(answered).toBeGreaterThan(100)
    // Background work of a controller is the same with and without requests.
    expect(busy - idle).toBeLessThan(answered / 3 / 10)
    expect(busy).toBeLessThan(idle + 15)
  })
})

const inDatabase = (text: string): Promise<unknown> => administer(world.databaseUrl, (client) => client.query(text))
const eachTable = (statement: string): string =>
  `do $$ declare t text; begin for t in select tablename from pg_tables where schemaname = 'public' loop execute format('${statement}', t); end loop; end $$`

const ownName = 'outage test'

async function openSession(): Promise<Client> {
  const client = new Client({ connectionString: world.databaseUrl, application_name: ownName })
  client.on('error', () => undefined)
  await client.connect()
  return client
}

function signalServer(signal: NodeJS.Signals): void {
  const sessions = readFileSync(`/proc/${postgres.pid}/task/${postgres.pid}/children`, 'utf8').split(' ').filter(Boolean).map(Number)
  for (const pid of [postgres.pid, ...sessions]) {
    try {
      process.kill(pid, signal)
    } catch {
      // This session has just ended.
    }
  }
}

/** Breaks the database, and returns how to mend it. */
const faults: Readonly<Record<string, () => Promise<() => Promise<unknown>>>> = {
  frozen: async () => {
    signalServer('SIGSTOP')
    return async () => signalServer('SIGCONT')
  },
  locked: async () => {
    const client = await openSession()
    await client.query('begin')
    await client.query(eachTable('lock table %I in access exclusive mode'))
    return async () => await client.end()
  },
  'read-only': async () => {
    await inDatabase(`do $$ begin execute format('alter database %I set default_transaction_read_only = on', current_database()); end $$`)
    await inDatabase(
      'select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() and datname = current_database()',
    )
    return async () => {
      const undo = `set transaction read write; do $$ begin execute format('alter database %I reset default_transaction_read_only', current_database()); end $$`
      await administer(world.databaseUrl, (client) => client.query(`begin; ${undo}; commit`))
      await inDatabase(
        'select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() and datname = current_database()',
      )
    }
  },
  full: async () => {
    await inDatabase(
      `create function full_disk() returns trigger language plpgsql as $$ begin raise exception 'no space left' using errcode = '53100'; end $$`,
    )
    await inDatabase(eachTable('create trigger full_disk before insert or update or delete on %I execute function full_disk()'))
    return () => inDatabase('drop function full_disk cascade')
  },
  'out of connections': async () => {
    const opened = [await openSession()]
    const open = async (): Promise<void> => {
      for (let client = await openSession().catch(() => null); client !== null; client = await openSession().catch(() => null))
        opened.push(client)
    }
    const endOthers = `
      select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and application_name <> '${ownName}'`
    // The controller connects again as soon as it lost a connection, and a connection that begins is not listed yet.
    for (let quietRounds = 0; quietRounds < 3;) {
      await Promise.all(Array.from({ length: 8 }, open))
      const left = (await opened[0]?.query(endOthers))?.rowCount ?? 0
      quietRounds = left > 0 ? 0 : quietRounds + 1
    }
    return async () => void (await Promise.all(opened.map((client) => client.end())))
  },
}

describe('a broken database', () => {
  it.each(Object.keys(faults))('D4 serves every warm request while PostgreSQL is %s, and recovers', async (what) => {
    const mend = await faults[what]?.()
    let hasWritten = false
    const writing = world.controller.api.put(`/api/models/other-${what.replaceAll(' ', '-')}`, { backend: 'stub' }).then(
      ({ status }) => void (hasWritten = status < 300),
      () => undefined,
    )
    const until = performance.now() + (isLongRun ? 20_000 : 800)
    const statuses = new Map<number, number>()
    const ask = async (): Promise<void> => {
      while (performance.now() < until) {
        const response = await world.chat('tiny')
        await response.text()
        statuses.set(response.status, (statuses.get(response.status) ?? 0) + 1)
      }
    }
    await Promise.all(Array.from({ length: 4 }, ask))
    expect(hasWritten, 'nothing can be stored').toBe(false)
    await mend?.()
    await writing
    expect([...statuses.keys()]).toEqual([200])
    expect(statuses.get(200)).toBeGreaterThan(50)
    await waitFor(async () => (await world.controller.api.get('/api/stats')).status === 200, {
      what: `the controller to recover from ${what}`,
    })
  })
})

describe('D4 the database is away', () => {
  it('known models are served to known keys, other requests get 503, and everything recovers with the database', async () => {
    const ask = () => world.chat('tiny', {}, { headers: { authorization: `Bearer ${adminKey}`, origin: 'http://elsewhere.example' } })
    expect((await ask()).status).toBe(200)
    postgres.kill('SIGKILL')
    await waitFor(async () => (await world.controller.api.get('/readyz')).status === 503, {
      what: 'the controller to notice',
    })
    for (let i = 0; i < 20; i += 1) expect((await world.chat('tiny')).status).toBe(200)
    // A page of another origin has to show a key, and that one was known before.
    const began = performance.now()
    expect((await ask()).status).toBe(200)
    expect(performance.now() - began).toBeLessThan(boundMs(2_000))
    expect((await world.controller.api.get('/api/stats')).status).toBe(503)
    expect((await world.controller.api.get('/healthz')).status).toBe(200)
    // Nobody knows whether there is such a model.
    expect((await world.chat('nope')).status).toBe(503)
    await postgres.restart()
    await waitFor(async () => (await world.controller.api.get('/readyz')).status === 200, { what: 'all to be well' })
    expect((await ask()).status).toBe(200)
    expect((await world.controller.api.get('/api/stats')).status).toBe(200)
  })
})
