import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { identifyProcess } from '@muster/host'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { administer, startTestPostgres, type TestPostgres } from './postgres.ts'
import { createTestDatabase, type Template } from './test-database.ts'
import { waitFor } from './wait-for.ts'

const query = async (url: string, text: string): Promise<unknown[]> => administer(url, async (client) => (await client.query(text)).rows)

// Recovery takes as long as the disk takes.
describe('a PostgreSQL server for tests', () => {
  let postgres: TestPostgres
  beforeAll(async () => {
    postgres = await startTestPostgres({ listen: 'tcp' })
  })
  afterAll(() => postgres.stop())

  it('keeps committed data when it is killed and started again, at the same address', async () => {
    const url = postgres.url(await postgres.createDatabase())
    await query(url, 'create table kept (x int); insert into kept values (1)')
    const { pid } = postgres
    postgres.kill('SIGKILL')
    await postgres.restart()
    expect(postgres.pid).not.toBe(pid)
    expect(await query(url, 'select x from kept')).toEqual([{ x: 1 }])
  })

  it('creates a template once for concurrent callers, and copies it', async () => {
    let prepared = 0
    const template: Template = {
      name: `a table, ${Math.random()}`,
      prepare: async (url) => {
        prepared += 1
        await query(url, 'create table made (x int); insert into made values (7)')
      },
    }
    const databases = await Promise.all([1, 2, 3].map(() => createTestDatabase({ serverUrl: postgres.url(), template })))
    expect(prepared).toBe(1)
    for (const { url } of databases) expect(await query(url, 'select x from made')).toEqual([{ x: 7 }])
    await Promise.all(databases.map((each) => each.drop()))
    expect(
      await query(postgres.url(), `select datname from pg_database where datname in ('${databases.map(({ name }) => name).join("','")}')`),
    ).toEqual([])
  })
})

it('ends with the process that started it, and the next one removes its files', async () => {
  const child = spawn(
    process.execPath,
    [
      '-e',
      'import(process.argv[1]).then((m) => m.startTestPostgres()).then((p) => console.log(p.pid, p.url()))',
      fileURLToPath(new URL('./postgres.ts', import.meta.url)),
    ],
    { stdio: ['ignore', 'pipe', 'inherit'] },
  )
  const [line] = await once(child.stdout.setEncoding('utf8'), 'data')
  const [pid = '', url = ''] = String(line).trim().split(' ')
  const socketDir = new URL(url).searchParams.get('host') ?? ''
  expect(existsSync(socketDir)).toBe(true)
  child.kill('SIGKILL')
  await waitFor(() => identifyProcess(Number(pid)) === null, { what: 'the server to end' })
  await using next = await startTestPostgres({ version: 15 })
  expect(existsSync(socketDir)).toBe(false)
  expect(await query(next.url(), "select current_setting('server_version_num')::int / 10000 as major")).toEqual([{ major: 15 }])
})
