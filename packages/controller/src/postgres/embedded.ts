// The embedded database: a PostgreSQL server for one data directory, reachable through a unix socket only, that runs as long
// as this Muster process. home.ts decides where its files are, claim.ts which process uses them.
import { mkdir, realpath } from 'node:fs/promises'
import { join } from 'node:path'
import { errorCode, newSecret, type Clock, type Log } from '@muster/host'
import { Client } from 'pg'
import { keepLogBounded } from './bounded-log.ts'
import { claimHome, type Claim } from './claim.ts'
import { databaseName, isCluster, makeCluster, removeHalfMade, serverSettings, setPassword, superuser } from './cluster.ts'
import { whileUnavailable } from '../store/errors.ts'
import { explainFullDisk, refusal } from './refusal.ts'
import { defaultSystemBase, makeSocketDir, openHome, port, type ServerHome } from './home.ts'
import { keepRunning, type ServerPlan, type ServerProcess, serverUser, startServer } from './server-process.ts'
import { stopOrphan, type StopPace } from './postmaster.ts'
import { readIfThere, writePrivateFile } from './private-file.ts'
import { embeddedPackageName, findServerPackage, type Programs, providePrograms, removeOtherPrograms } from './programs.ts'

export type EmbeddedConnection = Readonly<{ host: string; port: number; user: string; database: string; password: string }>

export interface EmbeddedPostgres {
  readonly connection: EmbeddedConnection
  /** The server's current pid: a server that died is replaced. */
  readonly pid: number
  stop(how?: StopPace): Promise<void>
}

export interface EmbeddedOptions {
  readonly dataDir: string
  readonly clock: Clock
  readonly log: Log
  /** Cancels the start. */
  readonly signal?: AbortSignal | undefined
  /** Parent directory of servers that root starts. */
  readonly systemBase?: string
}

/** Children of a killed server hold its shared memory until they exit. */
const patienceAfterCrashMs = 10_000
/** PostgreSQL's error code. */
const wrongPassword = '28P01'

export async function startEmbedded(options: EmbeddedOptions): Promise<EmbeddedPostgres> {
  const { systemBase = defaultSystemBase } = options
  try {
    return await openAndStart({ ...options, systemBase })
  } catch (error) {
    throw explainFullDisk(error, [options.dataDir, ...(serverUser() === null ? [] : [systemBase])])
  }
}

async function openAndStart(options: EmbeddedOptions & { readonly systemBase: string }): Promise<EmbeddedPostgres> {
  const { log, systemBase } = options
  await mkdir(options.dataDir, { recursive: true, mode: 0o700 })
  const dataDir = await realpath(options.dataDir)
  const home = await openHome({ dataDir, systemBase, log })
  const claim = await claimHome({ dir: home.dir, dataDir })
  try {
    return await startIn(home, claim, options)
  } catch (error) {
    await claim.release()
    throw error
  }
}

async function startIn(home: ServerHome, claim: Claim, { clock, log, signal }: EmbeddedOptions): Promise<EmbeddedPostgres> {
  const clusterDir = join(home.dir, 'data')
  await stopOrphan({ clusterDir, recorded: claim.previousServer, deps: { clock, log } })
  await removeHalfMade(home.dir, clock)
  const programs = await providePrograms({ home: home.dir, available: findServerPackage(embeddedPackageName, import.meta.filename), log })
  const password = await provideCluster(home, { programs, log, ...(signal === undefined ? {} : { signal }) })
  const socket = await makeSocketDir(home.dir, home.user)
  const logFile = join(home.privateDir, 'postgres.log')
  const settings = serverSettings({ socketDir: socket.path, major: programs.major })
  const program = { path: join(programs.dir, 'bin', 'postgres'), args: ['-D', clusterDir, ...settings], user: home.user }
  const start = (stop?: AbortSignal): Promise<ServerProcess> =>
    startAfterCrash({
      program,
      clusterDir,
      logFile,
      clock,
      log,
      onSpawn: (server) => claim.recordServer(server),
      ...(stop === undefined ? {} : { signal: stop }),
    })

  const first = await start(signal)
  const kept = keepRunning(first, { start, clock, log })
  const logBound = new AbortController()
  const bounding = keepLogBounded({ path: logFile, clock, log, signal: logBound.signal })
  const stop = async (how: StopPace): Promise<void> => {
    await kept.stop(how)
    logBound.abort()
    await bounding
    await socket.remove()
    await claim.release()
  }
  try {
    const connection = { host: socket.path, port, user: superuser, database: databaseName, password }
    const living = AbortSignal.any([endOf(first), ...(signal === undefined ? [] : [signal])])
    const serverVersion = await whileUnavailable({ clock, log, signal: living }, () => readVersion(connection)).catch((error: unknown) => {
      throw errorCode(error) === wrongPassword ? foreignPassword(home, error) : error
    })
    await removeOtherPrograms(home.dir, programs)
    log.info('embedded database started', { version: serverVersion, path: home.dir, pid: first.identity.pid })
    return {
      connection,
      get pid() {
        return kept.current.identity.pid
      },
      stop: onlyOnce(stop),
    }
  } catch (error) {
    await stop('in order')
    throw error
  }
}

function foreignPassword({ dir, privateDir }: ServerHome, cause: unknown): Error {
  const path = join(privateDir, 'password')
  return refusal(
    'conflict',
    `the password in ${path} does not match the database in ${dir}: remove ${path}, and the next start sets a new one`,
    cause,
  )
}

/** Retries for a while after an unclean shutdown. */
async function startAfterCrash(plan: ServerPlan): Promise<ServerProcess> {
  const { clusterDir, clock, signal } = plan
  const deadline = clock.monotonic() + patienceAfterCrashMs
  const hasCrashed = (await readIfThere(join(clusterDir, 'postmaster.pid'))) !== null
  for (;;) {
    if (hasCrashed) await stopOrphan({ clusterDir, recorded: null, deps: plan })
    try {
      return await startServer(plan)
    } catch (error) {
      if (!hasCrashed || signal?.aborted === true || clock.monotonic() > deadline) throw error
      await clock.sleep(100, signal)
    }
  }
}

/** Creates the cluster unless it exists; returns its password. */
async function provideCluster(
  home: ServerHome,
  { programs, log, signal }: { programs: Programs; log: Log; signal?: AbortSignal },
): Promise<string> {
  const passwordFile = join(home.privateDir, 'password')
  const stored = await readPassword(passwordFile, log)
  const password = stored ?? newSecret('muster_postgres')
  const plan = { dir: home.dir, serverDir: programs.dir, user: home.user, password, ...(signal === undefined ? {} : { signal }) }
  if (!(await isCluster(join(home.dir, 'data'), home.user))) {
    if (stored === null) await writePrivateFile(passwordFile, password)
    await makeCluster(plan)
  } else if (stored === null) {
    await setPassword(plan)
    await writePrivateFile(passwordFile, password)
  }
  return password
}

/** Null for a damaged password: the cluster then gets a new one. */
async function readPassword(path: string, log: Log): Promise<string | null> {
  const text = (await readIfThere(path))?.trim() ?? null
  if (text === null || /^muster_postgres_[\w-]{43}$/.test(text)) return text
  log.warn('password of the embedded database is damaged; setting a new one', { path })
  return null
}

/** Aborts when the server has exited: waiting for it is useless then. */
function endOf(server: ServerProcess): AbortSignal {
  const ended = new AbortController()
  void server.ended.then(() => ended.abort(new Error('the database server exited during the start')))
  return ended.signal
}

async function readVersion(connection: EmbeddedConnection): Promise<string> {
  const client = new Client({ ...connection, connectionTimeoutMillis: 10_000 })
  client.on('error', () => {}) // The query rejects with it.
  await client.connect()
  try {
    const result = await client.query<{ version: string }>("select current_setting('server_version') as version")
    return result.rows[0]?.version ?? 'unknown'
  } finally {
    await client.end()
  }
}

function onlyOnce(stop: (how: StopPace) => Promise<void>): (how?: StopPace) => Promise<void> {
  let stopped: Promise<void> | null = null
  return (how = 'in order') => (stopped ??= stop(how))
}
