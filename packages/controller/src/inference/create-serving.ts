// Assembles the data path: routing, cold starts, statistics.
import type { Clock, Log } from '@muster/host'
import { gatewayPaths } from '@muster/protocol'
import type { ChangeFeed } from '../events/feed.ts'
import { createOpenNodeLogs } from '../nodes/open-node-logs.ts'
import { createDispatch, createSuspects } from '../routing/dispatch.ts'
import { createGateways } from '../routing/gateways.ts'
import { createInFlight } from '../routing/in-flight.ts'
import { createLoadEstimate, type LoadEstimate } from '../routing/load-estimate.ts'
import { createPositionPublisher, ReplicaTable, type Route } from '../routing/replica-table.ts'
import { createRotation } from '../routing/rotation.ts'
import { createCheckClient } from '../replicas/check-replicas.ts'
import { judgeAnswer, questionsFor } from '../replicas/replicas.pure.ts'
import type { ControllerSettings } from '../settings.ts'
import { createStatsWriter, StatsBuckets } from '../stats/stats-buckets.ts'
import type { Store } from '../store/store.ts'
import { type ColdLoads, createColdModels } from './cold-models.ts'
import type { InferenceMetrics } from './inference-metrics.ts'
import { createInference, type ServedRequest } from './serve.ts'
import { createLastUse } from './last-use.ts'
import { withLive } from '../with-live.ts'

export interface ServingDeps {
  readonly store: Pick<Store, 'routes' | 'stats' | 'controllers'>
  readonly feed: ChangeFeed
  readonly controllerId: string
  readonly settings: Pick<ControllerSettings, 'modelLoadWait' | 'exposeRouting' | 'exposeNodeHeader' | 'idleScaleDown'>
  readonly errorEvent: (message: string) => string
  readonly metrics: InferenceMetrics
  /** Called after a bucket of ten seconds was written. */
  readonly onStats: (at: string) => void
  /** Called when a replica leaves the rotation or returns. */
  readonly onRotation: (replicaId: string) => void
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
  const probes = createProbes({ controllerId })
  const rotation = createRotation({
    ...{ probe: probes.probe, clock, log },
    onChange: deps.onRotation,
    isRouted: ({ model, replicaId }) => table.find(model)?.replicas.some((route) => route.replicaId === replicaId) === true,
  })
  const dispatch = createDispatch({ table, inFlight, load, suspects, rotation, gateways, clock, log, onRetry: () => metrics.retries.inc() })
  const cold = createColdModels({ table, loads, suspects, clock })
  const lastUse = createLastUse(withLive({ routes, clock, log }, { idleMs: () => settings.idleScaleDown }))
  const buckets = new StatsBuckets(() => clock.now())
  const writer = createStatsWriter({ buckets, stats: store.stats, clock, log, onWritten: deps.onStats })
  const serving = {
    ...{ table, dispatch, cold, clock, errorEvent },
    exposeNodeHeader: settings.exposeNodeHeader,
    onRequest: lastUse.open,
    onSend: (route: Route) => buckets.open(route),
    onServed: (served: ServedRequest) => {
      metrics.served(served)
      buckets.record(countOf(served))
    },
  }
  const live = { loadWaitMs: () => settings.modelLoadWait, exposeRouting: () => settings.exposeRouting }
  const inference = createInference(withLive(serving, live))
  return {
    inference,
    /** Null: the replica is in rotation on this controller. */
    rotationNote: rotation.noteOf,
    openLogs: createOpenNodeLogs({ routes, gateways, controllerId }),
    refreshMetrics(): void {
      metrics.inFlight.set(inFlight.total())
      metrics.waiting.set(cold.count())
    },
    /** Runs until aborted. */
    async run(signal: AbortSignal): Promise<void> {
      await Promise.all([table.run(signal), publisher.run(signal), lastUse.run(signal), writer.run(signal)])
      rotation.close()
      await Promise.all([gateways.close(), probes.close()])
    },
  }
}

const countOf = ({ model, nodeId, outcome, usage, ms }: ServedRequest) => ({ model, nodeId: nodeId ?? '', outcome, ...usage, ms })

/** A backend without a GPU, or with a queue, may need long for its first tokens. */
const probeSilenceMs = 60_000

/** Probes a replica with the check question of the path on which requests failed. */
function createProbes({ controllerId }: { controllerId: string }) {
  const client = createCheckClient({ silenceMs: probeSilenceMs, controllerId })
  return {
    /** Null: the engine answered. */
    async probe(route: Route, path: string, signal: AbortSignal): Promise<string | null> {
      const question = questionsFor({ model: route.model, usecases: [] }).find((each) => each.path === path)
      if (question === undefined) return null
      const { replicaId: id, nodeId, secret: gatewaySecret } = route
      const gatewayUrl = `${route.origin}${route.path.slice(0, -gatewayPaths.replica(id).length)}`
      const verdict = judgeAnswer(question, await client.request({ id, nodeId, gatewayUrl, gatewaySecret }, question, signal))
      if (verdict.is === 'failed') return verdict.cause
      return verdict.is === 'unclear' ? verdict.why : null
    },
    close: client.close,
  }
}
