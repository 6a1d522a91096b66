// How many replicas a model is to have. Pure.
import type { Scheduling } from '@muster/protocol'

export interface Demand {
  readonly scheduling: Scheduling
  /** Demanded by requests and `load`. */
  readonly requestedReplicas: number
  /** Unloaded by hand. */
  readonly isUnloaded: boolean
}

/** `matching`: nodes that it may run on, for `replicas: all`. */
export function desiredReplicas({ scheduling, requestedReplicas, isUnloaded }: Demand, matching: number): number {
  if (isUnloaded) return 0
  // Without a node one is wanted all the same: it says why there is none, and one that serves on a drained node serves on.
  if (scheduling.replicas === 'all') return Math.max(1, matching)
  const { min, max } = limitsOf(scheduling)
  return Math.min(max, Math.max(min, requestedReplicas))
}

/** With the defaults filled in: at most one, unless its minimum says more. */
export function limitsOf({ min_replicas: min = 0, max_replicas: max = Math.max(1, min) }: Scheduling): { min: number; max: number } {
  return { min, max: max === 0 ? Number.POSITIVE_INFINITY : max }
}
