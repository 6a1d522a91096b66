// Request statistics in buckets of ten seconds per model and node: counted in memory, then added to the database by every
// controller.
import { type Clock, createFailureStreak, type Log } from '@muster/host'
import type { StatsBucket } from '@muster/protocol'
import type { Outcome } from '../inference/outcome.pure.ts'
import type { StatsStore } from '../store/stats.ts'

const bucketMs = 10_000
/** Buckets kept while the database is away: about an hour, then the oldest are dropped. */
const maxFinished = 100_000

export interface RequestCount {
  readonly model: string
  /** Empty: the request reached no node. */
  readonly nodeId: string
  readonly outcome: Outcome
  readonly promptTokens: number
  readonly completionTokens: number
  readonly ms: number
}
type OpenBucket = { -readonly [K in keyof StatsBucket]: StatsBucket[K] }
type Series = Readonly<{ model: string; nodeId: string }>

export class StatsBuckets {
  readonly #now: () => number
  /** Open requests, by model and node. */
  readonly #open = new Map<string, Series & { count: number }>()
  #at: number
  #current = new Map<string, OpenBucket>()
  #finished: StatsBucket[] = []

  constructor(now: () => number) {
    this.#now = now
    this.#at = bucketOf(now())
  }

  /** A request is open until the result is disposed. */
  open(series: Series): Disposable {
    const bucket = this.#bucket(series)
    const key = keyOf(series)
    const open = this.#open.get(key) ?? { ...series, count: 0 }
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

  record({ model, nodeId, outcome, promptTokens, completionTokens, ms }: RequestCount): void {
    const bucket = this.#bucket({ model, nodeId })
    bucket.requests += 1
    bucket.errors += outcome === 'error' ? 1 : 0
    bucket.client_errors += outcome === 'client_error' ? 1 : 0
    bucket.overloaded += outcome === 'overloaded' ? 1 : 0
    bucket.prompt_tokens += promptTokens
    bucket.completion_tokens += completionTokens
    bucket.duration_ms += Math.round(ms)
  }

  /** Removes and returns finished buckets; `all`: the current ones too. */
  take({ all = false } = {}): StatsBucket[] {
    this.#turn(all ? Infinity : bucketOf(this.#now()))
    const finished = this.#finished
    this.#finished = []
    return finished
  }

  /** Keeps buckets for the next write after a failed one. */
  putBack(buckets: readonly StatsBucket[]): void {
    this.#finished = [...buckets, ...this.#finished].slice(-maxFinished)
  }

  #bucket(series: Series): OpenBucket {
    this.#turn(bucketOf(this.#now()))
    const key = keyOf(series)
    const current = this.#current.get(key)
    if (current !== undefined) return current
    const fresh = emptyBucket(this.#at, series, 0)
    this.#current.set(key, fresh)
    return fresh
  }

  /** Open requests count in the next bucket too, even without new requests. */
  #turn(at: number): void {
    if (at === this.#at) return
    this.#finished = [...this.#finished, ...this.#current.values()].slice(-maxFinished)
    this.#at = at === Infinity ? this.#at : at
    this.#current = new Map([...this.#open].map(([key, open]) => [key, emptyBucket(this.#at, open, open.count)]))
  }
}

const bucketOf = (ms: number): number => Math.floor(ms / bucketMs) * bucketMs
const keyOf = ({ model, nodeId }: Series): string => `${nodeId} ${model}`

const emptyBucket = (at: number, { model, nodeId }: Series, inFlight: number): OpenBucket => ({
  at: new Date(at).toISOString(),
  model,
  node_id: nodeId,
  requests: 0,
  errors: 0,
  client_errors: 0,
  overloaded: 0,
  prompt_tokens: 0,
  completion_tokens: 0,
  in_flight: inFlight,
  duration_ms: 0,
})

/** Written this long after a bucket ends, so that its last requests are included. */
const lagMs = 200
const pruneEvery = 60
const keptMs = 86_400_000

interface StatsWriterDeps {
  readonly buckets: StatsBuckets
  readonly stats: StatsStore
  readonly clock: Clock
  readonly log: Log
  /** Called after this controller wrote a finished bucket. */
  readonly onWritten: (at: string) => void
}

/** Writes finished buckets, and deletes old ones. Hand-written loop: it is aligned to the ends of buckets and flushes at the stop. */
export function createStatsWriter({ buckets, stats, clock, log, onWritten }: StatsWriterDeps) {
  const trouble = createFailureStreak({ what: 'cannot write statistics; retrying', clock, log })

  async function write(options: { all: boolean }): Promise<void> {
    const finished = buckets.take(options)
    try {
      await stats.add(finished)
      trouble.recovered()
    } catch (error) {
      buckets.putBack(finished)
      trouble.failed({ error })
    }
  }

  return {
    /** Runs until aborted. */
    async run(signal: AbortSignal): Promise<void> {
      for (let round = 0; !signal.aborted; round += 1) {
        const endsAt = (Math.floor(clock.now() / bucketMs) + 1) * bucketMs
        await clock.sleep(endsAt + lagMs - clock.now(), signal).catch(() => undefined)
        await write({ all: signal.aborted })
        if (signal.aborted) break
        onWritten(new Date(endsAt - bucketMs).toISOString())
        if (round % pruneEvery === 0) await stats.forget(keptMs).catch((error: unknown) => trouble.failed({ error }))
      }
    },
  }
}

/** Reads one bucket as an object of the event stream, as far as all controllers have written it. */
export function createStatsReader(stats: Pick<StatsStore, 'list'>) {
  return async (ids: readonly string[]): Promise<Map<string, object>> => {
    const read = async (at: string): Promise<[string, object]> => [
      at,
      { id: at, at, bucket_seconds: 10, buckets: await stats.list({ since: at, until: at }) },
    ]
    return new Map(await Promise.all(ids.map(read)))
  }
}
