// Runs PostgreSQL's programs as the server's user, with an environment without the caller's PG* variables.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { basename } from 'node:path'
import { refusal } from './refusal.ts'

export interface Program {
  readonly path: string
  readonly args: readonly string[]
  readonly user: ServerUser | null
}

const environment = { PATH: '/usr/local/bin:/usr/bin:/bin', LC_ALL: 'C', TZ: 'UTC' }

/** Resolves when the program runs. It gets its own session, so that Ctrl-C on the terminal reaches only Muster, which stops the server. */
export async function startProgram({ path, args, user }: Program, stdio: 'pipe' | ['ignore', number, number]): Promise<ChildProcess> {
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
  child.stdin?.on('error', () => {}) // The program may exit without reading; its exit code tells why.
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
