// Logs an outage of the connection: when it begins, when its reason changes, every 30 s, and when it ends. Also the delay
// before the next attempt.
import type { Clock, Log } from '@muster/host'

const repeatMs = 30_000

export interface Outage {
  begin(fields: Readonly<Record<string, unknown>>): void
  /** An attempt failed, for this reason if one is known. */
  failed(reason?: string): void
  /** The server refused the credentials. */
  refused(reason: string): void
  over(fields: Readonly<Record<string, unknown>>): void
  nextDelayMs(): number
}

export function createOutage({ log, clock }: { readonly log: Log; readonly clock: Clock }): Outage {
  let beganAt: number | null = null
  let loggedAt = -Infinity
  let lastReason = ''
  let isRefused = false

  const report = (reason: string, write: (downMs: number) => void): void => {
    const now = clock.monotonic()
    beganAt ??= now
    const isNew = reason !== '' && reason !== lastReason
    if (!isNew && now - loggedAt < repeatMs) return
    loggedAt = now
    lastReason = reason || lastReason
    write(Math.round(now - beganAt))
  }

  return {
    begin(fields) {
      beganAt = clock.monotonic()
      loggedAt = beganAt
      log.warn('bus connection lost; reconnecting', fields)
    },
    failed(reason = '') {
      if (reason !== '') isRefused = false
      report(reason, (downMs) => log.warn('cannot connect to the bus; retrying', { reason: lastReason, down_ms: downMs }))
    },
    refused(reason) {
      isRefused = true
      report(reason, (downMs) => log.error('bus refused the credentials; retrying', { reason, down_ms: downMs }))
    },
    over(fields) {
      log.info('bus connected', { ...fields, ...(beganAt === null ? {} : { down_ms: Math.round(clock.monotonic() - beganAt) }) })
      beganAt = null
      loggedAt = -Infinity
      lastReason = ''
      isRefused = false
    },
    // Jitter spreads the reconnects of a fleet. A refusal costs the server a signature check and only ends with new
    // credentials: those attempts are slower.
    nextDelayMs: () => (isRefused ? 2000 : 250) * (1 + Math.random()),
  }
}
