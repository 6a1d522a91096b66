// Something that expires, made anew long before it does.
import type { Clock, Log } from '@muster/host'

export interface KeepRenewedOptions<T> {
  readonly make: () => Promise<T>
  readonly everyMs: number
  /** After a failure. */
  readonly retryMs: number
  /** For the log. */
  readonly what: string
  readonly clock: Clock
  readonly log: Log
  readonly signal: AbortSignal
}

/** Gives the newest, until aborted. Throws only when there is not even a first. */
export async function keepRenewed<T>({ make, everyMs, retryMs, what, clock, log, signal }: KeepRenewedOptions<T>): Promise<() => T> {
  let newest = await make()
  const renew = async (): Promise<void> => {
    for (let pauseMs = everyMs; ;) {
      await clock.sleep(pauseMs, signal)
      try {
        newest = await make()
        pauseMs = everyMs
      } catch (error) {
        log.warn(`${what} could not be renewed; trying again`, { error })
        pauseMs = retryMs
      }
    }
  }
  renew().catch(() => undefined) // The signal ended its sleep.
  return () => newest
}
