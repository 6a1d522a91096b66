// The parts that carry operations, put together: the queue's loop, what workers say, and what is shown of it.
import type { Bus } from '@muster/bus'
import type { Clock, Log } from '@muster/host'
import type { OperationId } from '@muster/protocol'
import type { EventHub } from '../events/hub.ts'
import { createAdvance, type Settled } from '../reconcile/advance.ts'
import { createAsk } from '../reconcile/ask.ts'
import { createResultListener } from '../reconcile/listen.ts'
import { Reconciler } from '../reconcile/loop.ts'
import { createSend } from '../reconcile/send.ts'
import type { ControllerSettings } from '../settings.ts'
import type { Store } from '../store/store.ts'
import { createProgressBook, type TickKey } from './progress-book.ts'
import { viewOperation } from './view.ts'

export interface OperationsDeps {
  readonly bus: Bus
  readonly store: Store
  readonly settings: ControllerSettings
  /** This process; what it holds is taken over when it is gone. */
  readonly holder: string
  readonly onSettled: (settled: readonly Settled[]) => void
  readonly random: () => number
  readonly clock: Clock
  readonly log: Log
}

/** Nothing heard of work for that long: its worker is asked. */
const maxQuietMs = 5_000
/** An operation on more nodes is large, so it is shown less often. */
const fewNodes = 50
const largeEveryMs = 1_000

export function createOperations(deps: OperationsDeps) {
  const { bus, store, settings, holder, random, clock, log } = deps
  const { intents, pulses } = store
  const timeouts = { installMs: settings.backendInstallTimeout, upgradeMs: settings.backendUpgradeTimeout }
  const retry = { baseMs: settings.opRetryBase, maxMs: settings.opRetryMax, maxAttempts: settings.opMaxAttempts }
  const stallMs = settings.opStallTimeout
  const quietMs = Math.min(maxQuietMs, stallMs / 4)
  const advance = createAdvance({ intents, retry, onSettled: deps.onSettled, random, clock, log })
  const send = createSend({ bus, pulses, advance, holder, timeouts, clock, log })
  const ask = createAsk({ bus, pulses, advance, quietMs, stallMs, log })
  const results = createResultListener({ bus, intents, advance, log })
  const reconciler = new Reconciler({
    ...{ intents, advance, send, ask, holder, timeouts, quietMs, clock, log },
    intervalMs: settings.reconcileInterval,
  })
  const watched: { hub: EventHub | null } = { hub: null }
  const book = createProgressBook({ bus, intents, onTicks: (keys) => void show(keys), clock, log })
  const restingUntil = new Map<OperationId, number>()

  /** Those who watch see the bytes move; the highest is kept, so that no other controller shows less later. */
  async function show(keys: readonly TickKey[]): Promise<void> {
    try {
      const now = clock.monotonic()
      for (const [id, next] of restingUntil) if (next <= now) restingUntil.delete(id)
      const ids = (await store.operations.concernedBy(keys)).filter((id) => !restingUntil.has(id))
      for (const operation of await store.operations.listByIds(ids)) {
        if (operation.nodes.length > fewNodes) restingUntil.set(operation.id, now + largeEveryMs)
        const { progress, file_name: fileName } = viewOperation(operation, book.heard)
        if (progress >= operation.progress + 1) await store.operations.raiseProgress(operation.id, { progress, fileName })
      }
      watched.hub?.tick('operation', ids)
    } catch (error) {
      log.debug('progress could not be shown', { error })
    }
  }

  return {
    heard: book.heard,
    wake: (): void => reconciler.wake(),
    settleByInventory: results.settleByInventory,
    /** For the event stream. */
    read: async (ids: readonly string[]): Promise<Map<string, object>> =>
      new Map((await store.operations.listByIds(ids)).map((operation) => [operation.id, viewOperation(operation, book.heard)])),
    tellTo: (hub: EventHub): void => void (watched.hub = hub),
    /** Until aborted. */
    async run(signal: AbortSignal): Promise<void> {
      const subscription = results.subscribe()
      await Promise.all([reconciler.run(signal), book.run(signal)])
      await subscription.stop()
    },
  }
}
