// A loop that works in rounds: it is woken, or wakes when the round before said so; a round that fails is told and tried again.
import { createTrouble, createWakeable, type Clock, type Log } from '@muster/host'

/** Between two rounds, so that a storm of wakes is one. */
const breathMs = 5
const afterFailureMs = 1_000

export interface Rounds {
  wake(): void
  /** Until aborted. A round gives back in how many milliseconds the next one is due at the latest. */
  run(round: (signal: AbortSignal) => Promise<number>, signal: AbortSignal): Promise<void>
}

export function createRounds({ what, clock, log }: { what: string; clock: Clock; log: Log }): Rounds {
  const wakeable = createWakeable(clock)
  const trouble = createTrouble({ what, clock, log })
  const once = async (round: (signal: AbortSignal) => Promise<number>, signal: AbortSignal): Promise<number> => {
    try {
      const pauseMs = await round(signal)
      trouble.over()
      return pauseMs
    } catch (error) {
      trouble.failed({ error })
      return afterFailureMs
    }
  }
  return {
    wake: () => wakeable.wake(),
    async run(round, signal) {
      while (!signal.aborted) {
        const pauseMs = await once(round, signal)
        await wakeable.pause(Math.max(pauseMs, breathMs), signal).catch(() => false)
      }
    },
  }
}
