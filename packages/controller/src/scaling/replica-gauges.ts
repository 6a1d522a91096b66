// How many replicas models are to have, and have.
import type { ModelView } from '@muster/protocol'
import { Gauge, type Registry } from 'prom-client'

/** A label has a series of its own for each value: more models than that are not told one by one. */
export const maxModels = 1_000

export function createReplicaGauges(registry: Registry) {
  const shared = { labelNames: ['model'], registers: [registry] }
  const wanted = new Gauge({
    name: 'muster_model_replicas_wanted',
    help: 'Replicas that a model is to have; of at most 1,000 models',
    ...shared,
  })
  const ready = new Gauge({
    name: 'muster_model_replicas_ready',
    help: 'Replicas of a model that answer; of at most 1,000 models',
    ...shared,
  })
  return {
    show(models: ReadonlyMap<string, ModelView>): void {
      wanted.reset()
      ready.reset()
      for (const [model, view] of models) {
        wanted.set({ model }, view.replicas_desired)
        ready.set({ model }, view.replicas_ready)
      }
    },
  }
}
