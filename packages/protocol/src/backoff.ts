// The wait before the next attempt. Pure: the caller draws the random number.

export type Backoff = Readonly<{
  baseMs: number
  maxMs: number
  /** The share of the wait by which the result may be shorter or longer; 0.1 (± 10 %) by default. */
  jitter?: number
}>
export type RetryPolicy = Readonly<{ baseMs: number; maxMs: number; maxAttempts: number }>

/** After the n-th failed attempt, from 1: `min(base·2^(n−1), max)` ± jitter; `chance` in [0, 1) picks the point in that band. */
export function backoffMs(attempt: number, { baseMs, maxMs, jitter = 0.1 }: Backoff, chance: number): number {
  // 2^52 times any base is beyond every maximum; a larger power would be Infinity, and 0 · Infinity is NaN.
  const doublings = Math.min(Math.max(attempt - 1, 0), 52)
  const wait = Math.min(baseMs * 2 ** doublings, maxMs)
  return Math.round(wait * (1 + jitter * (2 * chance - 1)))
}
