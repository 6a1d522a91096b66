// Tries again what lost against another transaction (A24). Not what lost its connection: whether that was committed is unknown, and
// only the caller can find out.
import { backoffMs, type Clock } from '@muster/host'
import { isConflict } from './translate-error.ts'

export interface RetryDeps {
  readonly clock: Clock
  /** From 0 up to 1. */
  readonly random: () => number
  /** For the count of conflicts. */
  readonly onConflict?: () => void
}

const maxAttempts = 3

/** `work` opens its own transaction, and has no effects outside of it. */
export async function withRetry<T>(work: () => Promise<T>, { clock, random, onConflict }: RetryDeps): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await work()
    } catch (error) {
      if (!isConflict(error)) throw error
      onConflict?.()
      if (attempt === maxAttempts) throw error
      // Half the wait is chance: two that met once shall not meet again.
      await clock.sleep(backoffMs(attempt, { baseMs: 20, maxMs: 200, jitter: 0.5, random }))
    }
  }
}
