// Processes of PostgreSQL: runs its programs as the server's user, starts the server, and replaces it when it dies.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { basename } from 'node:path'
import { type Clock, identifyProcess, isAlive, type Log, type ProcessIdentity } from '@muster/host'
import { backoffMs } from '@muster/protocol'
import { readLogSince } from './bounded-log.ts'
import { isReady, type StopPace, stopPostmaster } from './postmaster.ts'
import { refusal } from './refusal.ts'

export interface ServerProcess {
  readonly identity: ProcessIdentity
  /** Resolves when the process has exited. */
  readonly ended: Promise<{ code: number | null; signal: NodeJS.Signals | null }>
  stop(how: StopPace): Promise<void>
}

export interface ServerPlan {
  readonly program: Program
  readonly clusterDir: string
  readonly logFile: string
  readonly clock: Clock
  readonly log: Log
  /** Called before the server is ready. */
  readonly onSpawn: (identity: ProcessIdentity) => Promise<void>
  readonly signal?: AbortSignal
}

/** A longer start is only logged: after a crash the server may have much to replay. */
const slowStartMs = 5_000

export async function startServer(plan: ServerPlan): Promise<ServerProcess> {
  plan.signal?.throwIfAborted()
  await using logFile = await open(plan.logFile, 'a', 0o600)
  const { size } = await logFile.stat()
  const child = await startProgram(plan.program, ['ignore', logFile.fd, logFile.fd])
  const server = watch(child, plan)
  try {
    await plan.onSpawn(server.identity)
    await untilReady(server, { plan, logSize: size })
  } catch (error) {
    await server.stop('in order')
    throw error
  }
  return server
}

function watch(child: ChildProcess, { clock, log }: ServerPlan): ServerProcess {
  const ended = once(child, 'exit').then(() => ({ code: child.exitCode, signal: child.signalCode }))
  const pid = child.pid ?? 0
  // If the process has exited already, the identity is not used: `ended` resolves.
  const identity = identifyProcess(pid) ?? { pid, started: 'ended', boot: '' }
  return {
    identity,
    ended,
    stop: async (how) => {
      await stopPostmaster(identity, { clock, log }, how)
      await ended
    },
  }
}

async function untilReady(server: ServerProcess, { plan, logSize }: { plan: ServerPlan; logSize: number }): Promise<void> {
  const { clock, signal, clusterDir } = plan
  let hasEnded = false
  void server.ended.finally(() => {
    hasEnded = true
  })
  const begin = clock.monotonic()
  let isLogged = false
  while (!(await isReady(clusterDir, server.identity.pid))) {
    if (hasEnded) throw new Error(`the database server did not start; its log: ${await readLogSince(plan.logFile, logSize)}`)
    if (!isLogged && clock.monotonic() - begin > slowStartMs) {
      isLogged = true
      plan.log.warn('database server starts slowly', { log: plan.logFile })
    }
    await clock.sleep(5, signal)
  }
}

interface KeptServer {
  /** The running server. */
  readonly current: ServerProcess
  stop(how: StopPace): Promise<void>
}

interface KeepDeps {
  readonly start: (signal: AbortSignal) => Promise<ServerProcess>
  readonly clock: Clock
  readonly log: Log
}

/** A server that ran this long did not fail at its start. */
const stableAfterMs = 60_000

/** Restarts a server that died (killed, out of memory) until `stop`. Clients only see dropped connections. */
export function keepRunning(first: ServerProcess, { start, clock, log }: KeepDeps): KeptServer {
  const stopping = new AbortController()
  const { signal } = stopping
  const stopped = new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()))
  let current = first

  // If Muster exits, it stops the server; if Muster is killed, the next start does.
  const onExit = (): void => {
    if (isAlive(current.identity)) process.kill(current.identity.pid, 'SIGINT')
  }
  process.on('exit', onExit)

  const replace = async (failures: number): Promise<ServerProcess | null> => {
    for (let attempt = failures + 1; !signal.aborted; attempt += 1) {
      try {
        await clock.sleep(backoffMs(attempt, { baseMs: 50, maxMs: 5_000, jitter: 0 }, 0.5), signal)
        return await start(signal)
      } catch (error) {
        if (!signal.aborted) log.error('cannot restart the database server; retrying', { error, attempt })
      }
    }
    return null
  }

  const watching = (async () => {
    let failures = 0
    while (!signal.aborted) {
      const begin = clock.monotonic()
      const how = await Promise.race([current.ended, stopped])
      if (signal.aborted || how === undefined) return
      log.error('database server exited; restarting', { pid: current.identity.pid, ...how })
      failures = clock.monotonic() - begin > stableAfterMs ? 0 : failures + 1
      current = (await replace(failures - 1)) ?? current
    }
  })()

  return {
    get current() {
      return current
    },
    stop: async (how) => {
      stopping.abort()
      await watching
      await current.stop(how)
      process.off('exit', onExit)
    },
  }
}

interface Program {
  readonly path: string
  readonly args: readonly string[]
  readonly user: ServerUser | null
}

/** Without the caller's PG* variables. */
const environment = { PATH: '/usr/local/bin:/usr/bin:/bin', LC_ALL: 'C', TZ: 'UTC' }

/** Resolves when the program runs. It gets its own session, so that Ctrl-C on the terminal reaches only Muster, which stops the server. */
async function startProgram({ path, args, user }: Program, stdio: 'pipe' | ['ignore', number, number]): Promise<ChildProcess> {
  const child = spawn(path, args, { cwd: '/', env: environment, stdio, detached: true, ...user })
  try {
    await once(child, 'spawn')
  } catch (error) {
    const as = user === null ? '' : ` as uid ${user.uid}`
    const reason = error instanceof Error ? error.message : String(error)
    throw refusal(
      'unavailable',
      `cannot run ${path}${as}: ${reason}. Start Muster as an ordinary user, or give it a database with --database-url`,
      error,
    )
  }
  return child
}

/** Waits for the program's end; throws with its output when it fails. */
export async function runProgram(program: Program, { input = '', signal }: { input?: string; signal?: AbortSignal }): Promise<void> {
  signal?.throwIfAborted()
  const child = await startProgram(program, 'pipe')
  const kill = (): void => void child.kill('SIGKILL')
  signal?.addEventListener('abort', kill)
  let printed = ''
  const keep = (chunk: Buffer): void => {
    printed = (printed + chunk.toString('utf8')).slice(-8192)
  }
  child.stdout?.on('data', keep)
  child.stderr?.on('data', keep)
  child.stdin?.on('error', () => {}) // The program may exit without reading; its exit code has the reason.
  child.stdin?.end(input)
  try {
    await once(child, 'close')
  } finally {
    signal?.removeEventListener('abort', kill)
  }
  signal?.throwIfAborted()
  if (child.exitCode !== 0)
    throw new Error(`${basename(program.path)} failed (${child.signalCode ?? `exit code ${child.exitCode}`}): ${printed.trim()}`)
}

export type ServerUser = Readonly<{ uid: number; gid: number }>

/** The server's user: PostgreSQL refuses to run as root, so root uses `nobody`. Null: the user of Muster. */
export function serverUser(): ServerUser | null {
  return process.getuid?.() === 0 ? nobody() : null
}

function nobody(): ServerUser {
  const unmapped = { uid: 65534, gid: 65534 }
  try {
    const line = readFileSync('/etc/passwd', 'utf8')
      .split('\n')
      .find((each) => each.startsWith('nobody:'))
    const [, , uid, gid] = line?.split(':') ?? []
    const found = { uid: Number(uid), gid: Number(gid) }
    // On macOS its uid is -2, the same user as an unsigned number.
    return Number.isInteger(found.uid) && found.uid > 0 && Number.isInteger(found.gid) && found.gid > 0 ? found : unmapped
  } catch {
    return unmapped
  }
}
