// What a check of `muster doctor` comes to.
export type Level = 'ok' | 'warn' | 'fail'

export interface Verdict {
  readonly level: Level
  /** What was found: a sentence without a full stop. */
  readonly found: string
  /** What to do about it. */
  readonly advice?: string
}

export interface Check {
  readonly name: string
  /** Gathers facts and judges them. Ends soon after the signal aborts; what it throws is a failed check. */
  run(signal: AbortSignal): Promise<Verdict>
}

export const ok = (found: string): Verdict => ({ level: 'ok', found })
export const warn = (found: string, advice: string): Verdict => ({ level: 'warn', found, advice })
export const fail = (found: string, advice: string): Verdict => ({ level: 'fail', found, advice })
