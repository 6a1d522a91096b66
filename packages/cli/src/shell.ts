// What a command gets from the world around it.
import type { Clock } from '@muster/host'
import type { ExitCode } from './cli-error.ts'
import type { Input } from './output/input.ts'
import type { Terminal } from './output/terminal.ts'

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
