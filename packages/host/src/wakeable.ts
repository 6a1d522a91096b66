// A pause that somebody else can cut short. A wake that comes before the pause is not lost.
import type { Clock } from './clock.ts'

export interface Wakeable {
  wake(): void
  /** True when woken. Throws the signal's reason when that aborts. */
  pause(ms: number, signal: AbortSignal): Promise<boolean>
}

export function createWakeable(clock: Clock): Wakeable {
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
