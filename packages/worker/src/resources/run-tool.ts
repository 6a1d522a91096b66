// Runs a vendor's tool and returns its output or the reason of its failure; never throws and never waits long.
// nvidia-smi hangs when a driver is stuck, sometimes beyond SIGKILL: while one still runs, the same program is not started
// again, so that they do not pile up.
import { spawn, type ChildProcess } from 'node:child_process'
import { errorCode, type Clock, errorMessage } from '@muster/host'

export type Tool = Readonly<{ program: string; args: readonly string[] }>
export type ToolOutcome =
  | { readonly kind: 'ok'; readonly stdout: string }
  | { readonly kind: 'absent' }
  | { readonly kind: 'failed'; readonly reason: string }
export type RunTool = (tool: Tool) => Promise<ToolOutcome>

export type RunningTool = Readonly<{ child: ChildProcess; kill: () => void }>
export type StartTool = (tool: Tool) => RunningTool

/** Hides the worker's settings, which may be secrets, from the tool. */
export const startTool =
  (env: Readonly<Record<string, string | undefined>>): StartTool =>
  ({ program, args }) => {
    const child = spawn(program, args, {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...Object.fromEntries(Object.entries(env).filter(([name]) => !name.startsWith('MUSTER_'))), LC_ALL: 'C' },
      // A process group of its own, so that children of a wrapper script are killed too.
      detached: true,
    })
    return { child, kill: () => killGroup(child) }
  }

function killGroup({ pid }: ChildProcess): void {
  if (pid === undefined) return
  try {
    process.kill(-pid, 'SIGKILL')
  } catch (error) {
    // It has exited already.
    if (errorCode(error) !== 'ESRCH') throw error
  }
}

function errorOf(work: () => void): string | null {
  try {
    work()
    return null
  } catch (error) {
    return errorMessage(error)
  }
}

const largestOutput = 1_000_000
/** Searching for a missing program is not free, and it is rarely installed a moment later. */
const absentForMs = 10 * 60_000

export type ToolRunnerDeps = Readonly<{ start: StartTool; timeoutMs: number; clock: Clock }>

export function createToolRunner({ start, timeoutMs, clock }: ToolRunnerDeps): RunTool {
  const alive = new Set<string>()
  const absentSince = new Map<string, number>()
  return async (tool) => {
    const { program } = tool
    if (alive.has(program)) return { kind: 'failed', reason: `${program} still hangs from an earlier run` }
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
      // A process of another user cannot be killed (EPERM); it stays among the hanging ones.
      const obstacle = errorOf(kill)
      const reason = obstacle === null ? why : `${why}, and cannot be killed: ${obstacle}`
      // A process that cannot be killed must not keep the worker from exiting.
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
      const output = (stderr.trim() || stdout.trim()).slice(0, 500)
      settle({ kind: 'failed', reason: `${program} ended with ${signal ?? `exit code ${code}`}${output === '' ? '' : `: ${output}`}` })
    })
  })
}
