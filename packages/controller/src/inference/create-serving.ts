// The parts of the data path, put together.
import type { Clock, Log } from '@muster/host'
import type { ChangeFeed } from '../events/feed.ts'
import { createOpenNodeLogs } from '../nodes/open-node-logs.ts'
import { createDispatch } from '../routing/dispatch.ts'
import { createGateways } from '../routing/gateways.ts'
import { createInFlight } from '../routing/in-flight.ts'
import { createKnownLoad, type KnownLoad } from '../routing/known-load.ts'
import { ReplicaTable } from '../routing/replica-table.ts'
import { createSuspects } from '../routing/suspects.ts'
import { createTeller } from '../routing/teller.ts'
import type { ControllerSettings } from '../settings.ts'
import { StatsBook } from '../stats/stats-book.ts'
import { createStatsWriter } from '../stats/write-stats.ts'
import type { Store } from '../store/store.ts'
import type { ColdLoads } from './cold-loads.ts'
import { createColdModels } from './cold-models.ts'
import type { InferenceMetrics } from './inference-metrics.ts'
import { createInference, type Served } from './serve.ts'
import { createUsedMarks } from './used-marks.ts'

export interface ServingDeps {
  readonly store: Pick<Store, 'routes' | 'stats' | 'controllers'>
  readonly feed: ChangeFeed
  readonly controllerId: string
  readonly settings: Pick<ControllerSettings, 'modelLoadWait' | 'exposeRouting' | 'idleScaleDown'>
  readonly errorEvent: (message: string) => string
  readonly metrics: InferenceMetrics
  /** A bucket of ten seconds is over and written. */
  readonly onStats: (at: string) => void
  readonly clock: Clock
  readonly log: Log
  readonly loads: ColdLoads
  /** What workers say of how many requests their replicas have. */
  readonly onInFlight: (told: KnownLoad['told']) => void
}

export function createServing(deps: ServingDeps) {
  const { store, feed, controllerId, settings, metrics, loads, clock, log, errorEvent } = deps
  const { routes } = store
  const table: ReplicaTable = new ReplicaTable({
    ...{ routes, controllerId, clock, log },
    notedTo: () => feed.cursor,
    onRead: () => teller.wake(),
  })
  const teller = createTeller({ controllers: store.controllers, controllerId, holdsTo: () => table.holdsTo, clock, log })
  feed.listen(({ changes }) => table.note(changes))
  feed.follow(() => {
    table.noteMoved()
    teller.wake()
  })
  const inFlight = createInFlight()
  const load = createKnownLoad({ inFlight, clock })
  deps.onInFlight(load.told)
  const suspects = createSuspects(clock)
  const gateways = createGateways()
  const dispatch = createDispatch({ table, inFlight, load, suspects, gateways, log, onRetry: () => metrics.retries.inc() })
  const cold = createColdModels({ table, loads, suspects, clock })
  const used = createUsedMarks({ routes, idleMs: settings.idleScaleDown, clock, log })
  const book = new StatsBook(() => clock.now())
  const writer = createStatsWriter({ book, stats: store.stats, clock, log, onWritten: deps.onStats })
  const inference = createInference({
    ...{ table, dispatch, cold, clock, errorEvent },
    loadWaitMs: settings.modelLoadWait,
    exposeRouting: settings.exposeRouting,
    onAsked: used.open,
    onSend: (route) => book.open(route),
    onServed: (served) => {
      metrics.served(served)
      book.record(countedOf(served))
    },
  })
  return {
    inference,
    openLogs: createOpenNodeLogs({ routes, gateways, controllerId }),
    refreshMetrics(): void {
      metrics.inFlight.set(inFlight.total())
      metrics.waiting.set(cold.count())
    },
    /** Until aborted. */
    async run(signal: AbortSignal): Promise<void> {
      await Promise.all([table.run(signal), teller.run(signal), used.run(signal), writer.run(signal)])
      await gateways.close()
    },
  }
}

/** A client that leaves is no error of anybody here. */
const countedOf = ({ model, nodeId, outcome, usage, ms }: Served) => ({
  model,
  nodeId: nodeId ?? '',
  isError: outcome !== 'ok' && outcome !== 'client_gone',
  ...usage,
  ms,
})
