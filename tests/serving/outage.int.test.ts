// Serving does not need the database: statements are counted, and then the database is stopped.
import { boundMs, administer, adminKey, startTestPostgres, waitFor, type TestPostgres } from '@muster/testkit'
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
