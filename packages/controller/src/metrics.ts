// What a controller counts. One registry per controller, so that two in one process don't mix.
import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client'

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
    attentive: new Gauge({ name: 'muster_attentive', help: '1 while bus and database work without a break, so that silence counts', registers }),
    busConnected: new Gauge({ name: 'muster_bus_connected', help: '1 while the bus is connected', registers }),
    busMessages: new Gauge({ name: 'muster_bus_messages', help: 'Messages since the start', labelNames: ['outcome'], registers }),
    nodes: new Gauge({ name: 'muster_nodes', help: 'Nodes by status', labelNames: ['status'], registers }),
    listeners: new Gauge({ name: 'muster_event_listeners', help: 'Open event streams', registers }),
  }
}
