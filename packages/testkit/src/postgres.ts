// Real PostgreSQL servers for tests: the programs that Muster embeds, and those of the oldest version it supports. They live no longer
// than the process that started them, and by default they do not wait for the disk.
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { chmod, chown, mkdir, mkdtemp, open, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { identifyProcess, isAlive, newId, newSecret, identifySelf, type ProcessIdentity } from '@muster/host'
import { Client } from 'pg'
import { z } from 'zod'
// By path: the controller's barrel would load the whole controller into every test run.
import { copyServer, embeddedPackageName, findServerPackage } from '../../controller/src/postgres/programs.ts'
import { isReady } from '../../controller/src/postgres/postmaster.ts'
import { runProgram, serverUser } from '../../controller/src/postgres/server-process.ts'
import { freePort } from './free-port.ts'
import { waitFor } from './wait-for.ts'

export interface TestPostgresOptions {
  readonly version?: 15 | 18
  /** `disk`: what is committed survives a crash of the machine. Not needed to survive `kill`. */
  readonly durability?: 'disk' | 'none'
  /** `tcp` only where a test needs a port, to put something in between. */
  readonly listen?: 'socket' | 'tcp'
}

export interface TestPostgres extends AsyncDisposable {
  /** Process id of the server's first process. */
  readonly pid: number
  /** As the superuser. */
  url(database?: string): string
  /** A new one, empty or like the template; returns its name. */
  createDatabase(options?: { readonly template?: string }): Promise<string>
  /** To the server's first process; resolves at once. Use `restart` to have it back. */
  kill(signal: NodeJS.Signals): void
  /** Ends it at once, as a crash would, unless it has ended already; starts it on the same files and address. */
  restart(): Promise<void>
  stop(): Promise<void>
}

const prefix = 'muster-test-postgres-'
const user = 'muster'
const Owner = z.object({ pid: z.number(), started: z.string(), boot: z.string() })

export async function startTestPostgres({
  version = 18,
  durability = 'none',
  listen = 'socket',
}: TestPostgresOptions = {}): Promise<TestPostgres> {
  await removeAbandoned()
  const dir = await mkdtemp(join(tmpdir(), prefix))
  await chmod(dir, 0o711)
  await writeFile(join(dir, 'owner.json'), JSON.stringify(identifySelf()))
  const password = newSecret('test')
  await makeCluster({ dir, version, password })

  const port = listen === 'tcp' ? await freePort() : 5432
  const settings = {
    port,
    listen_addresses: listen === 'tcp' ? '127.0.0.1' : '',
    unix_socket_directories: join(dir, 'socket'),
    shared_buffers: '64MB',
    max_connections: 200,
    timezone: 'UTC',
    jit: 'off',
    // Databases of tests live for seconds: planning each statement five times per connection would cost more than running it.
    // Benchmarks use `disk` and plan as a server of users does.
    ...(durability === 'none' ? { fsync: 'off', full_page_writes: 'off', plan_cache_mode: 'force_generic_plan' } : {}),
  }
  const args = ['-D', join(dir, 'data'), ...Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])]
  let server = await startServer(dir, args)

  const url = (database = 'postgres'): string =>
    listen === 'tcp'
      ? `postgresql://${user}:${password}@127.0.0.1:${port}/${database}`
      : `postgresql://${user}:${password}@localhost/${database}?host=${encodeURIComponent(join(dir, 'socket'))}`
  const stop = async (): Promise<void> => {
    await server.stop()
    await rm(dir, { recursive: true, force: true, maxRetries: 5 })
  }
  return {
    get pid() {
      return server.identity.pid
    },
    url,
    createDatabase: async ({ template } = {}) => {
      const name = `test_${newId()}`
      await administer(url(), (client) => client.query(`create database ${name}${template === undefined ? '' : ` template ${template}`}`))
      return name
    },
    kill: (signal) => void process.kill(server.identity.pid, signal),
    restart: async () => {
      await server.stop()
      server = await startServer(dir, args)
    },
    stop,
    [Symbol.asyncDispose]: stop,
  }
}

export async function startSharedPostgres(): Promise<{ readonly url: string; stop(): Promise<void> }> {
  const server = await startTestPostgres()
  return { url: server.url(), stop: () => server.stop() }
}

export async function administer<T>(url: string, work: (client: Client) => Promise<T>): Promise<T> {
  const client = new Client({ connectionString: url })
  await client.connect()
  try {
    return await work(client)
  } finally {
    await client.end()
  }
}

async function makeCluster({ dir, version, password }: { dir: string; version: 15 | 18; password: string }): Promise<void> {
  const packageName = version === 18 ? embeddedPackageName : `postgres-${version}-${process.platform}-${process.arch}`
  const found = findServerPackage(packageName, import.meta.filename)
  if (found === null) throw new Error(`the npm package ${packageName} with PostgreSQL ${version} is not installed`)
  await copyServer({ nativeDir: found.nativeDir, target: join(dir, 'server') })

  const owner = serverUser()
  const passwordFile = join(dir, 'password')
  await writeFile(passwordFile, password, { mode: 0o600 })
  for (const name of ['data', 'socket']) await mkdir(join(dir, name), { mode: 0o700 })
  for (const name of ['data', 'socket', 'password']) if (owner !== null) await chown(join(dir, name), owner.uid, owner.gid)
  const args = ['-D', join(dir, 'data'), '--no-sync', '--encoding=UTF8', '--locale=C', `--username=${user}`, `--pwfile=${passwordFile}`]
  if (version === 18) args.push('--set=scram_iterations=1') // Thousands of connections, no secret.
  await runProgram({ path: join(dir, 'server', 'bin', 'initdb'), args: [...args, '--auth=scram-sha-256'], user: owner }, {})
}

interface RunningServer {
  readonly identity: ProcessIdentity
  stop(): Promise<void>
}

// Standard input is the server's life line: when this process is gone, however it went, `cat` ends and the server is stopped.
const wrapper = '"$@" </dev/null & server=$!; cat >/dev/null; kill -QUIT $server; wait $server'

async function startServer(dir: string, args: readonly string[]): Promise<RunningServer> {
  const log = await open(join(dir, 'postgres.log'), 'a')
  const program = [join(dir, 'server', 'bin', 'postgres'), ...args]
  const child = spawn('/bin/sh', ['-c', wrapper, 'sh', ...program], {
    cwd: '/',
    stdio: ['pipe', log.fd, log.fd],
    detached: true,
    ...serverUser(),
  })
  await once(child, 'spawn')
  await log.close()
  try {
    const identity = await waitFor(() => readyServer(dir, child), { what: 'the PostgreSQL server to start' })
    return {
      identity,
      stop: async () => {
        if (isAlive(identity)) process.kill(identity.pid, 'SIGCONT')
        child.stdin?.end()
        if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
      },
    }
  } catch (error) {
    child.stdin?.end()
    throw new Error(await readFile(join(dir, 'postgres.log'), 'utf8'), { cause: error })
  }
}

async function readyServer(dir: string, child: ChildProcess): Promise<ProcessIdentity | null> {
  if (child.exitCode !== null) throw new Error('it has ended')
  const pid = Number.parseInt(await readFile(join(dir, 'data', 'postmaster.pid'), 'utf8'), 10)
  return (await isReady(join(dir, 'data'), pid)) ? identifyProcess(pid) : null
}

/** Files of test runs that were killed; their servers ended with them. */
async function removeAbandoned(): Promise<void> {
  for (const name of await readdir(tmpdir())) {
    if (!name.startsWith(prefix)) continue
    const dir = join(tmpdir(), name)
    try {
      const owner = Owner.parse(JSON.parse(await readFile(join(dir, 'owner.json'), 'utf8')))
      if (!isAlive(owner)) await rm(dir, { recursive: true, force: true })
    } catch {
      // Another user's, or just being made.
    }
  }
}
