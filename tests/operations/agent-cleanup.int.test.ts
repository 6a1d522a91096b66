// The clean-up of a start: intents for nodes that are agents now.
import { join } from 'node:path'
import type { Log } from '@muster/host'
import { administer, createTestDatabase, makeTempDir, startTestController, waitFor } from '@muster/testkit'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { silentLog } from '@muster/host'

let database: Awaited<ReturnType<typeof createTestDatabase>>
let temp: Awaited<ReturnType<typeof makeTempDir>>

beforeAll(async () => {
  database = await createTestDatabase()
  temp = await makeTempDir('cleanup')
})
afterAll(async () => {
  await temp.remove()
  await database.drop()
})

const query = async (text: string): Promise<Record<string, unknown>[]> =>
  await administer(database.url, async (client) => (await client.query<Record<string, unknown>>(text)).rows)

/** As in migrate.ts. */
const migrationLock = 120_351_215_609_202

it('S0.14 S0.15 intents for agents are cancelled under the migration lock: by one of two controllers that start, once', async () => {
  await query(`
    insert into nodes (id, public_key, name, node_type, version, features, os, arch, capability, gateway_url, reported_labels, incarnation, approved_at, approved_by)
    values ('n-a', 'U' || repeat('A', 55), 'a', 'agent', '', '{async}', '', '', '', '', '{}', 'i', now(), 'test');
    insert into node_pulses (node_id, liveness, last_seen_at, resources) values ('n-a', 'gone', now(), '{}');
    insert into intents (node_id, backend, kind, generation, op_id, plan, state, next_at)
    select 'n-a', name, 'delete', nextval('intent_generation'), 'op-' || name,
      '{"uri": null, "mirrors": [], "digest": null, "version": "", "galleryUrl": "", "name": null, "alias": null, "exact": false, "strategy": null, "sizeBytes": null}',
      'waiting', now() from unnest('{one,two}'::text[]) name`)
  const cancelled: unknown[] = []
  const log: Log = {
    ...silentLog,
    warn: (message, fields) => void (message === 'intents for agent nodes cancelled' && cancelled.push(fields?.['count'])),
  }
  const starting = await administer(database.url, async (client) => {
    await client.query('select pg_advisory_lock($1)', [migrationLock])
    const started = ['a', 'b'].map((name) =>
      startTestController({ directory: join(temp.path, name), databaseUrl: database.url, log: { ...log, child: () => log } }),
    )
    await waitFor(
      async () => {
        const { rows } = await client.query(`select from pg_locks where locktype = 'advisory' and not granted and database =
          (select oid from pg_database where datname = current_database())`)
        return rows.length === 2
      },
      { what: 'both to wait for the lock' },
    )
    expect(cancelled).toEqual([])
    expect((await client.query('select distinct state from intents')).rows).toEqual([{ state: 'waiting' }])
    return { started }
  })
  const started = await Promise.all(starting.started)
  expect(cancelled).toEqual([2])
  expect(await query(`select state, count(*)::int as count from intents group by state`)).toEqual([{ state: 'cancelled', count: 2 }])
  const events = await query(`select type, detail from intent_events`)
  expect(events).toEqual(Array.from({ length: 2 }, () => ({ type: 'cancelled', detail: { reason: 'agent node' } })))
  for (const each of started) await each.stop()
})
