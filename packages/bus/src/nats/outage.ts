// Tells of a connection that is not there: when it begins, when its reason changes, now and then
// while it lasts, and when it is over. Also how long to wait before the next try.
import type { Clock, Log } from '@muster/host'

const repeatMs = 30_000

export interface Outage {
  begin(fields: Readonly<Record<string, unknown>>): void
  /** A try failed, for this reason if one is known. */
  failed(reason?: string): void
  /** The server was there and did not want us. */
  refused(reason: string): void
  over(fields: Readonly<Record<string, unknown>>): void
  nextDelayMs(): number
}

export function createOutage({ log, clock }: { readonly log: Log; readonly clock: Clock }): Outage {
  let beganAt: number | null = null
  let saidAt = -Infinity
  let lastReason = ''
  let isRefused = false

  const say = (reason: string, speak: (downMs: number) => void): void => {
    const now = clock.monotonic()
    beganAt ??= now
    const isNew = reason !== '' && reason !== lastReason
    if (!isNew && now - saidAt < repeatMs) return
    saidAt = now
    lastReason = reason || lastReason
    speak(Math.round(now - beganAt))
  }

  return {
    begin(fields) {
      beganAt = clock.monotonic()
      saidAt = beganAt
      log.warn('lost the connection to the bus; trying to get it back', fields)
    },
    failed(reason = '') {
      if (reason !== '') isRefused = false
      say(reason, (downMs) => log.warn('no connection to the bus yet; trying on', { reason: lastReason, down_ms: downMs }))
    },
    refused(reason) {
      isRefused = true
      say(reason, (downMs) => log.error('the bus refuses our credentials; trying on', { reason, down_ms: downMs }))
    },
    over(fields) {
      log.info('connected to the bus', { ...fields, ...(beganAt === null ? {} : { down_ms: Math.round(clock.monotonic() - beganAt) }) })
      beganAt = null
      saidAt = -Infinity
      lastReason = ''
      isRefused = false
    },
    // Jitter, so that a fleet does not come back in one instant. Refusals cost the server a signature
    // check each and heal by new credentials only: those are slower.
    nextDelayMs: () => (isRefused ? 2000 : 250) * (1 + Math.random()),
  }
}
