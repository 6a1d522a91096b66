// Time as a dependency. Durations use the monotonic clock; the wall clock is for display and signatures. Times that
// machines must agree on come from the database.
import { setTimeout as delay } from 'node:timers/promises'

export interface Clock {
  /** Wall clock, milliseconds since the epoch. */
  now(): number
  /** Milliseconds since some fixed moment; never goes back, never jumps. */
  monotonic(): number
  /** Ends early, by throwing the signal's reason, when the signal aborts. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>
}

/** A longer timer would end at once. */
const longestTimerMs = 2 ** 31 - 1

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  sleep: async (ms, signal) => {
    try {
      for (; ms > longestTimerMs; ms -= longestTimerMs) await delay(longestTimerMs, undefined, signal === undefined ? {} : { signal })
      await delay(ms, undefined, signal === undefined ? {} : { signal })
    } catch (error) {
      signal?.throwIfAborted()
      throw error
    }
  },
}
