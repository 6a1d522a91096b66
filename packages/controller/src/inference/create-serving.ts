// Assembles the data path: routing, cold starts, statistics.
import type { Clock, Log } from '@muster/host'
import type { ChangeFeed } from '../events/feed.ts'
import { createOpenNodeLogs } from '../nodes/open-node-logs.ts'
import { createDispatch, createSuspects } from '../routing/dispatch.ts'
import { createGateways } from '../routing/gateways.ts'
import { createInFlight } from '../routing/in-flight.ts'
import { createLoadEstimate, type LoadEstimate } from '../routing/load-estimate.ts'
import { createPositionPublisher, ReplicaTable } from '../routing/replica-table.ts'
import type { ControllerSettings } from '../settings.ts'
import { createStatsWriter, StatsBuckets } from '../stats/stats-buckets.ts'
import type { Store } from '../store/store.ts'
import { type ColdLoads, createColdModels } from './cold-models.ts'
import type { InferenceMetrics } from './inference-metrics.ts'
import { createInference, type ServedRequest } from './serve.ts'
import { createLastUse } from './last-use.ts'

export interface ServingDeps {
  readonly store: Pick<Store, 'routes' | 'stats' | 'controllers'>
  readonly feed: ChangeFeed
  readonly controllerId: string
  readonly settings: Pick<ControllerSettings, 'modelLoadWait' | 'exposeRouting' | 'idleScaleDown'>
  readonly errorEvent: (message: string) => string
  readonly metrics: InferenceMetrics
  /** Called after a bucket of ten seconds was written. */
  readonly onStats: (at: string) => void
  readonly clock: Clock
  readonly log: Log
  readonly loads: ColdLoads
  /** Subscribes to the request counts that workers report. */
  readonly onInFlight: (report: LoadEstimate['report']) => void
}

export function createServing(deps: ServingDeps) {
  const { store, feed, controllerId, settings, metrics, loads, clock, log, errorEvent } = deps
  const { routes } = store
  const table: ReplicaTable = new ReplicaTable({
    ...{ routes, controllerId, clock, log },
    feedCursor: () => feed.cursor,
    onRead: () => publisher.wake(),
  })
  const publisher = createPositionPublisher({ controllers: store.controllers, controllerId, position: () => table.position, clock, log })
  feed.listen(({ changes }) => table.markChanged(changes))
  feed.onCursorMoved(() => {
    table.onCursorMoved()
    publisher.wake()
  })
  const inFlight = createInFlight()
  const load = createLoadEstimate({ inFlight, clock })
  deps.onInFlight(load.report)
  const suspects = createSuspects(clock)
  const gateways = createGateways({ clock, log })
  const dispatch = createDispatch({ table, inFlight, load, suspects, gateways, log, onRetry: () => metrics.retries.inc() })
  const cold = createColdModels({ table, loads, suspects, clock })
  const lastUse = createLastUse({ routes, idleMs: settings.idleScaleDown, clock, log })
  const buckets = new StatsBuckets(() => clock.now())
  const writer = createStatsWriter({ buckets, stats: store.stats, clock, log, onWritten: deps.onStats })
  const inference = createInference({
    ...{ table, dispatch, cold, clock, errorEvent },
    loadWaitMs: settings.modelLoadWait,
    exposeRouting: settings.exposeRouting,
    onRequest: lastUse.open,
    onSend: (route) => buckets.open(route),
    onServed: (served) => {
      metrics.served(served)
      buckets.record(countOf(served))
    },
  })
  return {
    inference,
    openLogs: createOpenNodeLogs({ routes, gateways, controllerId }),
    refreshMetrics(): void {
      metrics.inFlight.set(inFlight.total())
      metrics.waiting.set(cold.count())
    },
    /** Runs until aborted. */
    async run(signal: AbortSignal): Promise<void> {
      await Promise.all([table.run(signal), publisher.run(signal), lastUse.run(signal), writer.run(signal)])
      await gateways.close()
    },
  }
}

/** A client that disconnects is not an error. */
const countOf = ({ model, nodeId, outcome, usage, ms }: ServedRequest) => ({
  model,
  nodeId: nodeId ?? '',
  isError: outcome !== 'ok' && outcome !== 'client_gone',
  ...usage,
  ms,
})
