// The failure of a command: a sentence on stderr and an exit code, never a stack trace. Anything else that is thrown is a
// bug.
import { CommanderError } from 'commander'
import { SettingsError } from '@muster/host'
import { FleetError } from '@muster/protocol'
import type { Terminal } from './output/terminal.ts'
import { plainText } from './output/text.ts'

/** 1 failed or cancelled · 2 wrong usage or a bad setting · 3 still in progress. */
export type ExitCode = 1 | 2 | 3

type CliErrorOptions = Partial<Pick<CliError, 'code' | 'status' | 'refusal' | 'exitCode' | 'cause'>> & { hint?: string | null | undefined }

export class CliError extends Error {
  /** The server's error code; null when the failure is local. */
  readonly code: string | null
  /** The HTTP status of the server's answer. */
  readonly status: number | null
  /** The server's answer, unparsed. */
  readonly refusal: { readonly answer: unknown; readonly retryAfterMs: number | null } | null
  readonly exitCode: ExitCode
  /** How to fix it, if the message does not include that. */
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

  /** The same error, prefixed with the object that it concerns. */
  about(subject: string): CliError {
    const { code, status, refusal, exitCode, hint } = this
    return new CliError(`${subject}: ${this.message}`, { code, status, refusal, exitCode, hint, cause: this })
  }
}

export const usageError = (message: string, hint?: string): CliError => new CliError(message, { exitCode: 2, hint })

export function exitCodeOf(error: unknown): number {
  if (error instanceof CliError) return error.exitCode
  if (error instanceof SettingsError) return 2
  // Help and version throw too, with code 0; every usage error is a 2.
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2
  return 1
}

/** A refusal of the operating system, such as a missing permission: not a bug. */
const isSystemError = (error: unknown): error is Error => error instanceof Error && 'syscall' in error && 'errno' in error

export function reportError(error: unknown, terminal: Terminal): void {
  // Commander has printed it already.
  if (error instanceof CommanderError) return
  const mark = terminal.colors.err ? '\u001b[31merror:\u001b[39m' : 'error:'
  if (error instanceof CliError) {
    terminal.err(`${mark} ${error.message}${error.code === null ? '' : ` (${error.code})`}`)
    if (error.hint !== null) terminal.err(error.hint)
  } else if (error instanceof SettingsError || error instanceof FleetError || isSystemError(error)) {
    terminal.err(`${mark} ${plainText(error.message)}`)
  } else {
    terminal.err(`${mark} this is a bug in muster: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`)
  }
}
