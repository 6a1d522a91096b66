// What a controller counts. One registry per controller, so that two in one process don't mix.
import type { Bus } from '@muster/bus'
import { NodeStatus } from '@muster/protocol'
import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client'
import { countByStatus } from './nodes/count-by-status.ts'
import type { NodeStore } from './store/nodes.ts'

export type Metrics = ReturnType<typeof createMetrics>

export function createMetrics() {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })
  const registers = [registry]
  return {
    registry,
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
    listeners: new Gauge({ name: 'muster_event_listeners', help: 'Open event streams', registers }),
  }
}

/** What is known elsewhere and only looked up when somebody asks. */
export async function refreshMetrics(metrics: Metrics, now: { bus: Bus; nodes: NodeStore; listeners: number }): Promise<void> {
  // The bus counts them; here they are only shown.
  metrics.busMessages.reset()
  for (const [outcome, count] of Object.entries(now.bus.stats())) metrics.busMessages.inc({ outcome }, Number(count))
  metrics.busConnected.set(now.bus.isConnected() ? 1 : 0)
  metrics.listeners.set(now.listeners)
  metrics.nodes.reset()
  const counts = await countByStatus(now.nodes)
  for (const status of NodeStatus.options) metrics.nodes.set({ status }, counts[status] ?? 0)
}
