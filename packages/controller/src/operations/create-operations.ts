// Assembles the operations: the work on intents, results and progress of workers, and the views.
import type { Bus } from '@muster/bus'
import type { Clock, Log, Step } from '@muster/host'
import type { OperationId, OperationView } from '@muster/protocol'
import type { EventHub } from '../events/hub.ts'
import { createAdvance, type SettledIntent } from '../intents/advance.ts'
import { createIntentWork } from '../intents/intent-work.ts'
import { createQuery } from '../intents/query.ts'
import { createResults } from '../intents/results.ts'
import { createSend } from '../intents/send.ts'
import type { ControllerSettings } from '../settings.ts'
import type { IntentStore, ProgressTick } from '../store/intents.ts'
import type { OperationRecord, OperationStore } from '../store/operations.ts'
import type { Store } from '../store/store.ts'
import type { WorkKey } from '../work/exchange.ts'
import { createProgressCache } from '../work/progress-cache.ts'
import { createBars } from './bars.ts'
import { viewOperation } from './view.ts'

export interface OperationsDeps {
  readonly bus: Bus
  readonly store: Store
  readonly settings: ControllerSettings
  /** This process; when it is gone, other controllers take over its work. */
  readonly holder: string
  readonly onSettled: (settled: readonly SettledIntent[]) => void
  readonly recordLoadProgress: IntentStore['recordProgress']
  readonly step: Step
  readonly random: () => number
  readonly clock: Clock
  readonly log: Log
}

/** After this time without a report the worker is queried. */
const maxQuietMs = 5_000

export function createOperations(deps: OperationsDeps) {
  const { bus, store, settings, holder, random, clock, log } = deps
  const { intents, pulses } = store
  const timeouts = { installMs: settings.backendInstallTimeout, upgradeMs: settings.backendUpgradeTimeout }
  const retry = { baseMs: settings.opRetryBase, maxMs: settings.opRetryMax, maxAttempts: settings.opMaxAttempts }
  const stallMs = settings.opStallTimeout
  const quietMs = Math.min(maxQuietMs, stallMs / 4)
  const advance = createAdvance({ intents, retry, onSettled: deps.onSettled, random, clock, log })
  const send = createSend({ bus, pulses, advance, holder, timeouts, step: deps.step, clock, log })
  const query = createQuery({ bus, pulses, intents, advance, quietMs, stallMs, log })
  const work = createIntentWork({
    ...{ intents, advance, send, query, holder, timeouts, quietMs, clock, log },
    withdrawFromAgents: () => store.reopen.withdrawFromAgents(),
    intervalMs: settings.reconcileInterval,
  })
  const bars = createBars({ operations: store.operations, clock, log })
  const progressFeed = createProgressFeed({ operations: store.operations, clock, log })
  const recordProgress = { intent: (ticks: readonly ProgressTick[]) => intents.recordProgress(ticks), load: deps.recordLoadProgress }
  const cache = createProgressCache({ recordProgress, onTicks: progressFeed.onTicks, clock, log })
  const results = createResults({ intents, advance, settleProgress: cache.settle, log })
  const view = (operation: OperationRecord): OperationView => bars.raise(viewOperation(operation, cache.latest), operation.progress)

  return {
    view,
    wake: work.wake,
    /** The latest progress of some work, before it is stored. */
    latestProgress: cache.latest,
    settleProgress: cache.settle,
    receiveResult: results.receive,
    receiveProgress: cache.receive,
    settleByInventory: results.settleByInventory,
    /** For the event stream. */
    read: async (ids: readonly string[]): Promise<Map<string, object>> =>
      new Map((await store.operations.listByIds(ids)).map((operation) => [operation.id, view(operation)])),
    publishTo: progressFeed.publishTo,
    /** Runs until aborted. */
    async run(signal: AbortSignal): Promise<void> {
      await Promise.all([work.run(signal), cache.run(signal), bars.run(signal)])
    },
  }
}

// Sends operations to listeners while their progress changes, between stored changes. One round at a time: with a slow database
// listeners get fewer updates, and nothing piles up.

interface ProgressFeedDeps {
  readonly operations: Pick<OperationStore, 'concernedBy'>
  readonly clock: Clock
  readonly log: Log
}

/** An operation on more nodes is large, so it is shown less often. */
const fewNodes = 50
const largeEveryMs = 1_000

function createProgressFeed({ operations, clock, log }: ProgressFeedDeps) {
  let hub: EventHub | null = null
  let isBusy = false
  const updated = new Map<string, WorkKey>()
  const moved = new Set<OperationId>()
  const restingUntil = new Map<OperationId, number>()

  const show = async (to: EventHub): Promise<void> => {
    const now = clock.monotonic()
    const keys = [...updated.values()]
    updated.clear()
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
      if (hub === null || hub.listenerCount() === 0) return updated.clear()
      for (const key of keys) updated.set(`${key.nodeId} ${key.opId}`, key)
      if (isBusy || (updated.size === 0 && moved.size === 0)) return
      isBusy = true
      void show(hub)
        .catch((error: unknown) => log.debug('cannot broadcast progress', { error }))
        .finally(() => (isBusy = false))
    },
    publishTo: (given: EventHub): void => void (hub = given),
  }
}
