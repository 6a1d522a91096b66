// Assembles the operations: the work on intents, results and progress of workers, and the views.
import type { Bus } from '@muster/bus'
import type { Clock, Log, Step } from '@muster/host'
import type { OperationView } from '@muster/protocol'
import { createAdvance, createIntentWork, createResults, type IntentLimits, type SettledIntent } from '../intents/intent-work.ts'
import { createQuery, createSend } from '../intents/send.ts'
import { type ControllerSettings, retryOf } from '../settings.ts'
import type { IntentStore, ProgressTick } from '../store/intents.ts'
import type { OperationRecord } from '../store/operations.ts'
import type { Store } from '../store/store.ts'
import { createBars, createProgressCache, createProgressFeed } from './progress.ts'
import { viewOperation } from './view.ts'
import { withLive } from '../with-live.ts'

export interface OperationsDeps {
  readonly bus: Bus
  readonly store: Store
  readonly settings: Pick<
    ControllerSettings,
    | 'backendInstallTimeout'
    | 'backendUpgradeTimeout'
    | 'opRetryBase'
    | 'opRetryMax'
    | 'opMaxAttempts'
    | 'opStallTimeout'
    | 'reconcileInterval'
  >
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

const limitsOf = (settings: OperationsDeps['settings']): IntentLimits =>
  withLive(
    {},
    {
      installMs: () => settings.backendInstallTimeout,
      upgradeMs: () => settings.backendUpgradeTimeout,
      stallMs: () => settings.opStallTimeout,
      quietMs: () => Math.min(maxQuietMs, settings.opStallTimeout / 4),
    },
  )

export function createOperations(deps: OperationsDeps) {
  const { bus, store, settings, holder, random, clock, log } = deps
  const { intents, pins, pulses } = store
  const limits = limitsOf(settings)
  const advance = createAdvance({ intents, retry: retryOf(settings), onSettled: deps.onSettled, random, clock, log })
  const send = createSend({ bus, pulses, advance, holder, step: deps.step, clock, log })
  const query = createQuery({ bus, pulses, intents, pins, advance, limits, log })
  const work = createIntentWork({
    ...{ intents, advance, send, query, holder, limits, clock, log },
    withdrawFromAgents: () => store.reopen.withdrawFromAgents(),
    intervalMs: settings.reconcileInterval,
  })
  const bars = createBars({ operations: store.operations, clock, log })
  const progressFeed = createProgressFeed({ operations: store.operations, clock, log })
  const recordProgress = { intent: (ticks: readonly ProgressTick[]) => intents.recordProgress(ticks), load: deps.recordLoadProgress }
  const cache = createProgressCache({ recordProgress, onTicks: progressFeed.onTicks, clock, log })
  const results = createResults({ intents, pins, advance, settleProgress: cache.settle, log })
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
