// Tells of a trouble that lasts: when it begins, now and then while it goes on, and when it is over. A loop that
// fails every second would otherwise fill the log with one sentence, and never say that all is well again.
import type { Clock } from './clock.ts'
import type { Fields, Log } from './log.ts'

const repeatMs = 30_000

export interface Trouble {
  failed(fields: Fields): void
  /** Says nothing unless something was wrong. */
  over(): void
}

export function createTrouble({ what, log, clock }: { what: string; log: Log; clock: Clock }): Trouble {
  let beganAt: number | null = null
  let saidAt = 0
  return {
    failed(fields) {
      const now = clock.monotonic()
      const isNew = beganAt === null
      beganAt ??= now
      if (!isNew && now - saidAt < repeatMs) return
      saidAt = now
      log.warn(what, isNew ? fields : { ...fields, for_ms: Math.round(now - beganAt) })
    },
    over() {
      if (beganAt !== null) log.info(`${what}: over`, { after_ms: Math.round(clock.monotonic() - beganAt) })
      beganAt = null
    },
  }
}
