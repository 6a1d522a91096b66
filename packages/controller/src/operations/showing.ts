// Those who watch see the bytes move, between the states that are stored. One round at a time: when the database is slow
// they see fewer, and nothing piles up.
import type { Clock, Log } from '@muster/host'
import type { OperationId } from '@muster/protocol'
import type { EventHub } from '../events/hub.ts'
import type { OperationStore } from '../store/operations.ts'
import type { WorkKey } from '../work/exchange.ts'

export interface ShowingDeps {
  readonly operations: Pick<OperationStore, 'concernedBy'>
  readonly clock: Clock
  readonly log: Log
}

/** An operation on more nodes is large, so it is shown less often. */
const fewNodes = 50
const largeEveryMs = 1_000

export function createShowing({ operations, clock, log }: ShowingDeps) {
  let hub: EventHub | null = null
  let isBusy = false
  const heard = new Map<string, WorkKey>()
  const moved = new Set<OperationId>()
  const restingUntil = new Map<OperationId, number>()

  const show = async (to: EventHub): Promise<void> => {
    const now = clock.monotonic()
    const keys = [...heard.values()]
    heard.clear()
    for (const [id, next] of restingUntil) if (next <= now) restingUntil.delete(id)
    for (const { id, nodes } of await operations.concernedBy(keys)) {
      moved.add(id)
      if (nodes > fewNodes && !restingUntil.has(id)) restingUntil.set(id, now)
    }
    const due = [...moved].filter((id) => (restingUntil.get(id) ?? now) <= now)
    for (const id of due) {
      moved.delete(id)
      if (restingUntil.has(id)) restingUntil.set(id, now + largeEveryMs)
    }
    await to.tick('operation', due)
  }

  return {
    onTicks(keys: readonly WorkKey[]): void {
      if (hub === null || hub.listenerCount() === 0) return heard.clear()
      for (const key of keys) heard.set(`${key.nodeId} ${key.opId}`, key)
      if (isBusy || (heard.size === 0 && moved.size === 0)) return
      isBusy = true
      void show(hub)
        .catch((error: unknown) => log.debug('progress could not be shown', { error }))
        .finally(() => (isBusy = false))
    },
    tellTo: (given: EventHub): void => void (hub = given),
  }
}
