// Logs a failure that repeats: when the streak begins, every 30 s while it lasts, and when it ends. A loop that fails
// every second would otherwise fill the log with one sentence and never report the recovery.
import type { Clock } from './clock.ts'
import type { Fields, Log } from './log.ts'

const repeatMs = 30_000

export interface FailureStreak {
  failed(fields: Fields): void
  /** Logs only if a streak was open. */
  recovered(): void
}

export function createFailureStreak({ what, log, clock }: { what: string; log: Log; clock: Clock }): FailureStreak {
  let beganAt: number | null = null
  let loggedAt = 0
  return {
    failed(fields) {
      const now = clock.monotonic()
      const isNew = beganAt === null
      beganAt ??= now
      if (!isNew && now - loggedAt < repeatMs) return
      loggedAt = now
      log.warn(what, isNew ? fields : { ...fields, for_ms: Math.round(now - beganAt) })
    },
    recovered() {
      if (beganAt !== null) log.info('recovered', { from: what, after_ms: Math.round(clock.monotonic() - beganAt) })
      beganAt = null
    },
  }
}
