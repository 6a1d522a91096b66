// Shares one run of expensive work among concurrent callers. A run that has started may have read older state, so callers
// that need current results share the next run: at most one runs and one waits.
import type { Clock } from '@muster/host'

export type SharedRun<T> = (options?: { readonly maxAgeMs?: number }) => Promise<T>

export function createSharedRun<T>(work: () => Promise<T>, clock: Clock): SharedRun<T> {
  let latest: { readonly startedAt: number; readonly result: Promise<T> } | null = null
  let next: Promise<T> | null = null

  const start = (): Promise<T> => {
    const started = { startedAt: clock.monotonic(), result: work() }
    latest = started
    started.result.catch(() => {
      if (latest === started) latest = null
    })
    return started.result
  }
  return ({ maxAgeMs = 0 } = {}) => {
    if (latest !== null && clock.monotonic() - latest.startedAt < maxAgeMs) return latest.result
    next ??= (latest?.result ?? Promise.resolve())
      .then(
        () => undefined,
        () => undefined,
      )
      .then(() => {
        next = null
        return start()
      })
    return next
  }
}
