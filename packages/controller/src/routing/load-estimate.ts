// Estimates how many requests each replica has: this controller's own requests exactly, plus the requests of other
// controllers as the replica's worker last reported them, with a response or a heartbeat. Other controllers' requests end
// without notice, so reports fade. The estimate is never below the own count.
//
// Stale reports make controllers chase each other: a controller that sees a busy replica sends nothing there, and so gets
// no newer report. Therefore a report fades to the average of the model's replicas, not to zero, and moves the estimate
// only part of the way. load-estimate-herd.test.ts simulates it: without both, the load of replicas varies three times as
// much as between controllers that know nothing of each other.
import type { Clock } from '@muster/host'
import type { InFlight } from './in-flight.ts'

/** A little more than the interval between two heartbeats. */
const fadeMs = 6_000
/** How far one report moves the estimate: each is off by the requests on the wire. */
const weight = 0.2

interface LoadReport {
  readonly others: number
  readonly at: number
}
interface ReplicaRef {
  readonly replicaId: string
}
export interface LoadEstimate {
  /** The replica's worker reported this many requests, including those of this controller. */
  report(replicaId: string, count: number): void
  /** Estimates the load of each replica of one model, as of now; later reports are not included. */
  among(replicas: readonly ReplicaRef[]): (replica: ReplicaRef) => number
}

export function createLoadEstimate({ inFlight, clock }: { inFlight: Pick<InFlight, 'of'>; clock: Pick<Clock, 'monotonic'> }): LoadEstimate {
  /** The oldest first. */
  const reports = new Map<string, LoadReport>()
  /** Replicas with requests of other controllers. Zero with a single controller, and then nothing is computed. */
  let busy = 0
  const ownCount = ({ replicaId }: ReplicaRef): number => inFlight.of(replicaId)
  const forget = (id: string): void => {
    const before = reports.get(id)
    if (before === undefined) return
    reports.delete(id)
    if (before.others > 0) busy -= 1
  }
  return {
    report(replicaId, count) {
      const [at, observed] = [clock.monotonic(), Math.max(0, count - inFlight.of(replicaId))]
      const before = reports.get(replicaId)
      const isFirst = before === undefined || at - before.at >= fadeMs
      const others = isFirst ? observed : blend(before.others, observed)
      forget(replicaId)
      reports.set(replicaId, { others, at })
      if (others > 0) busy += 1
      for (const [id, report] of reports) {
        if (at - report.at < fadeMs) break
        forget(id)
      }
    },
    among(replicas) {
      if (busy === 0) return ownCount
      const now = clock.monotonic()
      const average = averageOf(replicas, { reports, now })
      return (replica) => {
        const report = reports.get(replica.replicaId)
        const left = report === undefined ? 0 : 1 - (now - report.at) / fadeMs
        return ownCount(replica) + (report === undefined || left <= 0 ? average : average + (report.others - average) * left)
      }
    },
  }
}

/** Reaches zero eventually, so that a single controller computes nothing. */
function blend(before: number, observed: number): number {
  const after = before + (observed - before) * weight
  return after < 0.1 && observed === 0 ? 0 : after
}

/** Requests of other controllers per replica, averaged over the replicas with a recent report. */
function averageOf(replicas: readonly ReplicaRef[], { reports, now }: { reports: ReadonlyMap<string, LoadReport>; now: number }): number {
  let [sum, count] = [0, 0]
  for (const { replicaId } of replicas) {
    const report = reports.get(replicaId)
    if (report === undefined || now - report.at >= fadeMs) continue
    sum += report.others
    count += 1
  }
  return count === 0 ? 0 : sum / count
}
