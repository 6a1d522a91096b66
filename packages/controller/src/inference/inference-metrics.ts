// Metrics of the data path.
import { Counter, Gauge, Histogram, type Registry } from 'prom-client'
import type { ServedRequest } from './serve.ts'

export type InferenceMetrics = ReturnType<typeof createInferenceMetrics>

export function createInferenceMetrics(registry: Registry) {
  const registers = [registry]
  const seconds = [0.005, 0.02, 0.1, 0.5, 1, 2, 5, 10, 30, 60, 300]
  const histogram = (name: string, help: string, buckets = seconds) =>
    new Histogram({ name, help, labelNames: ['model'], buckets, registers })
  const requests = new Counter({
    name: 'muster_inference_requests_total',
    help: 'Inference requests by outcome: ok, client_error, overloaded, error',
    labelNames: ['model', 'node', 'outcome'],
    registers,
  })
  const failures = new Counter({
    name: 'muster_inference_failures_total',
    help: 'Inference requests that are not ok, by reason: the status of the backend, or the end of the request',
    labelNames: ['model', 'reason'],
    registers,
  })
  const duration = histogram('muster_inference_seconds', 'Duration of inference requests until the last byte')
  const firstToken = histogram('muster_inference_first_token_seconds', 'Time from a request to its first token; headers do not count')
  const engine = histogram(
    'muster_engine_first_token_seconds',
    'Time from sending a request to a replica to its first token: the queue of the engine and the prompt',
  )
  const queue = histogram('muster_queue_seconds', 'Time from a request until it is sent to a replica, without the queue of the engine', [
    0.001,
    ...seconds,
  ])
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
    served({ model, nodeId, outcome, reason, ms, queueMs, because, firstTokenMs, engineMs }: ServedRequest): void {
      requests.inc({ model, node: nodeId ?? '', outcome })
      if (outcome !== 'ok') failures.inc({ model, reason })
      duration.observe({ model }, ms / 1000)
      if (queueMs !== null) queue.observe({ model }, queueMs / 1000)
      if (because !== null && because !== 'fewest') affinity.inc({ result: because === 'prefix' ? 'hit' : 'moved' })
      if (firstTokenMs !== null) firstToken.observe({ model }, firstTokenMs / 1000)
      if (engineMs !== null) engine.observe({ model }, engineMs / 1000)
    },
  }
}
