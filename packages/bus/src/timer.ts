// Timers: real time for sockets; the in-process bus can also use a simulated clock.
import type { Clock } from '@muster/host'

/** Calls `onTime` after `ms`; returns the function that cancels. */
export type StartTimer = (ms: number, onTime: () => void) => () => void

/** setTimeout fires at once beyond this. */
const longestMs = 2 ** 31 - 1

export const realTimer: StartTimer = (ms, onTime) => {
  const timer = setTimeout(onTime, Math.min(ms, longestMs))
  return () => clearTimeout(timer)
}

export const clockTimer =
  (clock: Clock): StartTimer =>
  (ms, onTime) => {
    const cancel = new AbortController()
    clock.sleep(ms, cancel.signal).then(onTime, () => undefined)
    return () => cancel.abort()
  }
