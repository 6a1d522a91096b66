// A sleep that another task can cut short. A wake before the sleep begins is kept.
import type { Clock } from './clock.ts'

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
