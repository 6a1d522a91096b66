// What a controller counts. One registry per controller, so that two in one process don't mix.
import type { Bus } from '@muster/bus'
import { NodeStatus, type ModelView } from '@muster/protocol'
import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client'
import { createInferenceMetrics } from './inference/inference-metrics.ts'
import type { Taken } from './loads/advance.ts'
import { countByStatus } from './nodes/view.ts'
import { createPlacementMetrics } from './placement/placement-metrics.ts'
import type { Settled } from './intents/advance.ts'
import { createReplicaGauges, maxModels } from './scaling/replica-gauges.ts'
import type { RolloutEnd } from './store/rollout-facts.ts'
import type { Store } from './store/store.ts'

export type Metrics = ReturnType<typeof createMetrics>

export function createMetrics() {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })
  const registers = [registry]
  const settled = new Histogram({
    name: 'muster_op_duration_seconds',
    help: 'From the wish to its end on a node',
    labelNames: ['kind', 'node', 'outcome'],
    buckets: [0.1, 0.5, 2, 10, 30, 120, 600, 3_600, 86_400],
    registers,
  })
  const loadFailures = new Counter({
    name: 'muster_load_failures_total',
    help: 'Tries to load a model that failed, by their cause',
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
    beats: new Counter({ name: 'muster_heartbeats_total', help: 'Heartbeats taken into a batch', registers }),
    attentive: new Gauge({
      name: 'muster_attentive',
      help: '1 while bus and database work without a break, so that silence counts',
      registers,
    }),
    busConnected: new Gauge({ name: 'muster_bus_connected', help: '1 while the bus is connected', registers }),
    busMessages: new Counter({ name: 'muster_bus_messages_total', help: 'Messages since the start', labelNames: ['outcome'], registers }),
    nodes: new Gauge({ name: 'muster_nodes', help: 'Nodes by status', labelNames: ['status'], registers }),
    /** Of rows that came to an end here. */
    settled: (rows: readonly Settled[]): void => {
      for (const { record, intent } of rows) {
        if (!('finishedAt' in intent)) continue
        const seconds = Math.max(0, (intent.finishedAt - Date.parse(record.requestedAt)) / 1000)
        settled.observe({ kind: intent.kind, node: intent.nodeId, outcome: intent.state }, seconds)
      }
    },
    loadStepped: ({ to, event }: Pick<Taken, 'to' | 'event'>): void => {
      const isNews = event.type !== 'claimed' && event.type !== 'hurried'
      if (to !== 'gone' && to.state === 'failed' && isNews) loadFailures.inc({ code: to.failure.code })
    },
    rollouts: createRolloutMetrics(registry),
    wishes: createWishGauges(registry),
    loads: new Gauge({ name: 'muster_loads', help: 'Loads of models by state', labelNames: ['state'], registers }),
    replicas: new Gauge({ name: 'muster_replicas', help: 'Processes of models by state', labelNames: ['state'], registers }),
    ofModels: createReplicaGauges(registry),
    listeners: new Gauge({ name: 'muster_event_listeners', help: 'Open event streams', registers }),
  }
}

function createRolloutMetrics(registry: Registry) {
  const registers = [registry]
  const ends = new Counter({
    name: 'muster_rollouts_total',
    help: 'Rollouts that came to an end, by how: succeeded, failed (taken back), cancelled (nothing was left of it)',
    labelNames: ['end'],
    registers,
  })
  return {
    open: new Gauge({ name: 'muster_rollouts', help: 'Rollouts that are under way, by state', labelNames: ['state'], registers }),
    ended: (end: RolloutEnd): void => ends.inc({ end }),
  }
}

/** Of wishes that are not settled. */
function createWishGauges(registry: Registry) {
  const registers = [registry]
  return {
    pending: new Gauge({ name: 'muster_intents_pending', help: 'Wishes of nodes that are not settled', registers }),
    dead: new Gauge({ name: 'muster_intents_dead', help: 'Wishes that were given up after the last attempt', registers }),
    runningOnWorker: new Gauge({ name: 'muster_intents_running_on_worker', help: 'Wishes that take longer than their timeout', registers }),
    attempts: new Gauge({ name: 'muster_intents_attempts', help: 'Failed tries of the wishes that are not settled', registers }),
    queueAge: new Gauge({ name: 'muster_intents_queue_age_seconds', help: 'Age of the oldest wish that waits to be sent', registers }),
  }
}

interface Now {
  readonly bus: Bus
  readonly store: Store
  readonly listeners: number
  readonly readModels: (names: readonly string[]) => Promise<ReadonlyMap<string, ModelView>>
}

/** What is known elsewhere and only looked up when somebody asks. */
export async function refreshMetrics(metrics: Metrics, now: Now): Promise<void> {
  // The bus counts them; here they are only shown.
  metrics.busMessages.reset()
  for (const [outcome, count] of Object.entries(now.bus.stats())) metrics.busMessages.inc({ outcome }, Number(count))
  metrics.busConnected.set(now.bus.isConnected() ? 1 : 0)
  metrics.listeners.set(now.listeners)
  const queue = await now.store.operations.counts()
  metrics.wishes.pending.set(queue.pending)
  metrics.wishes.dead.set(queue.dead)
  metrics.wishes.runningOnWorker.set(queue.runningOnWorker)
  metrics.wishes.attempts.set(queue.attempts)
  metrics.wishes.queueAge.set(queue.oldestSeconds)
  for (const [gauge, counts] of [
    [metrics.loads, await now.store.loads.countByState()],
    [metrics.replicas, await now.store.replicas.countByState()],
    [metrics.rollouts.open, await now.store.rollouts.countByState()],
  ] as const) {
    gauge.reset()
    for (const { state, count } of counts) gauge.set({ state }, count)
  }
  metrics.ofModels.show(await now.readModels(await now.store.scaling.names(maxModels)))
  metrics.nodes.reset()
  const counts = await countByStatus(now.store.nodes)
  for (const status of NodeStatus.options) metrics.nodes.set({ status }, counts[status] ?? 0)
}
