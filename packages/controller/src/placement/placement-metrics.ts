// What is counted of decisions where models go.
import { Counter, type Registry } from 'prom-client'
import type { Exclusion } from './choose.ts'

export function createPlacementMetrics(registry: Registry) {
  const registers = [registry]
  const refusals = new Counter({
    name: 'muster_placements_refused_total',
    help: 'Decisions that found no node for a model, once for each kind of reason that excluded a node',
    labelNames: ['reason'],
    registers,
  })
  const evictions = new Counter({ name: 'muster_evictions_total', help: 'Replicas that were ended to make room for others', registers })
  return {
    refused(excludedBy: ReadonlySet<Exclusion>): void {
      for (const reason of excludedBy.size === 0 ? ['no_nodes'] : excludedBy) refusals.inc({ reason })
    },
    evicted: (count: number): void => evictions.inc(count),
  }
}
