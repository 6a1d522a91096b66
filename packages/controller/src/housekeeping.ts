// Periodic work of every controller that may run late: its heartbeat, last use of keys, and pruning.
import { createLoop, type Clock, type Log } from '@muster/host'
import type { PrincipalFinder } from './auth/principal.ts'
import type { Store } from './store/store.ts'

const everyMs = 5_000
const sweepEvery = 60
/** How long a listener may be disconnected and still receive deletions. */
const keepDeletedMs = 3_600_000
/** How long a client may repeat a request with its Idempotency-Key. */
const keepKeysMs = 86_400_000
/** Exited replicas are kept this long for diagnosis. */
const keepExitedMs = 3_600_000
/** More model files than a fleet serves. */
const keptContents = 10_000

export interface HousekeepingDeps {
  readonly store: Store
  readonly principals: PrincipalFinder
  /** How long finished operations are kept. Read in each round. */
  readonly historyMs: number
  readonly own: Readonly<{ id: string; version: string; url: string; pinned: Readonly<Record<string, string>> }>
  readonly clock: Clock
  readonly log: Log
}

export function createHousekeeping(deps: HousekeepingDeps) {
  const { store, principals, own, clock, log } = deps
  let rounds = 0
  async function round(): Promise<number> {
    const isSweep = rounds % sweepEvery === 0
    rounds += 1
    await store.controllers.heartbeat(own)
    const used = principals.takeUsed()
    await store.access.touchKeys(used).catch((error: unknown) => {
      principals.putBackUsed(used)
      throw error
    })
    if (!isSweep) return everyMs
    await store.access.removeExpired()
    await store.changes.forgetDeleted(keepDeletedMs)
    await store.operations.forget({ historyMs: deps.historyMs, keysMs: keepKeysMs })
    await store.replicas.prune({ keepMs: keepExitedMs, keepOfModel: 1_000 })
    await store.fileContents.prune({ keep: keptContents })
    return everyMs
  }

  return {
    async run(signal: AbortSignal): Promise<void> {
      await createLoop({ what: 'housekeeping failed; retrying', clock, log, retryMs: everyMs }).run(round, signal)
      await store.controllers.remove(own.id).catch(() => undefined)
    },
  }
}
