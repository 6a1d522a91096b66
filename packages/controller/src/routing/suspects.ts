// Replicas that just refused, or did not answer: left out for a moment, so that the next requests do not all find it out
// for themselves. Only a moment: what is true is learnt from the table, and from asking again.
import type { Clock } from '@muster/host'

const leftOutMs = 1_000

export interface Suspects {
  add(replicaId: string): void
  has(replicaId: string): boolean
  /** Milliseconds until it may be asked again; 0 when it may. */
  remainingMs(replicaId: string): number
}

export function createSuspects(clock: Clock): Suspects {
  const until = new Map<string, number>()
  const remainingMs = (replicaId: string): number => {
    const end = until.get(replicaId)
    if (end === undefined) return 0
    const left = end - clock.monotonic()
    if (left <= 0) until.delete(replicaId)
    return Math.max(left, 0)
  }
  return {
    add(replicaId) {
      for (const id of until.keys()) remainingMs(id) // forgets those whose time is over
      until.set(replicaId, clock.monotonic() + leftOutMs)
    },
    // Most of the time there is none, and then nothing is looked up.
    has: (replicaId) => until.size > 0 && remainingMs(replicaId) > 0,
    remainingMs,
  }
}
