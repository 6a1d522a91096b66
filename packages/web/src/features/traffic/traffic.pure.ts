// Traffic from buckets of ten seconds. A missing bucket means no requests, except before the oldest controller started and in
// the last seconds, whose buckets are not reported yet.
import type { StatsBucket } from '@muster/protocol'
import { parseTime } from '../../format.ts'

const bucketMs = 10_000
const hourMs = 3_600_000
/** Until then a bucket may not be reported yet. */
const lateMs = 25_000

export interface Traffic {
  /** Unix seconds. */
  readonly times: readonly number[]
  readonly requests: readonly (number | null)[]
  readonly tokens: readonly (number | null)[]
  readonly errors: readonly (number | null)[]
  readonly overloaded: readonly (number | null)[]
  readonly clientErrors: readonly (number | null)[]
  readonly inFlight: readonly (number | null)[]
}
export interface TrafficWindow {
  readonly now: number
  /** Start of the oldest controller. */
  readonly since: number
}

interface Sum {
  requests: number
  tokens: number
  errors: number
  overloaded: number
  clientErrors: number
  inFlight: number
}

function sumsOf(buckets: readonly StatsBucket[]): Map<number, Sum> {
  const sums = new Map<number, Sum>()
  for (const bucket of buckets) {
    const at = Math.floor(parseTime(bucket.at) / bucketMs) * bucketMs
    const sum = sums.get(at) ?? { requests: 0, tokens: 0, errors: 0, overloaded: 0, clientErrors: 0, inFlight: 0 }
    sum.requests += bucket.requests
    sum.tokens += bucket.completion_tokens
    sum.errors += bucket.errors
    sum.overloaded += bucket.overloaded
    sum.clientErrors += bucket.client_errors
    sum.inFlight += bucket.in_flight
    sums.set(at, sum)
  }
  return sums
}

/** The last hour, per second. */
export function trafficOf(buckets: readonly StatsBucket[], { now, since }: TrafficWindow): Traffic {
  const sums = sumsOf(buckets)
  const last = Math.floor(now / bucketMs) * bucketMs
  const start = Math.min(since, ...sums.keys())
  const at = Array.from({ length: hourMs / bucketMs }, (_, index) => last - hourMs + (index + 1) * bucketMs)
  const series = (of: (sum: Sum) => number): (number | null)[] =>
    at.map((time) => {
      const sum = sums.get(time)
      if (sum !== undefined) return of(sum)
      return time + bucketMs > start && time + lateMs <= now ? 0 : null
    })
  const perSecond = (amount: number): number => (amount * 1_000) / bucketMs
  return {
    times: at.map((time) => time / 1_000),
    requests: series((sum) => perSecond(sum.requests)),
    tokens: series((sum) => perSecond(sum.tokens)),
    errors: series((sum) => perSecond(sum.errors)),
    overloaded: series((sum) => perSecond(sum.overloaded)),
    clientErrors: series((sum) => perSecond(sum.clientErrors)),
    inFlight: series((sum) => sum.inFlight),
  }
}

export interface LastMinute {
  readonly requestsPerSecond: number
  readonly tokensPerSecond: number
  readonly errors: number
  readonly overloaded: number
  readonly clientErrors: number
}

/** The last sixty seconds with complete data. */
export function lastMinuteOf(buckets: readonly StatsBucket[], now: number): LastMinute {
  const newest = Math.floor((now - lateMs) / bucketMs) * bucketMs
  const sums = [...sumsOf(buckets)].filter(([at]) => at > newest - 60_000 && at <= newest).map(([, sum]) => sum)
  const total = (of: (sum: Sum) => number): number => sums.reduce((amount, sum) => amount + of(sum), 0)
  return {
    requestsPerSecond: total((sum) => sum.requests) / 60,
    tokensPerSecond: total((sum) => sum.tokens) / 60,
    errors: total((sum) => sum.errors),
    overloaded: total((sum) => sum.overloaded),
    clientErrors: total((sum) => sum.clientErrors),
  }
}

/** Shared with the placeholder that is shown until the charts are loaded. */
export const chartHeight = 120
