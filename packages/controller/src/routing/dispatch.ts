// Sends a request to a replica of its model, and to another one while nothing of an answer has reached the client. No
// query anywhere on this way: the table is memory, and so are the counts.
import type { Log } from '@muster/host'
import { attempt, type AttemptRequest } from './attempt.ts'
import { choose, type Because, type Chosen } from './choose.ts'
import type { Gateways } from './gateways.ts'
import type { InFlight } from './in-flight.ts'
import type { KnownLoad } from './known-load.ts'
import type { ReplicaTable, Route } from './replica-table.ts'
import type { Suspects } from './suspects.ts'

const maxTries = 3
/** Of a request that may have killed the process it was sent to. */
const maxBegun = 2

export interface DispatchDeps {
  readonly table: ReplicaTable
  readonly inFlight: InFlight
  readonly load: KnownLoad
  readonly suspects: Suspects
  readonly gateways: Gateways
  readonly log: Log
  readonly onRetry: () => void
}
export interface DispatchRequest<Refusal> extends Omit<AttemptRequest, 'onTold'> {
  readonly model: string
  /** Of the beginning of what is asked; null when there is none. */
  readonly key: number | null
  /** There is nobody to ask: waits until that may be different (null), or says why it never will. */
  readonly whenNone: (isRoutable: () => boolean) => Promise<Refusal | null>
  /** Told what it is sent to; what is given back is disposed of when that is over. */
  readonly onSend: (route: Route, because: Because) => Disposable
}
export type DispatchEnd<Refusal> =
  | { readonly kind: 'answered' | 'cut' | 'gone' }
  | { readonly kind: 'none'; readonly refusal: Refusal }
  | { readonly kind: 'unanswered'; readonly why: string; readonly hasBegun: boolean }

export type Dispatch = ReturnType<typeof createDispatch>

export function createDispatch(deps: DispatchDeps) {
  const { table, inFlight, load, suspects, gateways, log } = deps
  let turn = 0

  function pick(
    { model, key }: Pick<DispatchRequest<unknown>, 'model' | 'key'>,
    tried: ReadonlyMap<string, boolean>,
  ): Chosen<Route> | null {
    const known = table.find(model)
    if (known === undefined) return null
    turn += 1
    const choice = {
      ...{ candidates: known.replicas, inFlight: load.among(known.replicas), turn },
      key: known.policy === 'prefix' ? key : null,
      markOf: (route: Route): number => route.mark,
    }
    const among = (isLeftOut: (route: Route) => boolean): Chosen<Route> | null => choose({ ...choice, isLeftOut })
    if (tried.size === 0) return among((route) => suspects.has(route.replicaId))
    return (
      among((route) => tried.has(route.replicaId) || suspects.has(route.replicaId)) ??
      among((route) => tried.get(route.replicaId) === true || suspects.has(route.replicaId))
    )
  }

  return {
    async send<Refusal>(request: DispatchRequest<Refusal>): Promise<DispatchEnd<Refusal>> {
      /** With whether asking again is of no use. */
      const tried = new Map<string, boolean>()
      let begun = 0
      for (let tries = 1; ;) {
        if (request.link.isGone) return { kind: 'gone' }
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
        const end = await attempt(gateways.at(route.origin), route, { ...request, onTold: (count) => load.told(route.replicaId, count) })
        if (end.kind !== 'refused') return end
        log.warn('a replica did not take a request', { replicaId: route.replicaId, nodeId: route.nodeId, model: route.model, why: end.why })
        suspects.add(route.replicaId)
        table.doubt(route.model)
        tried.set(route.replicaId, end.isFinal)
        begun += end.hasBegun ? 1 : 0
        if (tries >= maxTries || begun >= maxBegun) return { kind: 'unanswered', why: end.why, hasBegun: begun > 0 }
        tries += 1
        deps.onRetry()
      }
    },
  }
}
