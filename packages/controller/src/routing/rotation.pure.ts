// Decides which replicas are out of rotation: an engine may be sick, answer its health check and fail every request. A replica
// whose requests fail in a row gets none until it answers a probe, unless no other replica is left.
import { backoffMs } from '@muster/protocol'
import type { AttemptEnd } from './attempt.ts'

/** Failures in a row: one request may be bad, and the same client may repeat it. */
const maxFailures = 3
/** A client that leaves before the first byte shows a timeout only after this time. */
const patienceMs = 30_000
const probeBackoff = { baseMs: 1_000, maxMs: 30_000, jitter: 0 }

export type Evidence = Readonly<{ is: 'served' } | { is: 'failed'; why: string }>

/** Times are on the monotonic clock. */
export interface ReplicaHealth {
  /** Failures in a row. */
  readonly failures: number
  readonly why: string
  readonly out: Readonly<{ since: number; probes: number }> | null
}
export type HealthEvent =
  /** A request ended that was sent at `sentAt`. */
  Readonly<{ type: 'request'; evidence: Evidence; sentAt: number }> | Readonly<{ type: 'probe'; failure: string | null }>

/** Null: the attempt proves nothing about the engine. */
export function evidenceOf(end: AttemptEnd, waitedMs: number): Evidence | null {
  switch (end.kind) {
    case 'answered':
      if (end.hasErrorEvent) return { is: 'failed', why: 'its stream ended with an error' }
      // 501: the engine is fine and does not support the request.
      return end.status >= 500 && end.status !== 501 ? { is: 'failed', why: `it answered ${end.status}` } : { is: 'served' }
    case 'cut':
      return { is: 'failed', why: `its answer broke off: ${end.why}` }
    case 'gone':
      if (end.hasData || waitedMs < patienceMs) return null
      return { is: 'failed', why: `it sent nothing for ${Math.round(waitedMs / 1000)} s, until the client left` }
    case 'refused':
      return end.hasBegun ? { is: 'failed', why: `it gave no answer: ${end.why}` } : null
  }
}

/** Null: healthy; nothing is remembered. */
export function stepHealth(health: ReplicaHealth | null, event: HealthEvent, now: number): ReplicaHealth | null {
  if (event.type === 'probe') {
    if (event.failure === null || health === null) return null
    const { failures, out } = health
    return { failures, why: event.failure, out: out === null ? null : { ...out, probes: out.probes + 1 } }
  }
  const { evidence, sentAt } = event
  const out = health?.out ?? null
  if (evidence.is === 'served') {
    // An answer to a request from before proves nothing about the engine now.
    return out !== null && sentAt < out.since ? health : null
  }
  const failures = (health?.failures ?? 0) + 1
  return { failures, why: evidence.why, out: out ?? (failures >= maxFailures ? { since: now, probes: 0 } : null) }
}

/** From leaving the rotation, or the last probe, to the next probe. */
export const probeAfterMs = ({ probes }: NonNullable<ReplicaHealth['out']>): number => backoffMs(probes + 1, probeBackoff, 0)

export const rotationReason = ({ failures, why }: ReplicaHealth): string =>
  `gets no requests while other replicas answer: its last ${failures} requests failed (${why}); it is probed until it answers`
