// What is done now and then, by every controller, and hurts nobody when it is late.
import type { Clock, Log } from '@muster/host'
import type { PrincipalFinder } from './auth/principal.ts'
import type { Store } from './store/store.ts'

const everyMs = 5_000
const sweepEvery = 60
/** How long a listener may be away and still be told what was deleted meanwhile. */
const rememberDeletedMs = 3_600_000
/** As long as a client may repeat a request with its Idempotency-Key. */
const rememberKeysMs = 86_400_000

/** Processes that exited, for those who look for the reason. */
const rememberExitedMs = 3_600_000

export interface HousekeepingDeps {
  readonly store: Store
  readonly principals: PrincipalFinder
  /** How long finished operations are kept. */
  readonly historyMs: number
  readonly own: { readonly id: string; readonly version: string; readonly url: string }
  readonly clock: Clock
  readonly log: Log
}

export function createHousekeeping({ store, principals, historyMs, own, clock, log }: HousekeepingDeps) {
  async function round(count: number): Promise<void> {
    await store.controllers.heartbeat(own)
    const used = principals.takeUsed()
    await store.access.touchKeys(used).catch((error: unknown) => {
      principals.putBackUsed(used)
      throw error
    })
    if (count % sweepEvery !== 0) return
    await store.access.removeExpired()
    await store.changes.forgetDeleted(rememberDeletedMs)
    await store.operations.forget({ historyMs, keysMs: rememberKeysMs })
    await store.replicas.prune({ keepMs: rememberExitedMs, keepOfModel: 1_000 })
  }

  return {
    async run(signal: AbortSignal): Promise<void> {
      for (let count = 0; !signal.aborted; count += 1) {
        await round(count).catch((error: unknown) => log.warn('housekeeping failed and is tried again', { error }))
        await clock.sleep(everyMs, signal).catch(() => undefined)
      }
      await store.controllers.remove(own.id).catch(() => undefined)
    },
  }
}
