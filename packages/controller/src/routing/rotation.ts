// Keeps track of the replicas that are out of rotation, per controller and in memory, and probes them. See rotation.pure.ts.
import type { Clock, Log } from '@muster/host'
import type { AttemptEnd } from './attempt.ts'
import type { Route } from './replica-table.ts'
import { evidenceOf, probeAfterMs, type ReplicaHealth, rotationReason, stepHealth } from './rotation.pure.ts'

export interface RotationDeps {
  /** Sends a small request like those that failed. Null: the engine answered; otherwise the cause. */
  readonly probe: (route: Route, path: string, signal: AbortSignal) => Promise<string | null>
  /** Called when a replica leaves the rotation or returns. */
  readonly onChange: (replicaId: string) => void
  /** False: the replica gets no requests any more. */
  readonly isRouted: (route: Route) => boolean
  readonly clock: Clock
  readonly log: Log
}
export interface FinishedAttempt {
  readonly route: Route
  /** The backend's path. */
  readonly path: string
  /** On the monotonic clock. */
  readonly sentAt: number
  readonly end: AttemptEnd
}
export interface RotationNote {
  readonly since: string
  readonly reason: string
}
export type Rotation = ReturnType<typeof createRotation>

const maxRemembered = 1_000

export function createRotation({ probe, isRouted, onChange, clock, log }: RotationDeps) {
  /** Only replicas whose last request failed. */
  const failing = new Map<string, ReplicaHealth & { readonly route: Route }>()
  const probing = new Set<string>()
  const closing = new AbortController()
  const outOf = (id: string): ReplicaHealth['out'] => failing.get(id)?.out ?? null

  function set(route: Route, health: ReplicaHealth | null): void {
    if (health === null) failing.delete(route.replicaId)
    else failing.set(route.replicaId, { ...health, route })
    if (failing.size > maxRemembered) for (const each of failing.values()) if (!isRouted(each.route)) failing.delete(each.route.replicaId)
  }

  async function probeUntilBack(route: Route, path: string): Promise<void> {
    const { replicaId, nodeId, model } = route
    const about = { replicaId, nodeId, model }
    log.warn('replica out of rotation', { ...about, why: failing.get(replicaId)?.why })
    onChange(replicaId)
    for (;;) {
      const out = outOf(replicaId)
      // The probe, or a request meanwhile, was answered.
      if (out === null) break
      await clock.sleep(probeAfterMs(out), closing.signal)
      const failure = isRouted(route) ? await probe(route, path, closing.signal) : null
      set(route, stepHealth(failing.get(replicaId) ?? null, { type: 'probe', failure }, clock.monotonic()))
    }
    probing.delete(replicaId)
    log.info('replica back in rotation', about)
    onChange(replicaId)
  }

  return {
    record({ route, path, sentAt, end }: FinishedAttempt): void {
      const now = clock.monotonic()
      const evidence = evidenceOf(end, now - sentAt)
      const before = failing.get(route.replicaId) ?? null
      if (evidence === null || (evidence.is === 'served' && before === null)) return
      const after = stepHealth(before, { type: 'request', evidence, sentAt }, now)
      set(route, after)
      if (outOf(route.replicaId) === null || probing.has(route.replicaId)) return
      probing.add(route.replicaId)
      probeUntilBack(route, path).catch((error: unknown) => closing.signal.aborted || log.error('cannot probe a replica', { error }))
    },
    isOut: (replicaId: string): boolean => failing.size > 0 && outOf(replicaId) !== null,
    /** Null: in rotation. */
    noteOf(replicaId: string): RotationNote | null {
      const health = failing.get(replicaId)
      if (health === undefined || health.out === null) return null
      const since = new Date(clock.now() - (clock.monotonic() - health.out.since)).toISOString()
      return { since, reason: rotationReason(health) }
    },
    close: (): void => closing.abort(),
  }
}
