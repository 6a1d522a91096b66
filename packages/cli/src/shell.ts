// The process around a command: terminal, environment, clock, signals and data directory.
import { homedir } from 'node:os'
import { type Clock, defaultDataDir } from '@muster/host'
import type { ExitCode } from './cli-error.ts'
import type { Input, Terminal } from './output/terminal.ts'

export interface Shell {
  readonly terminal: Terminal
  readonly input: Input
  readonly env: Readonly<Record<string, string | undefined>>
  readonly clock: Clock
  readonly version: string
  /** For services: the process continues when its output is closed or full. */
  ignoreClosedOutput(): void
  /** Sets the exit code (1); the command has already printed the reason. */
  fail(code?: ExitCode): void
}

interface Interruption extends Disposable {
  readonly signal: AbortSignal
}

/** The signal aborts on Ctrl-C or SIGTERM. A second Ctrl-C finds no listener and ends the process. */
export function listenForInterrupt(): Interruption {
  const controller = new AbortController()
  const stop = (): void => {
    release()
    controller.abort()
  }
  const release = (): void => {
    process.off('SIGINT', stop)
    process.off('SIGTERM', stop)
  }
  process.on('SIGINT', stop)
  process.on('SIGTERM', stop)
  return { signal: controller.signal, [Symbol.dispose]: release }
}

/** The flag, else the environment, else the default directory. */
export function dataDirOf(given: unknown, env: Readonly<Record<string, string | undefined>>): string {
  if (typeof given === 'string' && given !== '') return given
  return defaultDataDir({ env, isRoot: process.getuid?.() === 0, home: homedir() })
}
