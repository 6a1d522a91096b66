// Decides how many replicas a model should have, from the load of its replicas. Streaks are columns, so that any controller can
// decide and a restart loses nothing; time is the database's.
import { limitsOf } from '../loads/replica-set.pure.ts'
import type { ScalableModel } from '../store/scaling.ts'

export interface ScalingFacts {
  readonly model: ScalableModel
  /** Open requests of each ready replica. */
  readonly inFlight: readonly number[]
  /** Milliseconds, like the streaks. */
  readonly now: number
  /** How long fewer replicas must have sufficed before one is removed. */
  readonly idleMs: number
}

/** The new values of the model's row. */
export type Scale = Pick<ScalableModel, 'requestedReplicas' | 'busySince' | 'slackSince'>

/** A shorter streak is a burst: starting a replica takes about as long. */
export const busyMs = 10_000

/** Null: no change. */
export function decideScaling(facts: ScalingFacts): Scale | null {
  const { model } = facts
  const to = scaleOf(facts)
  const isSame = to.requestedReplicas === model.requestedReplicas && to.busySince === model.busySince && to.slackSince === model.slackSince
  return isSame ? null : to
}

/** A step resets the streaks: the next one starts after the step has taken effect. */
function scaleOf({ model, inFlight, now, idleMs }: ScalingFacts): Scale {
  const { requestedReplicas } = model
  const { min, max } = limitsOf(model.scheduling)
  const desired = Math.min(max, Math.max(min, requestedReplicas))
  const settled = { requestedReplicas, busySince: null, slackSince: null }
  if (model.isUnloaded || model.scheduling.disabled === true || model.scheduling.replicas === 'all') return settled
  // While replicas start or end, the load of the others does not show how many are needed.
  if (desired === 0 || model.loads !== desired || inFlight.length + model.failed !== desired) return settled

  if (desired < max && model.failed === 0 && isBusy(inFlight, model.slots)) {
    const since = model.busySince ?? now
    return now - since >= busyMs ? { ...settled, requestedReplicas: desired + 1 } : { ...settled, busySince: since }
  }
  if (desired > Math.max(1, min) && isTooMany(inFlight, model)) {
    const since = model.slackSince ?? now
    return now - since >= idleMs ? { ...settled, requestedReplicas: desired - 1 } : { ...settled, slackSince: since }
  }
  return settled
}

const sumOf = (inFlight: readonly number[]): number => inFlight.reduce((sum, count) => sum + count, 0)

/** More requests than all replicas work on at once: some wait in a queue. One long request is no reason for another replica. */
const isBusy = (inFlight: readonly number[], slots: number): boolean =>
  inFlight.every((count) => count > 0) && sumOf(inFlight) > inFlight.length * slots

/** One less would have a free slot. Failed replicas are not missed unless all others are busy. */
const isTooMany = (inFlight: readonly number[], { failed, slots }: Pick<ScalableModel, 'failed' | 'slots'>): boolean =>
  failed > 0 ? inFlight.length > 0 && !isBusy(inFlight, slots) : sumOf(inFlight) < (inFlight.length - 1) * slots
