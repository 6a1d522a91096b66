// Damaged files of the embedded database, and a full disk: the error names the file and the remedy.
import { execFileSync } from 'node:child_process'
import { chmod, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { silentLog, systemClock, type Log } from '@muster/host'
import { failureOf } from '@muster/protocol'
import { makeTempDir, type TempDir } from '@muster/testkit'
import { Client } from 'pg'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { startEmbedded, type EmbeddedPostgres } from './embedded.ts'

const run = (program: string, ...args: string[]): Buffer => execFileSync(program, args, { stdio: 'pipe' })
const isRoot = process.getuid?.() === 0
let temp: TempDir
let [dataDir, systemBase, home] = ['', '', '']

const start = (log: Log = silentLog): Promise<EmbeddedPostgres> => startEmbedded({ dataDir, systemBase, clock: systemClock, log })
const failureOfStart = async () =>
  failureOf(
    await start().then(
      (started) => started.stop(),
      (error: unknown) => error,
    ),
  )

beforeAll(async () => {
  temp = await makeTempDir('damaged')
  await chmod(temp.path, 0o711)
  ;[dataDir, systemBase] = [join(temp.path, 'data'), join(temp.path, 'system')]
  await (await start()).stop()
  home = isRoot ? join(systemBase, (await readdir(systemBase))[0] ?? '') : join(dataDir, 'postgres')
})
afterAll(() => temp.remove())

/** Each file as it was before. */
const whole = new Map<string, string>()
async function damage(path: string, text: string): Promise<void> {
  whole.set(path, await readFile(path, 'utf8'))
  await writeFile(path, text)
}
beforeEach(async () => {
  for (const [path, text] of whole) await writeFile(path, text)
  whole.clear()
})

describe.runIf(isRoot)('as root', () => {
  it.each(['', '{"id": "ab', '{"id": "../../etc"}'])(
    'location.json that says %j: which database it was, and how to say so',
    async (text) => {
      const path = join(dataDir, 'postgres', 'location.json')
      await damage(path, text)
      const { code, message } = await failureOfStart()
      expect({ code, message }).toEqual({ code: 'integrity', message: expect.stringContaining(`${path} is damaged`) })
      expect(message).toContain(`{"id":"${home.split('/').at(-1)}"}`)
      expect(message).toContain(`remove ${join(dataDir, 'postgres')} to start with an empty database`)
    },
  )

  it('owner.json: the content it needs', async () => {
    const path = join(home, 'owner.json')
    await damage(path, '{"data_dir": 7}')
    expect(await failureOfStart()).toMatchObject({ code: 'integrity', message: expect.stringContaining(`${path} is damaged`) })
    expect((await failureOfStart()).message).toContain(`{"data_dir":"${dataDir}"}`)
  })
})

it('the last holder: that it can be removed when no other Muster uses the database', async () => {
  const holders = join(home, 'holders')
  const path = join(holders, (await readdir(holders))[0] ?? '')
  await damage(path, '{"released": tr')
  const { code, message } = await failureOfStart()
  expect({ code, message }).toEqual({ code: 'integrity', message: expect.stringContaining(`${path} is damaged`) })
  expect(message).toMatch(/remove the file/)
})

it('a damaged password is replaced like a lost one', async () => {
  await damage(join(dataDir, 'postgres', 'password'), '\0\0\0')
  const warned: string[] = []
  const postgres = await start({ ...silentLog, warn: (message) => void warned.push(message) })
  await postgres.stop()
  expect(postgres.connection.password).toMatch(/^muster_postgres_/)
  expect(warned).toEqual([expect.stringContaining('password')])
  whole.delete(join(dataDir, 'postgres', 'password'))
})

it('a password may end with a line break', async () => {
  const path = join(dataDir, 'postgres', 'password')
  await damage(path, `${await readFile(path, 'utf8')}\n`)
  const postgres = await start()
  const client = new Client(postgres.connection)
  await client.connect()
  expect((await client.query('select 1 as one')).rows).toEqual([{ one: 1 }])
  await client.end()
  await postgres.stop()
})

it('the password of another database: which file to remove', async () => {
  const path = join(dataDir, 'postgres', 'password')
  await damage(path, (await readFile(path, 'utf8')).replace(/.{8}$/, 'AAAAAAAA'))
  const { code, message } = await failureOfStart()
  expect({ code, message }).toEqual({ code: 'conflict', message: expect.stringContaining(`remove ${path}`) })
})

it('a disk that is full at the first start: the needed space, the directory, and the alternatives', async ({ skip }) => {
  const small = join(temp.path, 'small')
  await mkdir(small)
  try {
    run('mount', '-t', 'tmpfs', '-o', 'size=8m,mode=711', 'tmpfs', small)
  } catch (error) {
    skip(`no tmpfs can be mounted here: ${String(error)}`)
  }
  try {
    const options = { dataDir: join(small, 'data'), systemBase: join(small, 'system'), clock: systemClock, log: silentLog }
    const failure = failureOf(await startEmbedded(options).catch((error: unknown) => error))
    expect(failure).toMatchObject({ code: 'disk_full', message: expect.stringMatching(/no space left .*small.* MB.*--database-url/) })
  } finally {
    run('umount', small)
    await rm(small, { recursive: true })
  }
})
