// Retries requests while a server is unavailable.
import { type Clock, type Log } from '@muster/host'
import { backoffMs, FleetError, type Failure } from '@muster/protocol'

/** A failure with a time for the next attempt. */
export class SourceBusyError extends FleetError {
  readonly retryAfterMs: number | null

  constructor(failure: Failure, retryAfterMs: number | null) {
    super(failure)
    this.name = 'Busy'
    this.retryAfterMs = retryAfterMs
  }
}

const attempts = 4
const backoff = { baseMs: 500, maxMs: 8_000, jitter: 0.25 }

/** Called before a wait, with its cause. A caller with a deadline that ends earlier throws: the cause says more than a timeout. */
export type OnWait = (cause: FleetError, waitMs: number) => void
export type RetryBusy = <T>(work: () => Promise<T>, signal: AbortSignal, onWait?: OnWait) => Promise<T>

/**
 * Retries only `unavailable`: the caller handles wrong content, and may know a mirror. Makes few attempts for the same
 * reason; callers that need more keep a queue.
 */
export function createBusyRetry({ clock, log, random }: { clock: Clock; log: Log; random: () => number }): RetryBusy {
  return async (work, signal, onWait) => {
    for (let attempt = 1; ; attempt++) {
      try {
        return await work()
      } catch (error) {
        signal.throwIfAborted()
        if (!(error instanceof FleetError) || error.failure.code !== 'unavailable' || attempt >= attempts) throw error
        const asked = error instanceof SourceBusyError ? error.retryAfterMs : null
        // Never before Retry-After, and with jitter.
        const waitMs = asked === null ? backoffMs(attempt, backoff, random()) : Math.round(asked * (1 + 0.1 * random()))
        onWait?.(error, waitMs)
        log.info('source unavailable; retrying', { reason: error.message, attempt, wait_ms: waitMs })
        await clock.sleep(waitMs, signal)
      }
    }
  }
}
