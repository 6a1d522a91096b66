// The parts that carry operations, put together: the queue's loop, what workers say, and what is shown of it.
import type { Bus } from '@muster/bus'
import type { Clock, Log, Step } from '@muster/host'
import type { OperationView } from '@muster/protocol'
import { createAdvance, type Settled } from '../intents/advance.ts'
import { createIntentWork } from '../intents/intent-work.ts'
import { createQuery } from '../intents/query.ts'
import { createResults } from '../intents/results.ts'
import { createSend } from '../intents/send.ts'
import type { ControllerSettings } from '../settings.ts'
import type { IntentStore, ProgressTick } from '../store/intents.ts'
import type { OperationRecord } from '../store/operations.ts'
import type { Store } from '../store/store.ts'
import { createBars } from './bars.ts'
import { createProgressCache } from '../work/progress-cache.ts'
import { createShowing } from './showing.ts'
import { viewOperation } from './view.ts'

export interface OperationsDeps {
  readonly bus: Bus
  readonly store: Store
  readonly settings: ControllerSettings
  /** This process; what it holds is taken over when it is gone. */
  readonly holder: string
  readonly onSettled: (settled: readonly Settled[]) => void
  readonly recordLoadProgress: IntentStore['recordProgress']
  readonly step: Step
  readonly random: () => number
  readonly clock: Clock
  readonly log: Log
}

/** Nothing heard of work for that long: its worker is asked. */
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
  const showing = createShowing({ operations: store.operations, clock, log })
  const recordProgress = { intent: (ticks: readonly ProgressTick[]) => intents.recordProgress(ticks), load: deps.recordLoadProgress }
  const cache = createProgressCache({ recordProgress, onTicks: showing.onTicks, clock, log })
  const results = createResults({ intents, advance, settleProgress: cache.settle, log })
  const view = (operation: OperationRecord): OperationView => bars.raise(viewOperation(operation, cache.heard), operation.progress)

  return {
    view,
    wake: work.wake,
    /** What was last heard of the bytes of some work, before it is stored. */
    heard: cache.heard,
    settleProgress: cache.settle,
    receiveResult: results.receive,
    receiveProgress: cache.receive,
    settleByInventory: results.settleByInventory,
    /** For the event stream. */
    read: async (ids: readonly string[]): Promise<Map<string, object>> =>
      new Map((await store.operations.listByIds(ids)).map((operation) => [operation.id, view(operation)])),
    tellTo: showing.tellTo,
    /** Until aborted. */
    async run(signal: AbortSignal): Promise<void> {
      await Promise.all([work.run(signal), cache.run(signal), bars.run(signal)])
    },
  }
}
