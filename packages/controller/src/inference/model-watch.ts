// One watch on a model that is not up, for all requests that wait for it: one question when it begins and one a second,
// none of them per request.
import type { Clock } from '@muster/host'
import type { Loading, LoadFailure } from '@muster/protocol'
import type { ClientLink } from '../routing/client-link.ts'
import type { ReplicaTable } from '../routing/replica-table.ts'
import type { Suspects } from '../routing/suspects.ts'
import type { ColdLoads, LoadStatus } from './cold-loads.ts'

const askEveryMs = 1_000

export type ColdRefusal =
  | { readonly kind: 'model_not_found' }
  | { readonly kind: 'loading'; readonly loading: Loading }
  | { readonly kind: 'failed'; readonly failure: LoadFailure }
  | { readonly kind: 'no_capacity'; readonly message: string }
  /** Its replicas are there and do not answer. */
  | { readonly kind: 'unreachable' }
  /** Nobody knows: the database does not answer. */
  | { readonly kind: 'unknown'; readonly error: unknown }

export interface ColdModelsDeps {
  readonly table: ReplicaTable
  readonly loads: ColdLoads
  readonly suspects: Suspects
  readonly clock: Clock
}
export interface Waiting {
  readonly isRoutable: () => boolean
  readonly link: ClientLink
  /** On the monotonic clock. */
  readonly deadline: number
}
/** What was last heard of the model; null: nothing yet. */
type Heard = LoadStatus | Extract<ColdRefusal, { kind: 'unknown' }> | null

type Settle = (refusal: ColdRefusal | null) => void

export class ModelWatch {
  readonly #model: string
  readonly #deps: ColdModelsDeps
  readonly #waiters = new Map<Waiting, Settle>()
  /** Somebody came since the last time that the model was asked for. */
  #hasNew = true
  #wake: () => void = () => undefined

  constructor(model: string, deps: ColdModelsDeps) {
    this.#model = model
    this.#deps = deps
  }

  /** Null: look again who can be asked, or nobody is there to be answered. */
  wait(waiting: Waiting): Promise<ColdRefusal | null> {
    const settled = Promise.withResolvers<ColdRefusal | null>()
    this.#hasNew = true
    this.#waiters.set(waiting, settled.resolve)
    waiting.link.onGone(() => this.#settle(waiting, null))
    return settled.promise
  }

  /** Until nobody waits any more. `onEnd` is told what was last heard of the model, before anybody else can begin to wait. */
  async run(onEnd: (status: LoadStatus | null) => void): Promise<void> {
    const { table, loads } = this.#deps
    let heard: Heard = null
    const stopWatching = table.watch(this.#model, () => {
      this.#settleAll(heard)
      this.#wake()
    })
    try {
      while (this.#waiters.size > 0) {
        const isAskedFor = this.#hasNew
        this.#hasNew = false
        heard = await this.#ask(isAskedFor ? loads.ensure : loads.status)
        // It has to be asked for once more, when it can be.
        if (isAskedFor && heard.kind === 'unknown') this.#hasNew = true
        // It is ready, and nobody here can reach it: what is known here may be old.
        if (heard.kind === 'ready') table.doubt(this.#model)
        this.#settleAll(heard)
        if (this.#waiters.size > 0) await this.#pause(this.#nextLookMs())
        this.#settleAll(heard)
      }
    } finally {
      stopWatching()
      onEnd(heard?.kind === 'unknown' ? null : heard)
    }
  }

  /** A database that is away for a while costs nobody who still has time his place. */
  async #ask(question: (model: string) => Promise<LoadStatus>): Promise<NonNullable<Heard>> {
    try {
      return await question(this.#model)
    } catch (error) {
      return { kind: 'unknown', error }
    }
  }

  #settleAll(status: Heard): void {
    for (const waiting of [...this.#waiters.keys()]) {
      const end = endOf({ model: this.#model, status, waiting }, this.#deps)
      if (end !== undefined) this.#settle(waiting, end)
    }
  }

  #settle(waiting: Waiting, end: ColdRefusal | null): void {
    this.#waiters.get(waiting)?.(end)
    this.#waiters.delete(waiting)
    waiting.link.onGone(null)
  }

  /** When a suspicion ends, when somebody has waited long enough, or when it is time to ask again. */
  #nextLookMs(): number {
    const { table, suspects, clock } = this.#deps
    const replicas = table.find(this.#model)?.replicas ?? []
    let soonest = askEveryMs
    for (const { replicaId } of replicas) soonest = Math.min(soonest, suspects.remainingMs(replicaId) || soonest)
    for (const { deadline } of this.#waiters.keys()) soonest = Math.min(soonest, deadline - clock.monotonic())
    return Math.max(soonest, 0) + 1
  }

  async #pause(ms: number): Promise<void> {
    const woken = new AbortController()
    this.#wake = () => woken.abort()
    await this.#deps.clock.sleep(ms, woken.signal).catch(() => undefined)
    this.#wake = () => undefined
  }
}

/** Undefined: it waits on. */
export function endOf(
  { model, status, waiting }: { model: string; status: Heard; waiting: Waiting },
  { table, clock }: Pick<ColdModelsDeps, 'table' | 'clock'>,
): ColdRefusal | null | undefined {
  if (waiting.link.isGone || waiting.isRoutable()) return null
  if (table.find(model) === undefined) return { kind: 'model_not_found' }
  if (status?.kind === 'failed' || status?.kind === 'no_capacity') return status
  if (clock.monotonic() < waiting.deadline) return undefined
  return status?.kind === 'loading' || status?.kind === 'unknown' ? status : { kind: 'unreachable' }
}
