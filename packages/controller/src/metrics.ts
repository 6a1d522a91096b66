// The metrics of a controller. One registry per controller, so that two in one process stay separate.
import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client'
import type { Bus } from '@muster/bus'
import { type ModelView, NodeStatus } from '@muster/protocol'
import { createInferenceMetrics } from './inference/inference-metrics.ts'
import type { LoadTransition } from './loads/load-work.ts'
import { countByStatus } from './nodes/view.ts'
import type { Exclusion } from './placement/placement.pure.ts'
import type { SettledIntent } from './intents/intent-work.ts'
import type { RolloutEnd } from './store/rollouts.ts'
import type { Store } from './store/store.ts'

export type Metrics = ReturnType<typeof createMetrics>

export function createMetrics() {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })
  const registers = [registry]
  const settled = new Histogram({
    name: 'muster_op_duration_seconds',
    help: 'Time from an intent to its end on a node',
    labelNames: ['kind', 'node', 'outcome'],
    buckets: [0.1, 0.5, 2, 10, 30, 120, 600, 3_600, 86_400],
    registers,
  })
  const loadFailures = new Counter({
    name: 'muster_load_failures_total',
    help: 'Failed load attempts by cause',
    labelNames: ['code'],
    registers,
  })
  return {
    registry,
    inference: createInferenceMetrics(registry),
    placement: createPlacementMetrics(registry),
    requests: new Histogram({
      name: 'muster_http_request_seconds',
      help: 'Duration of API requests',
      labelNames: ['method', 'route', 'status'],
      buckets: [0.001, 0.005, 0.02, 0.1, 0.5, 2, 10, 30],
      registers,
    }),
    beats: new Counter({ name: 'muster_heartbeats_total', help: 'Heartbeats received', registers }),
    attentive: new Gauge({ name: 'muster_attentive', help: '1 while bus, database and inbox work: missing heartbeats count', registers }),
    busConnected: new Gauge({ name: 'muster_bus_connected', help: '1 while the bus is connected', registers }),
    busMessages: new Counter({
      name: 'muster_bus_messages_total',
      help: 'Bus messages since the start',
      labelNames: ['outcome'],
      registers,
    }),
    nodes: new Gauge({ name: 'muster_nodes', help: 'Nodes by status', labelNames: ['status'], registers }),
    /** Observes intents that this controller settled. */
    settled: (rows: readonly SettledIntent[]): void => {
      for (const { record, intent } of rows) {
        if (!('finishedAt' in intent)) continue
        const seconds = Math.max(0, (intent.finishedAt - Date.parse(record.requestedAt)) / 1000)
        settled.observe({ kind: intent.kind, node: intent.nodeId, outcome: intent.state }, seconds)
      }
    },
    loadStepped: ({ to, event }: Pick<LoadTransition, 'to' | 'event'>): void => {
      const isNews = event.type !== 'claimed' && event.type !== 'hurried'
      if (to !== 'gone' && to.state === 'failed' && isNews) loadFailures.inc({ code: to.failure.code })
    },
    rollouts: createRolloutMetrics(registry),
    intents: createIntentGauges(registry),
    loads: new Gauge({ name: 'muster_loads', help: 'Loads by state', labelNames: ['state'], registers }),
    replicas: new Gauge({ name: 'muster_replicas', help: 'Replicas by state', labelNames: ['state'], registers }),
    modelReplicas: createReplicaGauges(registry),
    listeners: new Gauge({ name: 'muster_event_listeners', help: 'Open event streams', registers }),
  }
}

function createRolloutMetrics(registry: Registry) {
  const registers = [registry]
  const ends = new Counter({
    name: 'muster_rollouts_total',
    help: 'Finished rollouts by outcome: succeeded, failed (rolled back), cancelled',
    labelNames: ['end'],
    registers,
  })
  return {
    open: new Gauge({ name: 'muster_rollouts', help: 'Open rollouts by state', labelNames: ['state'], registers }),
    ended: (end: RolloutEnd): void => ends.inc({ end }),
  }
}

function createIntentGauges(registry: Registry) {
  const registers = [registry]
  return {
    pending: new Gauge({ name: 'muster_intents_pending', help: 'Intents that are not settled', registers }),
    dead: new Gauge({ name: 'muster_intents_dead', help: 'Intents given up after the last attempt', registers }),
    runningOnWorker: new Gauge({
      name: 'muster_intents_running_on_worker',
      help: 'Intents that take longer than their timeout',
      registers,
    }),
    attempts: new Gauge({ name: 'muster_intents_attempts', help: 'Failed attempts of intents that are not settled', registers }),
    queueAge: new Gauge({ name: 'muster_intents_queue_age_seconds', help: 'Age of the oldest intent that waits to be sent', registers }),
  }
}

interface MetricSources {
  readonly bus: Bus
  readonly store: Store
  readonly listeners: number
  readonly readModels: (names: readonly string[]) => Promise<ReadonlyMap<string, ModelView>>
}

/** Updates the gauges that are computed at scrape time. */
export async function refreshMetrics(metrics: Metrics, sources: MetricSources): Promise<void> {
  // The bus has its own counters.
  metrics.busMessages.reset()
  for (const [outcome, count] of Object.entries(sources.bus.stats())) metrics.busMessages.inc({ outcome }, Number(count))
  metrics.busConnected.set(sources.bus.isConnected() ? 1 : 0)
  metrics.listeners.set(sources.listeners)
  const queue = await sources.store.operations.counts()
  metrics.intents.pending.set(queue.pending)
  metrics.intents.dead.set(queue.dead)
  metrics.intents.runningOnWorker.set(queue.runningOnWorker)
  metrics.intents.attempts.set(queue.attempts)
  metrics.intents.queueAge.set(queue.oldestSeconds)
  for (const [gauge, counts] of [
    [metrics.loads, await sources.store.loads.countByState()],
    [metrics.replicas, await sources.store.replicas.countByState()],
    [metrics.rollouts.open, await sources.store.rollouts.countByState()],
  ] as const) {
    gauge.reset()
    for (const { state, count } of counts) gauge.set({ state }, count)
  }
  metrics.modelReplicas.show(await sources.readModels(await sources.store.scaling.names(maxModels)))
  metrics.nodes.reset()
  const counts = await countByStatus(sources.store.nodes)
  for (const status of NodeStatus.options) metrics.nodes.set({ status }, counts[status] ?? 0)
}

function createPlacementMetrics(registry: Registry) {
  const registers = [registry]
  const refusals = new Counter({
    name: 'muster_placements_refused_total',
    help: 'Placements without an eligible node, counted once per kind of exclusion',
    labelNames: ['reason'],
    registers,
  })
  const evictions = new Counter({ name: 'muster_evictions_total', help: 'Replicas evicted to make room for other models', registers })
  return {
    refused(excludedBy: ReadonlySet<Exclusion>): void {
      for (const reason of excludedBy.size === 0 ? ['no_nodes'] : excludedBy) refusals.inc({ reason })
    },
    evicted: (count: number): void => evictions.inc(count),
  }
}

/** Each model is a time series: more models than this are not listed. */
const maxModels = 1_000

function createReplicaGauges(registry: Registry) {
  const shared = { labelNames: ['model'], registers: [registry] }
  const desired = new Gauge({
    name: 'muster_model_replicas_wanted',
    help: 'Desired replicas of a model; at most 1,000 models',
    ...shared,
  })
  const ready = new Gauge({
    name: 'muster_model_replicas_ready',
    help: 'Ready replicas of a model; at most 1,000 models',
    ...shared,
  })
  return {
    show(models: ReadonlyMap<string, ModelView>): void {
      desired.reset()
      ready.reset()
      for (const [model, view] of models) {
        desired.set({ model }, view.replicas_desired)
        ready.set({ model }, view.replicas_ready)
      }
    },
  }
}
