// Metrics of the data path.
import { Counter, Gauge, Histogram, type Registry } from 'prom-client'
import type { ServedRequest } from './serve.ts'

export type InferenceMetrics = ReturnType<typeof createInferenceMetrics>

export function createInferenceMetrics(registry: Registry) {
  const registers = [registry]
  const seconds = [0.005, 0.02, 0.1, 0.5, 1, 2, 5, 10, 30, 60, 300]
  const requests = new Counter({
    name: 'muster_inference_requests_total',
    help: 'Inference requests by outcome',
    labelNames: ['model', 'node', 'outcome'],
    registers,
  })
  const duration = new Histogram({
    name: 'muster_inference_seconds',
    help: 'Duration of inference requests until the last byte',
    labelNames: ['model'],
    buckets: seconds,
    registers,
  })
  const firstByte = new Histogram({
    name: 'muster_inference_first_byte_seconds',
    help: 'Time from a request to the first byte of its response',
    labelNames: ['model'],
    buckets: seconds,
    registers,
  })
  const queue = new Histogram({
    name: 'muster_queue_seconds',
    help: 'Time from a request until it is sent to a replica',
    labelNames: ['model'],
    buckets: [0.001, ...seconds],
    registers,
  })
  const affinity = new Counter({
    name: 'muster_affinity_total',
    help: 'Requests with a prefix key: hit (sent to the preferred replica) or moved',
    labelNames: ['result'],
    registers,
  })
  return {
    inFlight: new Gauge({ name: 'muster_inference_in_flight', help: 'Requests open at replicas', registers }),
    waiting: new Gauge({ name: 'muster_inference_waiting', help: 'Requests waiting for a model to load', registers }),
    retries: new Counter({
      name: 'muster_inference_retries_total',
      help: 'Requests retried on another replica before a response began',
      registers,
    }),
    served({ model, nodeId, outcome, ms, queueMs, because, firstByteMs }: ServedRequest): void {
      requests.inc({ model, node: nodeId ?? '', outcome })
      duration.observe({ model }, ms / 1000)
      if (queueMs !== null) queue.observe({ model }, queueMs / 1000)
      if (because !== null && because !== 'fewest') affinity.inc({ result: because === 'prefix' ? 'hit' : 'moved' })
      if (firstByteMs !== null) firstByte.observe({ model }, firstByteMs / 1000)
    },
  }
}
