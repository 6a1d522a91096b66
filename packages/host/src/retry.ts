// How long to wait before the next attempt.
export interface Backoff {
  readonly baseMs: number
  readonly maxMs: number
  /** The share of the wait by which it may be shorter or longer: 0.1 is ± 10 %. */
  readonly jitter: number
  /** From 0 up to 1. */
  readonly random: () => number
}

/** After the n-th failed attempt (from 1): min(base · 2^(n−1), max), give or take the jitter. */
export function backoffMs(attempt: number, { baseMs, maxMs, jitter, random }: Backoff): number {
  // 2^52 times any base is beyond every maximum; more would be Infinity, and 0 · Infinity is no number.
  const doublings = Math.min(Math.max(attempt - 1, 0), 52)
  const wait = Math.min(baseMs * 2 ** doublings, maxMs)
  return Math.round(wait * (1 + jitter * (2 * random() - 1)))
}
