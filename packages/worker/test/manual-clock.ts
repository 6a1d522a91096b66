// A clock that a test advances.
import type { Clock } from '@muster/host'

export interface ManualClock extends Clock {
  /** How long each sleep was meant to be, in order. */
  readonly sleeps: number[]
  /** Lets time pass, sleeper by sleeper, with everything that follows from each wake. */
  advance(ms: number): Promise<void>
}

type Sleeper = { readonly at: number; readonly wake: () => void }

export function createManualClock(): ManualClock {
  let now = 0
  const sleepers = new Set<Sleeper>()
  const sleeps: number[] = []
  return {
    sleeps,
    now: () => now,
    monotonic: () => now,
    sleep: (ms, signal) =>
      new Promise((resolve, reject) => {
        if (signal?.aborted) return reject(signal.reason)
        sleeps.push(ms)
        const abort = (): void => {
          sleepers.delete(sleeper)
          reject(signal?.reason)
        }
        const sleeper: Sleeper = {
          at: now + ms,
          wake: () => {
            signal?.removeEventListener('abort', abort)
            resolve()
          },
        }
        signal?.addEventListener('abort', abort, { once: true })
        sleepers.add(sleeper)
      }),
    async advance(ms) {
      const until = now + ms
      await settled()
      for (;;) {
        const next = [...sleepers].toSorted((a, b) => a.at - b.at)[0]
        if (next === undefined || next.at > until) break
        sleepers.delete(next)
        now = Math.max(now, next.at)
        next.wake()
        await settled()
      }
      now = until
    },
  }
}

/** Everything that was only waiting for its turn has had it: a message on the in-process bus needs a few. */
async function settled(): Promise<void> {
  for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setImmediate(resolve))
}
