// What a command gets from the world around it.
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
  /** From now on the process goes on when nobody reads its output any more: it serves others. */
  outliveReader(): void
  /** The command has said why; the process ends with this code (1). */
  fail(code?: ExitCode): void
}

// A signal that aborts on Ctrl-C (or SIGTERM), for commands that go on until then. A second Ctrl-C
// finds no listener any more, and ends the process as it would any other.
interface Interruption extends Disposable {
  readonly signal: AbortSignal
}

export function untilInterrupted(): Interruption {
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

// The data directory a command means: its flag, else the environment, else the usual place.

export function dataDirOf(given: unknown, env: Readonly<Record<string, string | undefined>>): string {
  if (typeof given === 'string' && given !== '') return given
  return defaultDataDir({ env, isRoot: process.getuid?.() === 0, home: homedir() })
}
