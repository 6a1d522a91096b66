// What the user is told when a command can't do its work: a sentence on stderr and an exit code,
// never a stack trace. Anything else that is thrown is a bug.

/** 1 failed or cancelled · 2 wrong usage or a bad setting · 3 still going on in the background. */
export type ExitCode = 1 | 2 | 3

export class CliError extends Error {
  /** The code the server gave with its sentence; null where the failure is our own. */
  readonly code: string | null
  /** The HTTP status of that answer. */
  readonly status: number | null
  readonly exitCode: ExitCode
  /** What to do about it, where the sentence does not say so itself. */
  readonly hint: string | null

  constructor(message: string, options: { code?: string; status?: number; exitCode?: ExitCode; hint?: string; cause?: unknown } = {}) {
    super(message, { cause: options.cause })
    this.name = 'CliError'
    this.code = options.code ?? null
    this.status = options.status ?? null
    this.exitCode = options.exitCode ?? 1
    this.hint = options.hint ?? null
  }
}

export const usageError = (message: string, hint?: string): CliError =>
  new CliError(message, hint === undefined ? { exitCode: 2 } : { exitCode: 2, hint })
