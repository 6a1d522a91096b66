// Starts PostgreSQL's programs as the server's user, with an environment of their own: no PG* variable of the caller reaches them.
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { basename } from 'node:path'
import { refusal } from './refusal.ts'
import type { ServerUser } from './server-user.ts'

export interface Program {
  readonly path: string
  readonly args: readonly string[]
  readonly user: ServerUser | null
}

const environment = { PATH: '/usr/local/bin:/usr/bin:/bin', LC_ALL: 'C', TZ: 'UTC' }

/**
 * Resolves when the program runs. It gets a session of its own: Ctrl-C on the terminal is for Muster, which stops the server when
 * nobody needs it any more.
 */
export async function startProgram({ path, args, user }: Program, stdio: 'pipe' | ['ignore', number, number]): Promise<ChildProcess> {
  const child = spawn(path, args, { cwd: '/', env: environment, stdio, detached: true, ...user })
  try {
    await once(child, 'spawn')
  } catch (error) {
    const as = user === null ? '' : ` as the user with the number ${user.uid}`
    const reason = error instanceof Error ? error.message : String(error)
    throw refusal(
      'unavailable',
      `can't run ${path}${as}: ${reason}. Start Muster as an ordinary user, or give it a database with --database-url`,
      error,
    )
  }
  return child
}

/** Runs it to its end; throws with what it printed when it fails. */
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
  child.stdin?.on('error', () => {}) // It may end without reading; its exit says why.
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
