// What the user is told when a command can't do its work: a sentence on stderr and an exit code,
// never a stack trace. Anything else that is thrown is a bug.
import { CommanderError } from 'commander'
import { SettingsError } from '@muster/host'
import { FleetError } from '@muster/protocol'
import type { Terminal } from './output/terminal.ts'
import { plainText } from './output/text.ts'

/** 1 failed or cancelled · 2 wrong usage or a bad setting · 3 still going on in the background. */
export type ExitCode = 1 | 2 | 3

interface CliErrorOptions {
  code?: string
  status?: number
  refusal?: CliError['refusal']
  exitCode?: ExitCode
  hint?: string
  cause?: unknown
}

export class CliError extends Error {
  /** The code the server gave with its sentence; null where the failure is our own. */
  readonly code: string | null
  /** The HTTP status of that answer. */
  readonly status: number | null
  /** What that answer said besides, as it came. */
  readonly refusal: { readonly answer: unknown; readonly retryAfterMs: number | null } | null
  readonly exitCode: ExitCode
  /** What to do about it, where the sentence does not say so itself. */
  readonly hint: string | null

  constructor(message: string, options: CliErrorOptions = {}) {
    super(message, { cause: options.cause })
    this.name = 'CliError'
    this.code = options.code ?? null
    this.status = options.status ?? null
    this.refusal = options.refusal ?? null
    this.exitCode = options.exitCode ?? 1
    this.hint = options.hint ?? null
  }

  /** The same, of one among several. */
  about(what: string): CliError {
    return new CliError(`${what}: ${this.message}`, {
      exitCode: this.exitCode,
      refusal: this.refusal,
      cause: this,
      ...(this.code === null ? {} : { code: this.code }),
      ...(this.status === null ? {} : { status: this.status }),
      ...(this.hint === null ? {} : { hint: this.hint }),
    })
  }
}

export const usageError = (message: string, hint?: string): CliError =>
  new CliError(message, hint === undefined ? { exitCode: 2 } : { exitCode: 2, hint })

// The end of a command that did not go well: what is said, and the exit code.

export function exitCodeOf(error: unknown): number {
  if (error instanceof CliError) return error.exitCode
  if (error instanceof SettingsError) return 2
  // Help and version end a command by throwing too, with code 0; every mistake in its use is a 2.
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2
  return 1
}

export function reportError(error: unknown, terminal: Terminal): void {
  // Commander has said it already.
  if (error instanceof CommanderError) return
  const mark = terminal.colours.err ? '\u001b[31merror:\u001b[39m' : 'error:'
  if (error instanceof CliError) {
    terminal.err(`${mark} ${error.message}${error.code === null ? '' : ` (${error.code})`}`)
    if (error.hint !== null) terminal.err(error.hint)
  } else if (error instanceof SettingsError || error instanceof FleetError) {
    terminal.err(`${mark} ${plainText(error.message)}`)
  } else {
    terminal.err(`${mark} this is a bug in muster: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`)
  }
}
