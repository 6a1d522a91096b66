// What the user is told when a command can't do its work: a sentence on stderr and an exit code,
// never a stack trace. Anything else that is thrown is a bug.

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
