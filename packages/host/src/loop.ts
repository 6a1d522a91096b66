// The one background loop: a round runs when it is due or woken; a failed round is logged and repeated.
import type { Clock } from './clock.ts'
import { createFailureStreak } from './failure-streak.ts'
import type { Log } from './log.ts'

/** Between two rounds, so that a storm of wakes becomes one round. */
const minimumPauseMs = 5
const defaultRetryMs = 1_000

export interface LoopOptions {
  /** The log message of a failed round: `cannot read the change feed; retrying`. */
  readonly what: string
  readonly clock: Clock
  readonly log: Log
  /** Pause after a failed round. */
  readonly retryMs?: number
  /** Pause between a wake and the round it causes, so that a storm of wakes becomes one round. */
  readonly breathMs?: number
}

export interface Loop {
  wake(): void
  /** Runs until aborted; never rejects. A round returns the milliseconds until the next one is due. */
  run(round: Round, signal: AbortSignal): Promise<void>
}

/** `isDue`: false for the first round and for one that a wake started. */
export type Round = (signal: AbortSignal, isDue: boolean) => Promise<number>

export function createLoop({ what, clock, log, retryMs = defaultRetryMs, breathMs = 0 }: LoopOptions): Loop {
  const timer = createWakeTimer(clock)
  const streak = createFailureStreak({ what, clock, log })
  const runOnce = async (round: Round, signal: AbortSignal, isDue: boolean): Promise<number> => {
    try {
      const pauseMs = await round(signal, isDue)
      streak.recovered()
      return pauseMs
    } catch (error) {
      if (!signal.aborted) streak.failed({ error })
      return retryMs
    }
  }
  return {
    wake: () => timer.wake(),
    async run(round, signal) {
      let isDue = false
      while (!signal.aborted) {
        const pauseMs = await runOnce(round, signal, isDue)
        const isWoken = await timer.pause(Math.max(pauseMs, minimumPauseMs), signal).catch(() => false)
        if (isWoken && breathMs > 0) await clock.sleep(breathMs, signal).catch(() => undefined)
        isDue = !isWoken
      }
    },
  }
}

// A sleep that another task can cut short. A wake before the sleep begins is kept.
export interface WakeTimer {
  wake(): void
  /** True when woken. Throws the signal's reason when that aborts. */
  pause(ms: number, signal: AbortSignal): Promise<boolean>
}

export function createWakeTimer(clock: Clock): WakeTimer {
  let isWoken = false
  let interrupt: AbortController | null = null
  return {
    wake() {
      isWoken = true
      interrupt?.abort()
    },
    async pause(ms, signal) {
      signal.throwIfAborted()
      interrupt = new AbortController()
      try {
        if (!isWoken) await clock.sleep(ms, AbortSignal.any([signal, interrupt.signal])).catch(() => undefined)
        signal.throwIfAborted()
        return isWoken
      } finally {
        isWoken = false
        interrupt = null
      }
    },
  }
}
