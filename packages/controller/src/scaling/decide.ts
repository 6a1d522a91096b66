// How many replicas a model is to have, by how busy those are that it has. Pure: streaks are columns, so that any controller
// may decide and a restart forgets nothing; time is the database's.
import { limitsOf } from '../models/desired.ts'
import type { ScalableModel } from '../store/scaling.ts'

export interface ScalingFacts {
  readonly model: ScalableModel
  /** Requests in flight of each replica that its loads have ready. */
  readonly inFlight: readonly number[]
  /** Milliseconds, like the streaks. */
  readonly now: number
  /** How long fewer replicas would have done before one goes. */
  readonly idleMs: number
}

/** What a model's row is to say from now on. */
export type Scale = Pick<ScalableModel, 'requestedReplicas' | 'busySince' | 'slackSince'>

/** Shorter than that it is a burst: a replica that comes up takes about as long. */
export const busyMs = 10_000

/** Null: it stays as it is. */
export function decideScaling(facts: ScalingFacts): Scale | null {
  const { model } = facts
  const to = scaleOf(facts)
  const isSame = to.requestedReplicas === model.requestedReplicas && to.busySince === model.busySince && to.slackSince === model.slackSince
  return isSame ? null : to
}

/** After a step there is no streak: the next one begins when what was decided has come true. */
function scaleOf({ model, inFlight, now, idleMs }: ScalingFacts): Scale {
  const { requestedReplicas } = model
  const { min, max } = limitsOf(model.scheduling)
  const wanted = Math.min(max, Math.max(min, requestedReplicas))
  const settled = { requestedReplicas, busySince: null, slackSince: null }
  if (model.isUnloaded || model.scheduling.replicas === 'all') return settled
  // While something comes up or goes, how busy the others are says nothing about how many it takes.
  if (wanted === 0 || model.loads !== wanted || inFlight.length + model.failed !== wanted) return settled

  if (wanted < max && model.failed === 0 && isBusy(inFlight)) {
    const since = model.busySince ?? now
    return now - since >= busyMs ? { ...settled, requestedReplicas: wanted + 1 } : { ...settled, busySince: since }
  }
  if (wanted > Math.max(1, min) && isTooMany(inFlight, model.failed)) {
    const since = model.slackSince ?? now
    return now - since >= idleMs ? { ...settled, requestedReplicas: wanted - 1 } : { ...settled, slackSince: since }
  }
  return settled
}

const isBusy = (inFlight: readonly number[]): boolean => inFlight.every((count) => count > 0)

/** One less would not all be busy either. What could not come up is not missed when those that did are not all busy. */
const isTooMany = (inFlight: readonly number[], failed: number): boolean =>
  failed > 0 ? !isBusy(inFlight) : inFlight.reduce((sum, count) => sum + count, 0) < inFlight.length - 1
