// Logs the 1st, 2nd, 4th, 8th … occurrence of each reason, so that a flood costs a few lines.

export interface SparseLog {
  report(reason: string): void
  /** Starts counting anew. */
  reset(): void
}

/** Reasons may come from outside, without limit; further ones are counted together. */
const maxReasons = 16
const others = 'for many other reasons'

/** Calls `write` with the count of a reason whenever it has doubled. */
export function createSparseLog(write: (reason: string, count: number) => void): SparseLog {
  const counts = new Map<string, number>()
  return {
    report(given) {
      const reason = counts.has(given) || counts.size < maxReasons ? given : others
      const count = (counts.get(reason) ?? 0) + 1
      counts.set(reason, count)
      if (Number.isInteger(Math.log2(count))) write(reason, count)
    },
    reset: () => counts.clear(),
  }
}
