// Rate limit against guessing: an address with too many wrong join tokens or login keys has to wait.
import type { Clock } from '@muster/host'

const windowMs = 60_000
const maxFailures = 20
const maxAddresses = 10_000

export type FailureLimit = ReturnType<typeof createFailureLimit>

export function createFailureLimit(clock: Clock) {
  const failures = new Map<string, { count: number; until: number }>()

  return {
    /** Seconds until the next try is allowed; 0: now. */
    waitSeconds(address: string): number {
      const entry = failures.get(address)
      if (entry === undefined || entry.count < maxFailures) return 0
      const left = entry.until - clock.monotonic()
      if (left > 0) return Math.ceil(left / 1000)
      failures.delete(address)
      return 0
    },

    recordFailure(address: string): void {
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
