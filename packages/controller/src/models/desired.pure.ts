// The desired number of replicas of a model. Pure.
import type { Scheduling } from '@muster/protocol'

export interface Demand {
  readonly scheduling: Scheduling
  /** Demanded by requests and `load`. */
  readonly requestedReplicas: number
  /** Unloaded by hand. */
  readonly isUnloaded: boolean
}

/** `matching`: the number of eligible nodes, for `replicas: all`. */
export function desiredReplicas({ scheduling, requestedReplicas, isUnloaded }: Demand, matching: number): number {
  if (isUnloaded) return 0
  // At least one without an eligible node: its load shows the reason, and a replica on a draining node keeps serving.
  if (scheduling.replicas === 'all') return Math.max(1, matching)
  const { min, max } = limitsOf(scheduling)
  return Math.min(max, Math.max(min, requestedReplicas))
}

/** How many replicas `load` requests: one, or the model's minimum, or one for every node that the model may run on. */
export function replicasToLoad(scheduling: Scheduling, matching: number): number {
  return Math.max(1, scheduling.replicas === 'all' ? matching : limitsOf(scheduling).min)
}

/** With defaults: at most one, unless the minimum is higher. */
export function limitsOf({ min_replicas: min = 0, max_replicas: max = Math.max(1, min) }: Scheduling): { min: number; max: number } {
  return { min, max: max === 0 ? Number.POSITIVE_INFINITY : max }
}
