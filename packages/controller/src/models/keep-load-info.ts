// Notes what a model was loaded with whenever a replica is ready. Serving waits for none of it: what can't be saved now is
// saved later, and said once.
import { createTrouble, createWakeable, type Clock, type Log } from '@muster/host'
import type { ReplicaId } from '@muster/protocol'
import type { LoadInfoStore } from '../store/load-info.ts'

export interface KeepLoadInfoDeps {
  readonly loadInfo: Pick<LoadInfoStore, 'saveOf'>
  readonly clock: Clock
  readonly log: Log
}

const againInMs = 1_000
const idleMs = 60_000
/** A cluster that starts that many at once has other worries. */
const maxWaiting = 10_000

export function createKeepLoadInfo({ loadInfo, clock, log }: KeepLoadInfoDeps) {
  const waiting = new Set<ReplicaId>()
  const wakeable = createWakeable(clock)
  const trouble = createTrouble({ what: 'what models were loaded with can not be saved; they serve all the same', clock, log })

  /** The oldest first, so that the newest word about a model is the last. */
  const saveAll = async (): Promise<void> => {
    for (const replicaId of waiting) {
      await loadInfo.saveOf(replicaId)
      waiting.delete(replicaId)
    }
  }
  return {
    note(replicaId: ReplicaId): void {
      if (waiting.size >= maxWaiting) return
      waiting.add(replicaId)
      wakeable.wake()
    },
    /** Until aborted. */
    async run(signal: AbortSignal): Promise<void> {
      while (!signal.aborted) {
        await saveAll().then(
          () => trouble.over(),
          (error: unknown) => trouble.failed({ error, waiting: waiting.size }),
        )
        await wakeable.pause(waiting.size > 0 ? againInMs : idleMs, signal).catch(() => false)
        if (waiting.size > 0) await clock.sleep(0, signal).catch(() => undefined)
      }
    },
  }
}
