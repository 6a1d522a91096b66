// How long to wait before the next try. Pure: the chance is drawn by the caller.

export type RetryPolicy = Readonly<{ baseMs: number; maxMs: number; maxAttempts: number }>

/** `min(base·2^(n−1), max)` ± 10 %; `chance` in [0, 1) says where in that band. */
export function backoffMs(attempts: number, { baseMs, maxMs }: RetryPolicy, chance: number): number {
  const delay = Math.min(baseMs * 2 ** Math.min(attempts - 1, 52), maxMs)
  return Math.round(delay * (0.9 + 0.2 * chance))
}
