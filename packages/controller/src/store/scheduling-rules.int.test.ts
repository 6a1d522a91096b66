import { createHash } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { silentLog } from '@muster/host'
import { ModelConfig, ModelName, type Scheduling } from '@muster/protocol'
import { createTestDatabase, makeTempDir } from '@muster/testkit'
import { sql } from 'kysely'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { revisionOf } from '../models/config.ts'
import { applySchedulingFile } from '../models/scheduling-file.ts'
import { connectDatabase } from './connect.ts'
import { migrate } from './migrate.ts'
import { createStore, type Store } from './store.ts'
import type { Database } from './tables.ts'

let connection: ReturnType<typeof connectDatabase<Database>>
let store: Store
let path: string
const endings: (() => Promise<unknown>)[] = []

beforeAll(async () => {
  const database = await createTestDatabase()
  const directory = await makeTempDir()
  path = join(directory.path, 'rules.yaml')
  connection = connectDatabase<Database>({ to: { url: database.url }, log: silentLog, applicationName: 'test' })
  const migrations = fileURLToPath(new URL('./migrations', import.meta.url))
  await migrate({ pool: connection.pool, directory: migrations, log: silentLog, afterwards: async () => undefined })
  store = createStore(connection.db)
  endings.push(
    () => connection.close(),
    () => database.drop(),
    () => directory.remove(),
  )
})
afterAll(async () => {
  for (const end of endings) await end()
})

const nameOf = (name: string): ModelName => ModelName.parse(name)
async function create(name: string, more: object = {}): Promise<void> {
  const config = ModelConfig.parse({ name, backend: 'llama', ...more })
  await store.models.put(config, { revision: revisionOf(config), expected: null })
}
const schedulingOf = async (name: string): Promise<Scheduling | undefined> => (await store.models.find(nameOf(name)))?.config.scheduling
/** As at the start of a controller. */
async function start(text: string): Promise<void> {
  await writeFile(path, text)
  await applySchedulingFile(path, { store: store.schedulingRules, log: silentLog })
}

const first = '- { model: there, min_replicas: 1, max_replicas: 2 }\n- { model: later, priority: 5 }\n- { model: own, priority: 7 }\n'

it('rules are applied once for each content, to models that exist and to models that are created later', async () => {
  await create('there')
  await start(first)
  expect(await schedulingOf('there')).toEqual({ min_replicas: 1, max_replicas: 2 })
  await create('later')
  expect(await schedulingOf('later')).toEqual({ priority: 5 })
  // A configuration that has scheduling of its own keeps it.
  await create('own', { scheduling: { max_replicas: 4 } })
  expect(await schedulingOf('own')).toEqual({ max_replicas: 4 })

  await store.models.setScheduling(nameOf('there'), { max_replicas: 9 })
  await store.models.setScheduling(nameOf('later'), {})
  await start(first)
  expect(await schedulingOf('there')).toEqual({ max_replicas: 9 })
  expect(await schedulingOf('later')).toEqual({})
  expect(await schedulingOf('own')).toEqual({ max_replicas: 4 })

  await start(first.replace('max_replicas: 2', 'max_replicas: 3'))
  expect(await schedulingOf('there')).toEqual({ min_replicas: 1, max_replicas: 3 })
  expect(await schedulingOf('own')).toEqual({ priority: 7 })
})

it('a start goes on where a killed one stored the rules and wrote some', async () => {
  const text = '- { model: half-a, priority: 1 }\n- { model: half-b, priority: 2 }\n'
  await create('half-a')
  await create('half-b')
  await sql`update scheduling_file set sha256 = ${createHash('sha256').update(text).digest('hex')}`.execute(connection.db)
  await sql`delete from scheduling_rules`.execute(connection.db)
  await sql`insert into scheduling_rules (model, scheduling, is_applied) values
    ('half-a', '{"priority": 1}', true), ('half-b', '{"priority": 2}', false)`.execute(connection.db)
  await start(text)
  expect(await schedulingOf('half-a')).toEqual({})
  expect(await schedulingOf('half-b')).toEqual({ priority: 2 })
  // A rule that was applied meanwhile, by the creation of its model, is not applied again.
  expect(await store.models.applyRule(nameOf('half-b'), { priority: 9 })).toBe(false)
  expect(await schedulingOf('half-b')).toEqual({ priority: 2 })
})

it('an empty list removes the rules for models to come, and a deleted model gets its rule again', async () => {
  await start('- { model: again, priority: 3 }')
  await create('again')
  await sql`delete from models where name = 'again'`.execute(connection.db)
  await create('again')
  expect(await schedulingOf('again')).toEqual({ priority: 3 })
  await sql`delete from models where name = 'again'`.execute(connection.db)
  await start('[]')
  await create('again')
  expect(await schedulingOf('again')).toEqual({})
})
