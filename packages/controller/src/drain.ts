// The drain before a stop: load balancers see 503 at /readyz first, and requests in progress finish.
import { settlesWithin } from '@muster/host'
import { type ControllerDeps, listenerOf } from './assemble.ts'
import type { ClaimedAddress } from './http/server.ts'
import type { ControllerSettings } from './settings.ts'

/** Load balancers check readiness every few seconds. */
const defaultDelayMs = 5_000

/** No load balancer on another machine can be in front of an address that only this machine reaches. */
export const drainDelayOf = (settings: ControllerSettings): number =>
  settings.drainDelay ?? (listenerOf(settings).isOpen ? 0 : defaultDelayMs)

export function createDrain({ settings, clock, log }: ControllerDeps, stopping: AbortSignal) {
  const { drainTimeout } = settings
  const drainDelay = drainDelayOf(settings)
  const closing = new AbortController()
  let isDraining = false
  let isDrained = false
  return {
    isDraining: () => isDraining,
    isDrained: () => isDrained,
    closing: closing.signal,
    async run(address: ClaimedAddress): Promise<void> {
      isDraining = true
      address.announceClose()
      log.info('controller draining', { requests: address.requestCount(), delayMs: drainDelay, timeoutMs: drainTimeout })
      if (drainDelay > 0) await clock.sleep(drainDelay, stopping).catch(() => undefined)
      closing.abort()
      const late = new AbortController()
      const isDone = await settlesWithin({ clock, ms: drainTimeout, signal: stopping }, address.drain(late.signal))
      late.abort()
      if (!isDone) log.warn('requests cut at the end of the drain', { requests: address.requestCount() })
      isDrained = true
    },
  }
}
