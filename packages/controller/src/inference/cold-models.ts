// Requests that wait for a model to load. One watch per model serves all of them: one query when it starts and one per
// second. A client that disconnects stops waiting; the load continues.
import type { Clock } from '@muster/host'
import type { LoadFailure, Loading } from '@muster/protocol'
import type { ClientLink } from '../routing/attempt.ts'
import type { ReplicaTable } from '../routing/replica-table.ts'
import type { Suspects } from '../routing/dispatch.ts'

export type LoadStatus =
  | { readonly kind: 'ready' }
  | { readonly kind: 'loading'; readonly loading: Loading }
  | { readonly kind: 'failed'; readonly failure: LoadFailure }
  | { readonly kind: 'no_capacity'; readonly message: string }

export interface ColdLoads {
  /** Starts a load unless there is one, and returns its status. */
  ensure(model: string): Promise<LoadStatus>
  status(model: string): Promise<LoadStatus>
}

/** A failure to load is answered from memory for this long. */
const rememberMs = 500
const maxRemembered = 1_000

export type ColdModels = ReturnType<typeof createColdModels>

export function createColdModels(deps: ColdModelsDeps) {
  const { clock } = deps
  const watches = new Map<string, ModelWatch>()
  const remembered = new Map<string, { status: LoadStatus; until: number }>()
  let count = 0

  function watchOf(model: string): { watch: ModelWatch; isNew: boolean } {
    const existing = watches.get(model)
    if (existing !== undefined) return { watch: existing, isNew: false }
    const watch = new ModelWatch(model, deps)
    watches.set(model, watch)
    return { watch, isNew: true }
  }

  function onEnd(model: string, status: LoadStatus | null): void {
    watches.delete(model)
    if (status?.kind !== 'failed' && status?.kind !== 'no_capacity') return
    if (remembered.size >= maxRemembered) remembered.clear()
    remembered.set(model, { status, until: clock.monotonic() + rememberMs })
  }

  function recentEnd(model: string, waiting: WaitingRequest): ColdRefusal | null | undefined {
    const recent = remembered.get(model)
    if (recent === undefined) return undefined
    // A replica in the table makes the remembered failure obsolete.
    const hasReplicas = (deps.table.find(model)?.replicas.length ?? 0) > 0
    if (!hasReplicas && recent.until > clock.monotonic()) return waitEnd({ model, status: recent.status, waiting }, deps)
    remembered.delete(model)
    return undefined
  }

  return {
    /** Null: try to route again, or the client is gone. */
    async wait(model: string, waiting: WaitingRequest): Promise<ColdRefusal | null> {
      const recent = recentEnd(model, waiting)
      if (recent !== undefined) return recent
      const { watch, isNew } = watchOf(model)
      const end = watch.wait(waiting)
      if (isNew) void watch.run((status) => onEnd(model, status))
      count += 1
      try {
        return await end
      } finally {
        count -= 1
      }
    },
    /** Requests waiting now. */
    count: (): number => count,
  }
}

const queryEveryMs = 1_000

export type ColdRefusal =
  | { readonly kind: 'model_not_found' }
  | { readonly kind: 'loading'; readonly loading: Loading }
  | { readonly kind: 'failed'; readonly failure: LoadFailure }
  | { readonly kind: 'no_capacity'; readonly message: string }
  /** Its replicas exist and do not respond. */
  | { readonly kind: 'unreachable' }
  /** The database does not respond. */
  | { readonly kind: 'unknown'; readonly error: unknown }

interface ColdModelsDeps {
  readonly table: ReplicaTable
  readonly loads: ColdLoads
  readonly suspects: Suspects
  readonly clock: Clock
}
interface WaitingRequest {
  readonly isRoutable: () => boolean
  readonly link: ClientLink
  /** On the monotonic clock. */
  readonly deadline: number
}
/** The last status of the model's load; null: none yet. */
type LastStatus = LoadStatus | Extract<ColdRefusal, { kind: 'unknown' }> | null

type Settle = (refusal: ColdRefusal | null) => void

class ModelWatch {
  readonly #model: string
  readonly #deps: ColdModelsDeps
  readonly #waiters = new Map<WaitingRequest, Settle>()
  /** A request arrived since the last `ensure`. */
  #hasNew = true
  #wake: () => void = () => undefined

  constructor(model: string, deps: ColdModelsDeps) {
    this.#model = model
    this.#deps = deps
  }

  /** Null: try to route again, or the client is gone. */
  wait(waiting: WaitingRequest): Promise<ColdRefusal | null> {
    const settled = Promise.withResolvers<ColdRefusal | null>()
    this.#hasNew = true
    this.#waiters.set(waiting, settled.resolve)
    waiting.link.onGone(() => this.#settle(waiting, null))
    return settled.promise
  }

  /** Runs while requests wait. Calls `onEnd` with the last status before another request can start to wait. */
  async run(onEnd: (status: LoadStatus | null) => void): Promise<void> {
    const { table, loads } = this.#deps
    let last: LastStatus = null
    const stopWatching = table.watch(this.#model, () => {
      this.#settleAll(last)
      this.#wake()
    })
    try {
      while (this.#waiters.size > 0) {
        const isRequested = this.#hasNew
        this.#hasNew = false
        last = await this.#query(isRequested ? loads.ensure : loads.status)
        // The load was not requested: repeat it when the database is back.
        if (isRequested && last.kind === 'unknown') this.#hasNew = true
        // Ready, but not routable here: the table may be stale.
        if (last.kind === 'ready') table.markStale(this.#model)
        this.#settleAll(last)
        if (this.#waiters.size > 0) await this.#pause(this.#nextCheckMs())
        this.#settleAll(last)
      }
    } finally {
      stopWatching()
      onEnd(last?.kind === 'unknown' ? null : last)
    }
  }

  /** A database outage does not end the wait of requests that still have time. */
  async #query(load: (model: string) => Promise<LoadStatus>): Promise<NonNullable<LastStatus>> {
    try {
      return await load(this.#model)
    } catch (error) {
      return { kind: 'unknown', error }
    }
  }

  #settleAll(status: LastStatus): void {
    for (const waiting of [...this.#waiters.keys()]) {
      const end = waitEnd({ model: this.#model, status, waiting }, this.#deps)
      if (end !== undefined) this.#settle(waiting, end)
    }
  }

  #settle(waiting: WaitingRequest, end: ColdRefusal | null): void {
    this.#waiters.get(waiting)?.(end)
    this.#waiters.delete(waiting)
    waiting.link.onGone(null)
  }

  /** Until a suspect can be tried again, a deadline passes, or the next query is due. */
  #nextCheckMs(): number {
    const { table, suspects, clock } = this.#deps
    const replicas = table.find(this.#model)?.replicas ?? []
    let soonest = queryEveryMs
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

/** Undefined: keep waiting. */
function waitEnd(
  { model, status, waiting }: { model: string; status: LastStatus; waiting: WaitingRequest },
  { table, clock }: Pick<ColdModelsDeps, 'table' | 'clock'>,
): ColdRefusal | null | undefined {
  if (waiting.link.isGone || waiting.isRoutable()) return null
  if (table.find(model) === undefined) return { kind: 'model_not_found' }
  if (status?.kind === 'failed' || status?.kind === 'no_capacity') return status
  if (clock.monotonic() < waiting.deadline) return undefined
  return status?.kind === 'loading' || status?.kind === 'unknown' ? status : { kind: 'unreachable' }
}
