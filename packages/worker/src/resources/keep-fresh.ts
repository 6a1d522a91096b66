// Keeps one reading fresh, by a loop of its own: a reading that hangs holds up nobody who looks.
import type { Clock, Log } from '@muster/host'

export interface PolledReading<T> {
  /** Resolves after the first try, whatever came of it. */
  readonly firstAttempt: Promise<void>
  /** The last reading and how long ago it was begun; null before there was one. */
  latest(): { readonly value: T; readonly ageMs: number } | null
}

export type PollOptions<T> = Readonly<{
  what: string
  everyMs: number
  read: () => Promise<T>
  clock: Clock
  log: Log
  signal: AbortSignal
}>

/** The next reading begins only after the one before has ended: at most one is under way, however long it takes. */
export function pollReading<T>({ what, everyMs, read, clock, log, signal }: PollOptions<T>): PolledReading<T> {
  let last: { value: T; at: number } | null = null
  let complaint = ''
  const first = Promise.withResolvers<void>()
  const loop = async (): Promise<void> => {
    while (!signal.aborted) {
      const at = clock.monotonic()
      try {
        last = { value: await read(), at }
        complaint = ''
      } catch (error) {
        const reason = error instanceof Error ? error.message : String(error)
        // Said once, not every few seconds for as long as it lasts.
        if (reason !== complaint) log.warn('a resource could not be read', { what, reason })
        complaint = reason
      }
      first.resolve()
      await clock.sleep(everyMs, signal).catch(() => undefined)
    }
  }
  void loop()
  return {
    firstAttempt: first.promise,
    latest: () => (last === null ? null : { value: last.value, ageMs: clock.monotonic() - last.at }),
  }
}
