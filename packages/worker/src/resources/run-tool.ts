// Runs a vendor's tool and gives its output, or says why not; never throws and never waits long.
// nvidia-smi hangs when a driver is stuck, sometimes so that not even SIGKILL ends it: while one
// still runs, the same program is not started again, so they can't pile up.
import { spawn, type ChildProcess } from 'node:child_process'
import { errorCode, type Clock } from '@muster/host'

export type Tool = Readonly<{ program: string; args: readonly string[] }>
export type ToolOutcome =
  | { readonly kind: 'ok'; readonly stdout: string }
  | { readonly kind: 'absent' }
  | { readonly kind: 'failed'; readonly reason: string }
export type RunTool = (tool: Tool) => Promise<ToolOutcome>

export type RunningTool = Readonly<{ child: ChildProcess; kill: () => void }>
export type StartTool = (tool: Tool) => RunningTool

/** Tools see no secrets: settings may be in the environment. */
export const startTool =
  (env: Readonly<Record<string, string | undefined>>): StartTool =>
  ({ program, args }) => {
    const child = spawn(program, args, {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...Object.fromEntries(Object.entries(env).filter(([name]) => !name.startsWith('MUSTER_'))), LC_ALL: 'C' },
      // A group of its own, so that what a wrapper script started goes with it.
      detached: true,
    })
    return { child, kill: () => killGroup(child) }
  }

function killGroup({ pid }: ChildProcess): void {
  if (pid === undefined) return
  try {
    process.kill(-pid, 'SIGKILL')
  } catch (error) {
    // It ended a moment ago.
    if (errorCode(error) !== 'ESRCH') throw error
  }
}

function errorOf(work: () => void): string | null {
  try {
    work()
    return null
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
}

const largestOutput = 1_000_000
/** What is not installed is hardly installed a moment later, and looking for it is not free. */
const absentForMs = 10 * 60_000

export type ToolRunnerDeps = Readonly<{ start: StartTool; timeoutMs: number; clock: Clock }>

export function createToolRunner({ start, timeoutMs, clock }: ToolRunnerDeps): RunTool {
  const alive = new Set<string>()
  const absentSince = new Map<string, number>()
  return async (tool) => {
    const { program } = tool
    if (alive.has(program)) return { kind: 'failed', reason: `${program} hangs since an earlier run` }
    if (clock.monotonic() - (absentSince.get(program) ?? -Infinity) < absentForMs) return { kind: 'absent' }
    alive.add(program)
    const running = start(tool)
    running.child.once('exit', () => alive.delete(program))
    const outcome = await outcomeOf(running, { program, timeoutMs, onNeverStarted: () => alive.delete(program) })
    if (outcome.kind === 'absent') absentSince.set(program, clock.monotonic())
    return outcome
  }
}

type Watch = { program: string; timeoutMs: number; onNeverStarted: () => void }

function outcomeOf({ child, kill }: RunningTool, watch: Watch): Promise<ToolOutcome> {
  const { program } = watch
  return new Promise((resolve) => {
    let stdout = ''
    let stderr = ''
    const settle = (outcome: ToolOutcome): void => {
      clearTimeout(timer)
      resolve(outcome)
    }
    const giveUp = (why: string): void => {
      // What runs as another user may be out of reach (EPERM): it stays among those that hang.
      const obstacle = errorOf(kill)
      const reason = obstacle === null ? why : `${why}, and can't be ended: ${obstacle}`
      // What can't be killed must not keep this process from ending either.
      child.stdout?.destroy()
      child.stderr?.destroy()
      child.unref()
      settle({ kind: 'failed', reason })
    }
    const timer = setTimeout(() => giveUp(`${program} did not answer within ${watch.timeoutMs} ms`), watch.timeoutMs)
    child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      stdout += text
      if (stdout.length > largestOutput) giveUp(`${program} printed more than ${largestOutput} characters`)
    })
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      stderr = (stderr + text).slice(-500)
    })
    child.once('error', (error: NodeJS.ErrnoException) => {
      if (child.pid === undefined) watch.onNeverStarted()
      settle(error.code === 'ENOENT' ? { kind: 'absent' } : { kind: 'failed', reason: `${program}: ${error.message}` })
    })
    child.once('close', (code, signal) => {
      if (code === 0) return settle({ kind: 'ok', stdout })
      const said = (stderr.trim() || stdout.trim()).slice(0, 500)
      settle({ kind: 'failed', reason: `${program} ended with ${signal ?? `exit code ${code}`}${said === '' ? '' : `: ${said}`}` })
    })
  })
}
