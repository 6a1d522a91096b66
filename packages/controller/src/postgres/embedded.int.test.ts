import { spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { access, chmod, chown, cp, mkdir, mkdtemp, readdir, readFile, realpath, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { identifyProcess, silentLog, systemClock, type Clock, type Log } from '@muster/host'
import { boundMs, waitFor } from '@muster/testkit'
import { Client } from 'pg'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { startEmbedded, type EmbeddedConnection, type EmbeddedPostgres } from './embedded.ts'
import { serverUser } from './server-process.ts'

const script = fileURLToPath(new URL('../../test/embedded-process.ts', import.meta.url))
const isRoot = process.getuid?.() === 0

let top: string
let systemBase: string
/** Used by most tests one after the other: making a cluster takes most of a second. */
let dataDir: string
const running: EmbeddedPostgres[] = []
const children: ChildProcess[] = []

beforeAll(async () => {
  top = await realpath(await mkdtemp(join(tmpdir(), 'muster-embedded-')))
  await chmod(top, 0o711)
  systemBase = join(top, 'system')
  await mkdir(join(top, 'closed'), { mode: 0o700 })
  dataDir = join(top, 'closed', 'data')
})
afterEach(async () => {
  for (const postgres of running.splice(0)) await postgres.stop()
  for (const child of children.splice(0)) await kill(child)
})
afterAll(() => rm(top, { recursive: true, force: true, maxRetries: 5 }))

async function start(
  dir = dataDir,
  options: { signal?: AbortSignal; clock?: Clock; log?: Log; systemBase?: string } = {},
): Promise<EmbeddedPostgres> {
  const postgres = await startEmbedded({ dataDir: dir, systemBase, clock: systemClock, log: silentLog, ...options })
  running.push(postgres)
  return postgres
}

async function ask<T>(connection: EmbeddedConnection, text: string): Promise<T[]> {
  const client = new Client({ ...connection, connectionTimeoutMillis: 2_000 })
  client.on('error', () => {})
  await client.connect()
  try {
    return (await client.query(text)).rows as T[]
  } finally {
    await client.end()
  }
}

/** Another Muster process. */
function spawnMuster(dir = dataDir, user: { uid: number; gid: number } | null = null) {
  const child = spawn(process.execPath, [script, dir, systemBase], { stdio: ['pipe', 'pipe', 'inherit'], cwd: '/', ...user })
  children.push(child)
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  const answer = async (): Promise<{ connection: EmbeddedConnection; pid: number; error?: string }> =>
    JSON.parse((await lines.next()).value ?? '{}')
  return { child, answer, say: (word: string) => child.stdin.write(`${word}\n`) }
}

async function kill(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  child.kill('SIGKILL')
  await once(child, 'exit')
}

const messageOf = (work: Promise<unknown>): Promise<string> =>
  work.then(
    () => 'it did not fail',
    (error: unknown) => (error instanceof Error ? error.message : String(error)),
  )

/** Where the server's files are. */
async function homeOf(dir = dataDir): Promise<string> {
  if (!isRoot) return join(dir, 'postgres')
  const { id }: { id: string } = JSON.parse(await readFile(join(dir, 'postgres', 'location.json'), 'utf8'))
  return join(systemBase, id)
}

describe('an embedded server', () => {
  it('starts on a new data directory below one that only its owner can enter, and keeps its data', async () => {
    const first = await start()
    expect(await ask(first.connection, `select current_setting('server_version_num')::int / 10000 as major`)).toEqual([{ major: 18 }])
    await ask(first.connection, 'create table kept (x int); insert into kept values (7)')
    await first.stop()
    expect(identifyProcess(first.pid)).toBeNull()

    const begin = performance.now()
    const second = await start()
    expect(performance.now() - begin).toBeLessThan(boundMs(5_000))
    expect(await ask(second.connection, 'select x from kept')).toEqual([{ x: 7 }])
  })

  it('is durable, speaks UTF-8 and UTC, and listens on no port', async () => {
    const { connection } = await start()
    const names = ['fsync', 'full_page_writes', 'synchronous_commit', 'listen_addresses', 'server_encoding', 'TimeZone', 'max_connections']
    const rows = await ask<{ value: string }>(connection, `select current_setting(n) as value from unnest(array['${names.join("','")}']) n`)
    expect(rows.map(({ value }) => value)).toEqual(['on', 'on', 'on', '', 'UTF8', 'UTC', '100'])
    expect(await ask(connection, 'select datcollate, datlocprovider from pg_database where datname = current_database()')).toEqual([
      { datcollate: 'C', datlocprovider: 'c' },
    ])
  })

  it('requires its password, which only Muster can read', async () => {
    const { connection } = await start()
    expect(await messageOf(ask({ ...connection, password: 'guess' }, 'select 1'))).toMatch(/password authentication failed/)
    expect((await readdir(join(dataDir, 'postgres'))).includes('password')).toBe(true)
    if (isRoot) {
      const user = serverUser() ?? { uid: 0, gid: 0 }
      expect(spawnSync('cat', [join(dataDir, 'postgres', 'password')], user).status).not.toBe(0)
    }
  })

  it('whose password was lost gets a new one', async () => {
    const first = await start()
    await first.stop()
    await rm(join(dataDir, 'postgres', 'password'))
    const { connection } = await start()
    expect(connection.password).not.toBe(first.connection.password)
    expect(await ask(connection, 'select x from kept')).toEqual([{ x: 7 }])
  })

  it('of a killed Muster is stopped and restarted with all committed data', async () => {
    const muster = spawnMuster()
    const { connection, pid } = await muster.answer()
    await ask(connection, 'create table survivors (x int); insert into survivors values (1)')
    const open = new Client(connection)
    open.on('error', () => {})
    await open.connect()
    await open.query('begin; insert into survivors values (2)')
    await kill(muster.child)
    expect(identifyProcess(pid)).not.toBeNull()

    const next = await start()
    expect(identifyProcess(pid)).toBeNull()
    expect(next.pid).not.toBe(pid)
    expect(await ask(next.connection, 'select x from survivors')).toEqual([{ x: 1 }])
  })

  it('is stopped when its Muster ends without stopping it', async () => {
    const muster = spawnMuster()
    const { pid } = await muster.answer()
    muster.say('exit')
    await waitFor(() => identifyProcess(pid) === null, { what: 'the server to end' })
    // The server may end before its Muster does.
    await waitFor(() => identifyProcess(muster.child.pid ?? 0) === null, { what: 'Muster to exit' })
    await start()
  })

  it('killed together with its Muster is recovered', async () => {
    const muster = spawnMuster()
    const { connection, pid } = await muster.answer()
    await ask(connection, 'create table crashed (x int); insert into crashed values (1)')
    await kill(muster.child)
    process.kill(pid, 'SIGKILL')
    expect(await ask((await start()).connection, 'select x from crashed')).toEqual([{ x: 1 }])
  })

  it('in use is refused to another Muster, naming the directory and the process', async () => {
    const muster = spawnMuster()
    const { connection } = await muster.answer()
    const message = await messageOf(start())
    expect(message).toContain(dataDir)
    expect(message).toContain(`pid ${muster.child.pid}`)
    expect(await ask(connection, 'select 1 as one')).toEqual([{ one: 1 }])
    muster.say('stop')
    await once(muster.child, 'exit')
    await start()
  })

  it('that is killed is restarted at the same address', async () => {
    const postgres = await start()
    const first = postgres.pid
    await ask(postgres.connection, 'create table back (x int); insert into back values (1)')
    process.kill(first, 'SIGKILL')
    expect(await waitFor(() => ask(postgres.connection, 'select x from back'), { what: 'the server to be back' })).toEqual([{ x: 1 }])
    expect(postgres.pid).not.toBe(first)

    process.kill(postgres.pid, 'SIGKILL')
    await postgres.stop()
    expect(identifyProcess(postgres.pid)).toBeNull()
    await start()
  })

  it('that does not respond is killed with its children', async () => {
    // Seconds of patience pass in hundredths of them.
    const hasty: Clock = {
      now: () => Date.now(),
      monotonic: () => performance.now() * 100,
      sleep: (ms, signal) => systemClock.sleep(ms / 100, signal),
    }
    const postgres = await start(dataDir, { clock: hasty })
    const { pid } = postgres
    process.kill(pid, 'SIGSTOP')
    await postgres.stop()
    expect(identifyProcess(pid)).toBeNull()
    await start()
  })

  it('starts although the pid of its last run belongs to another program', async () => {
    await (await start()).stop()
    const other = spawn('sleep', ['60'], serverUser() ?? {})
    children.push(other)
    await once(other, 'spawn')
    const cluster = join(await homeOf(), 'data')
    await writeFile(join(cluster, 'postmaster.pid'), `${other.pid}\n${cluster}\n1\n5432\n/tmp\n\n  1 1\nready   \n`)
    if (isRoot) await chown(join(cluster, 'postmaster.pid'), serverUser()?.uid ?? 0, serverUser()?.gid ?? 0)
    await start()
    expect(other.exitCode ?? other.signalCode).toBeNull()
  })

  it('can be cancelled while it starts', async () => {
    const giveUp = new AbortController()
    const dir = join(top, 'given-up')
    const starting = messageOf(start(dir, { signal: giveUp.signal }))
    await waitFor(async () => (await readdir(await homeOf(dir))).some((name) => name.startsWith('init-')), { what: 'initdb to run' })
    giveUp.abort(new Error('enough'))
    expect(await starting).toBe('enough')
    expect((await readdir(await homeOf(dir))).filter((name) => name.startsWith('init-') || name === 'data')).toEqual([])
  })
})

describe('the files of an embedded server', () => {
  it('are complete after Muster was killed while creating them, repeatedly; and two directories are independent', async () => {
    const dir = join(top, 'half')
    const muster = spawnMuster(dir)
    await waitFor(async () => (await readdir(await homeOf(dir))).some((name) => name.startsWith('init-')), { what: 'initdb to run' })
    await kill(muster.child)
    const [made, other] = await Promise.all([start(dir), start()])
    expect((await readdir(await homeOf(dir))).filter((name) => name.startsWith('init-'))).toEqual([])
    await ask(made.connection, 'create table only_here (x int)')
    expect(await messageOf(ask(other.connection, 'select * from only_here'))).toContain('does not exist')
    expect(made.connection.password).not.toBe(other.connection.password)
  })

  it('may have a path that is too long for a socket and full of odd characters', async () => {
    const odd = `${"a long, odd näme's ".repeat(6)}end`
    const { connection, stop } = await start(join(top, 'closed', odd), { systemBase: join(top, odd) })
    expect(Buffer.byteLength(connection.host)).toBeLessThan(90)
    expect(await ask(connection, 'select 1 as one')).toEqual([{ one: 1 }])
    await stop()
    await expect(access(connection.host)).rejects.toThrow()
  })

  it('cannot have a path that a shell would change', async () => {
    expect(await messageOf(start(join(top, 'a $dir'), { systemBase: join(top, 'a $base') }))).toMatch(/cannot use .*\$/)
  })

  it('are all in the data directory when an ordinary user starts it', async ({ skip }) => {
    const user = isRoot ? serverUser() : null
    if (user !== null && spawnSync(process.execPath, ['-e', `require('fs').accessSync(${JSON.stringify(script)})`], user).status !== 0) {
      skip('another user cannot read this clone, so the test has no user to run as')
    }
    const dir = join(top, 'ordinary')
    await mkdir(dir, { mode: 0o700 })
    if (user !== null) await chown(dir, user.uid, user.gid)
    const muster = spawnMuster(dir, user)
    const { connection, error } = await muster.answer()
    expect(error).toBeUndefined()
    expect(connection.host.startsWith(join(dir, 'postgres'))).toBe(true)
    expect(await ask(connection, 'select 1 as one')).toEqual([{ one: 1 }])
    muster.say('stop')
    await once(muster.child, 'exit')
    expect(muster.child.exitCode).toBe(0)
    if (isRoot) expect(await messageOf(start(dir))).toContain('start Muster as that user')
  })
})

describe.runIf(isRoot)('as root, the files of an embedded server', () => {
  it('belong to a data directory, not to its name: a recreated one gets a new database', async () => {
    const first = await start()
    await ask(first.connection, 'create table of_the_old_one (x int)')
    await first.stop()
    const oldHome = await homeOf()
    await rm(dataDir, { recursive: true })
    const left: unknown[] = []
    const { connection } = await start(dataDir, { log: { ...silentLog, warn: (message, fields) => left.push(message, fields) } })
    expect(left).toEqual([expect.stringContaining('database of an earlier data directory found'), { path: oldHome }])
    expect(await homeOf()).not.toBe(oldHome)
    expect(await messageOf(ask(connection, 'select * from of_the_old_one'))).toContain('does not exist')
  })

  it('are found by a data directory that was moved, and refused to a copy', async () => {
    await (await start()).stop()
    const copy = join(top, 'copy')
    await cp(dataDir, copy, { recursive: true })
    expect(await messageOf(start(copy))).toContain(`is a copy of ${dataDir}`)
    await rm(dataDir, { recursive: true })
    await start(copy)
  })

  it('that are missing are an error, not replaced by an empty database', async () => {
    const dir = join(top, 'copy')
    await rm(await homeOf(dir), { recursive: true })
    expect(await messageOf(start(dir))).toMatch(/which is missing\. Restore that directory/)
  })

  it('need a base that only root can write to', async () => {
    const open = join(top, 'open')
    await mkdir(open)
    await chmod(open, 0o777)
    const message = await messageOf(startEmbedded({ dataDir: join(top, 'x'), systemBase: open, clock: systemClock, log: silentLog }))
    expect(message).toMatch(/cannot use .*open: .*owned by root.*--database-url/)
  })
})
