// Child processes of a test: started in a process group of their own, so that ending one ends its children too;
// their output kept, so that a failure can show it.
import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { delimiter, join } from 'node:path'
import { findBundle } from './bundle-programs.ts'
import { waitFor } from './wait-for.ts'

const repositoryRoot = join(import.meta.dirname, '..', '..', '..')
const binaries = join(repositoryRoot, 'node_modules', '.bin')
const linesShown = 30
const outputGraceMs = 200

export interface StartOptions {
  readonly args?: readonly string[]
  readonly cwd?: string
  /** Added to the environment of the test, from which every MUSTER_* is left out. */
  readonly env?: Readonly<Record<string, string>>
  /** How long `stop` waits before it kills. */
  readonly stopTimeoutMs?: number
}

export interface Exit {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
}

export interface StartedProcess extends AsyncDisposable {
  readonly pid: number
  readonly exited: Promise<Exit>
  hasExited(): boolean
  stdout(): string
  stderr(): string
  /** Both, in the order in which they came. */
  output(): string
  /** Fails with the last lines of output when the process ends, or the time is over, before the pattern appears. */
  waitForOutput(pattern: RegExp, timeoutMs?: number): Promise<RegExpExecArray>
  /** To this process alone, as a crash or an operator would; its children live on until `stop`. */
  kill(signal?: NodeJS.Signals): void
  /** Sends SIGTERM; kills the process and the rest of its group if it does not exit. */
  stop(): Promise<Exit>
}

export interface Processes extends AsyncDisposable {
  start(program: string, options?: StartOptions): Promise<StartedProcess>
  /** The command line of this repository, as `npm run muster` would start it. */
  muster(args: readonly string[], options?: Omit<StartOptions, 'args'> & { readonly within?: string }): Promise<StartedProcess>
  stopAll(): Promise<void>
}

/** Its processes live no longer than this one: call `stopAll` in `afterAll`. */
export function createProcesses(): Processes {
  const started = new Set<StartedProcess>()
  const killAll = (): void => {
    for (const each of started) signalGroup(each.pid, 'SIGKILL')
  }
  const start: Processes['start'] = async (program, options = {}) => {
    if (started.size === 0) process.on('exit', killAll)
    const child = await startProcess(program, { ...options, args: await bundleSources(options.args ?? []) })
    started.add(child)
    return child
  }
  const stopAll = async (): Promise<void> => {
    await Promise.all([...started].map((each) => each.stop()))
    started.clear()
    process.off('exit', killAll)
  }
  return {
    start,
    muster: (args, { within, ...options } = {}) => {
      const command = [join(binaries, 'node'), join(repositoryRoot, 'packages', 'cli', 'src', 'main.ts'), ...args]
      // `ip netns exec` becomes the program, so its pid is the program's.
      const [program = '', ...rest] = within === undefined ? command : ['ip', 'netns', 'exec', within, ...command]
      return start(program, { ...options, args: rest })
    },
    stopAll,
    [Symbol.asyncDispose]: stopAll,
  }
}

async function startProcess(program: string, options: StartOptions): Promise<StartedProcess> {
  const { args = [], cwd = repositoryRoot, env = {}, stopTimeoutMs = 60_000 } = options
  const child = spawn(program, args, { cwd, env: { ...inheritedEnv(), ...env }, detached: true, stdio: ['ignore', 'pipe', 'pipe'] })
  const title = [program, ...args].join(' ')
  const { pid, exited } = await spawned(child, title)
  const text = { stdout: '', stderr: '', both: '' }
  collect(child, text)
  const hasExited = (): boolean => child.exitCode !== null || child.signalCode !== null
  const describe = (what: string): Error => new Error(`${what}: ${title}\n${lastLines(text.both)}`)

  const stop = async (): Promise<Exit> => {
    if (!hasExited()) child.kill('SIGTERM')
    const ended = await endsWithin(exited, stopTimeoutMs)
    signalGroup(pid, 'SIGKILL')
    const exit = await exited
    if (!ended) throw describe(`did not end within ${stopTimeoutMs} ms of SIGTERM`)
    return exit
  }
  return {
    pid,
    exited,
    hasExited,
    stdout: () => text.stdout,
    stderr: () => text.stderr,
    output: () => text.both,
    waitForOutput: async (pattern, timeoutMs = 90_000) => {
      const look = (): RegExpExecArray | 'ended' | null => pattern.exec(text.both) ?? (hasExited() ? 'ended' : null)
      const found = await waitFor(look, { what: String(pattern), timeoutMs }).catch(() => {
        throw describe(`waited ${timeoutMs} ms for ${pattern} in the output`)
      })
      if (found === 'ended') throw describe(`ended (${child.signalCode ?? child.exitCode}) without ${pattern} in its output`)
      return found
    },
    kill: (signal = 'SIGKILL') => child.kill(signal),
    stop,
    [Symbol.asyncDispose]: async () => {
      await stop()
    },
  }
}

async function spawned(child: ChildProcess, title: string): Promise<{ pid: number; exited: Promise<Exit> }> {
  const exited = new Promise<Exit>((resolve) => {
    child.once('exit', (code, signal) => {
      // Once it is closed all of its output has been read; but a child of its own may hold it open.
      const timer = setTimeout(() => resolve({ code, signal }), outputGraceMs)
      child.once('close', () => {
        clearTimeout(timer)
        resolve({ code, signal })
      })
    })
  })
  try {
    await once(child, 'spawn')
  } catch (cause) {
    throw new Error(`cannot start ${title}`, { cause })
  }
  if (child.pid === undefined) throw new Error(`a started process has a pid: ${title}`)
  return { pid: child.pid, exited }
}

function collect(child: ChildProcess, text: { stdout: string; stderr: string; both: string }): void {
  for (const name of ['stdout', 'stderr'] as const) {
    child[name]?.setEncoding('utf8').on('data', (chunk: string) => {
      text[name] += chunk
      text.both += chunk
    })
  }
}

async function endsWithin(exited: Promise<Exit>, timeoutMs: number): Promise<boolean> {
  const timeout = Promise.withResolvers<false>()
  const timer = setTimeout(() => timeout.resolve(false), timeoutMs)
  try {
    return await Promise.race([exited.then(() => true), timeout.promise])
  } finally {
    clearTimeout(timer)
  }
}

function signalGroup(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(-pid, signal)
  } catch {
    // Nobody is left in it.
  }
}

/** Sources of programs are replaced by their bundles, which global-setup made. */
const bundleSources = (args: readonly string[]): Promise<string[]> =>
  Promise.all(args.map(async (arg) => (arg.endsWith('.ts') ? await findBundle(process.env['TEST_PROGRAMS'], arg) : arg)))

/** A developer's own MUSTER_* settings must not decide whether a test passes. */
function inheritedEnv(): Record<string, string> {
  const entries = Object.entries(process.env).filter((entry): entry is [string, string] => entry[1] !== undefined)
  const own = entries.filter(([name]) => !name.startsWith('MUSTER_'))
  // Half of what a start costs is compiling the sources; hundreds of processes start in a run.
  const cache = { NODE_COMPILE_CACHE: join(repositoryRoot, '.cache', 'compiled') }
  // Debian keeps nats-server in a directory that is not on everybody's path.
  return { ...cache, ...Object.fromEntries(own), PATH: [binaries, process.env['PATH'] ?? '', '/usr/sbin'].join(delimiter) }
}

function lastLines(text: string): string {
  const lines = text.trimEnd().split('\n')
  return text === '' ? '(no output)' : lines.slice(-linesShown).join('\n')
}
