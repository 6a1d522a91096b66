// Sends a request to a replica of its model, and to another one while no byte of a response has reached the client. See
// design.md. Everything is in memory: no query on this path.
import type { Clock, Log } from '@muster/host'
import { attempt, type AttemptEnd, type AttemptRequest } from './attempt.ts'
import { type ChoiceReason, chooseReplica, type ReplicaChoice } from './replica-choice.pure.ts'
import type { Gateways } from './gateways.ts'
import type { InFlight } from './in-flight.ts'
import type { LoadEstimate } from './load-estimate.ts'
import type { ReplicaTable, Route } from './replica-table.ts'
import type { Rotation } from './rotation.ts'

const maxTries = 3
/** Attempts of a request that replicas may have processed, because it may crash them. */
const maxBegun = 2

export interface DispatchDeps {
  readonly table: ReplicaTable
  readonly inFlight: InFlight
  readonly load: LoadEstimate
  readonly suspects: Suspects
  readonly rotation: Pick<Rotation, 'isOut' | 'record'>
  readonly gateways: Gateways
  readonly clock: Clock
  readonly log: Log
  readonly onRetry: () => void
}
export interface DispatchRequest<Refusal> extends Omit<AttemptRequest, 'onInFlight'> {
  readonly model: string
  /** Hash of the prompt's beginning; null: none. */
  readonly key: number | null
  /** No replica can be tried: waits until one may be (null), or returns a refusal. */
  readonly whenNone: (isRoutable: () => boolean) => Promise<Refusal | null>
  /** Called before each attempt; the result is disposed after it. */
  readonly onSend: (route: Route, because: ChoiceReason) => Disposable
}
export type DispatchEnd<Refusal> =
  | Exclude<AttemptEnd, { kind: 'refused' }>
  | { readonly kind: 'none'; readonly refusal: Refusal }
  | { readonly kind: 'unanswered'; readonly why: string; readonly hasBegun: boolean }

export type Dispatch = ReturnType<typeof createDispatch>

export function createDispatch(deps: DispatchDeps) {
  const { table, inFlight, load, suspects, rotation, gateways, clock, log } = deps
  let turn = 0

  /** Steps 1 to 4 of design.md. */
  function pick(
    { model, key }: Pick<DispatchRequest<unknown>, 'model' | 'key'>,
    tried: ReadonlyMap<string, boolean>,
  ): ReplicaChoice<Route> | null {
    const routed = table.find(model)
    if (routed === undefined) return null
    turn += 1
    const choice = {
      ...{ candidates: routed.replicas, inFlight: load.among(routed.replicas), turn },
      key: routed.policy === 'prefix' ? key : null,
      markOf: (route: Route): number => route.mark,
    }
    const among = (isExcluded: (route: Route) => boolean): ReplicaChoice<Route> | null =>
      chooseReplica({ ...choice, isExcluded: (route) => isExcluded(route) || suspects.has(route.replicaId) })
    const isOut = (route: Route): boolean => rotation.isOut(route.replicaId) || gateways.isSilent(route.origin)
    const isTried = (route: Route): boolean => tried.has(route.replicaId)
    // A replica out of rotation is better than none.
    return (
      among((route) => isTried(route) || isOut(route)) ??
      among(isTried) ??
      (tried.size === 0 ? null : among((route) => tried.get(route.replicaId) === true))
    )
  }

  return {
    async send<Refusal>(request: DispatchRequest<Refusal>): Promise<DispatchEnd<Refusal>> {
      /** Replicas tried by this request; true: retrying them is useless. */
      const tried = new Map<string, boolean>()
      let begun = 0
      for (let tries = 1; ;) {
        if (request.link.isGone) return { kind: 'gone', hasData: false }
        const chosen = pick(request, tried)
        if (chosen === null) {
          const refusal = await request.whenNone(() => pick(request, tried) !== null)
          if (refusal !== null) return { kind: 'none', refusal }
          continue
        }
        const route = chosen.candidate
        using held = new DisposableStack()
        held.use(inFlight.open(route.replicaId))
        held.use(request.onSend(route, chosen.because))
        const sentAt = clock.monotonic()
        const end = await attempt(gateways.at(route.origin), route, {
          ...request,
          onInFlight: (count) => load.report(route.replicaId, count),
        })
        rotation.record({ route, path: request.outgoing.path, sentAt, end })
        if (end.kind !== 'refused') return end
        log.warn('replica refused a request', { replicaId: route.replicaId, nodeId: route.nodeId, model: route.model, why: end.why })
        suspects.add(route.replicaId)
        table.markStale(route.model)
        tried.set(route.replicaId, end.isFinal)
        begun += end.hasBegun ? 1 : 0
        if (tries >= maxTries || begun >= maxBegun) return { kind: 'unanswered', why: end.why, hasBegun: begun > 0 }
        tries += 1
        deps.onRetry()
      }
    },
  }
}

const suspectMs = 1_000

/** Replicas that just refused a request or did not respond. They are skipped for a moment, until the table is current again. */
export interface Suspects {
  add(replicaId: string): void
  has(replicaId: string): boolean
  /** Milliseconds until the replica may be tried again; 0: now. */
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
      for (const id of until.keys()) remainingMs(id) // removes expired entries
      until.set(replicaId, clock.monotonic() + suspectMs)
    },
    // Usually there are none, and then nothing is looked up.
    has: (replicaId) => until.size > 0 && remainingMs(replicaId) > 0,
    remainingMs,
  }
}
