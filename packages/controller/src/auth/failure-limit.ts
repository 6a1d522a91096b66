// Slows down guessing: an address that keeps presenting wrong join tokens, or wrong keys to log in, is made to wait.
import type { Clock } from '@muster/host'

const windowMs = 60_000
const maxFailures = 20
const maxAddresses = 10_000

export type FailureLimit = ReturnType<typeof createFailureLimit>

export function createFailureLimit(clock: Clock) {
  const failures = new Map<string, { count: number; until: number }>()

  return {
    /** Seconds to wait before another try counts; 0 when it may. */
    waitSeconds(address: string): number {
      const entry = failures.get(address)
      if (entry === undefined || entry.count < maxFailures) return 0
      const left = entry.until - clock.monotonic()
      if (left > 0) return Math.ceil(left / 1000)
      failures.delete(address)
      return 0
    },

    note(address: string): void {
      const now = clock.monotonic()
      const entry = failures.get(address)
      if (entry !== undefined && entry.until > now) {
        entry.count += 1
        return
      }
      if (failures.size >= maxAddresses) failures.clear()
      failures.set(address, { count: 1, until: now + windowMs })
    },
  }
}
