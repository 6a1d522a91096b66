// What goes through this controller, counted in buckets of ten seconds per model and node. A bucket is handed on when it
// is over, once: each controller adds its own, and what all of them had under way adds up too.
import type { StatsBucket } from '@muster/protocol'

export const bucketMs = 10_000
/** While the database is away they wait; an hour of them, then the oldest go. */
const maxWaiting = 100_000

export interface CountedRequest {
  readonly model: string
  /** Empty: it reached none. */
  readonly nodeId: string
  readonly isError: boolean
  readonly promptTokens: number
  readonly completionTokens: number
  readonly ms: number
}
type Counted = { -readonly [K in keyof StatsBucket]: StatsBucket[K] }
type Place = Readonly<{ model: string; nodeId: string }>

export class StatsBook {
  readonly #now: () => number
  /** Under way now, by model and node. */
  readonly #open = new Map<string, Place & { count: number }>()
  #at: number
  #current = new Map<string, Counted>()
  #waiting: StatsBucket[] = []

  constructor(now: () => number) {
    this.#now = now
    this.#at = bucketOf(now())
  }

  /** A request is sent there; over when disposed. */
  open(place: Place): Disposable {
    const bucket = this.#bucket(place)
    const key = keyOf(place)
    const open = this.#open.get(key) ?? { ...place, count: 0 }
    open.count += 1
    this.#open.set(key, open)
    bucket.in_flight = Math.max(bucket.in_flight, open.count)
    let isOpen = true
    return {
      [Symbol.dispose]: () => {
        if (!isOpen) return
        isOpen = false
        open.count -= 1
        if (open.count === 0) this.#open.delete(key)
      },
    }
  }

  record({ model, nodeId, isError, promptTokens, completionTokens, ms }: CountedRequest): void {
    const bucket = this.#bucket({ model, nodeId })
    bucket.requests += 1
    bucket.errors += isError ? 1 : 0
    bucket.prompt_tokens += promptTokens
    bucket.completion_tokens += completionTokens
    bucket.duration_ms += Math.round(ms)
  }

  /** Buckets that are over; `all`: also the one that is not. They are the caller's now. */
  take({ all = false } = {}): StatsBucket[] {
    this.#turn(all ? Infinity : bucketOf(this.#now()))
    const taken = this.#waiting
    this.#waiting = []
    return taken
  }

  /** They could not be written: next time. */
  putBack(buckets: readonly StatsBucket[]): void {
    this.#waiting = [...buckets, ...this.#waiting].slice(-maxWaiting)
  }

  #bucket(place: Place): Counted {
    this.#turn(bucketOf(this.#now()))
    const key = keyOf(place)
    const known = this.#current.get(key)
    if (known !== undefined) return known
    const fresh = emptyBucket(this.#at, place, 0)
    this.#current.set(key, fresh)
    return fresh
  }

  /** What is still under way belongs to the next bucket as well, also when nothing new comes. */
  #turn(at: number): void {
    if (at === this.#at) return
    this.#putAside()
    this.#at = at === Infinity ? this.#at : at
    this.#current = new Map([...this.#open].map(([key, open]) => [key, emptyBucket(this.#at, open, open.count)]))
  }

  #putAside(): void {
    this.#waiting = [...this.#waiting, ...this.#current.values()].slice(-maxWaiting)
  }
}

const bucketOf = (ms: number): number => Math.floor(ms / bucketMs) * bucketMs
const keyOf = ({ model, nodeId }: Place): string => `${nodeId} ${model}`

const emptyBucket = (at: number, { model, nodeId }: Place, inFlight: number): Counted => ({
  at: new Date(at).toISOString(),
  model,
  node_id: nodeId,
  requests: 0,
  errors: 0,
  prompt_tokens: 0,
  completion_tokens: 0,
  in_flight: inFlight,
  duration_ms: 0,
})
