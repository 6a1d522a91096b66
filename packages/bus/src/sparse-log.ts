// Logging what may come in floods: the 1st, 2nd, 4th, 8th … time for each reason, so that a flood costs a few lines.

export interface SparseLog {
  report(reason: string): void
  /** What comes from now on is news again. */
  reset(): void
}

/** Reasons may come from outside and be without end; those beyond are counted together. */
const maxReasons = 16
const others = 'for many other reasons'

/** Calls `say` with the count of that reason whenever it has doubled. */
export function createSparseLog(say: (reason: string, count: number) => void): SparseLog {
  const counts = new Map<string, number>()
  return {
    report(given) {
      const reason = counts.has(given) || counts.size < maxReasons ? given : others
      const count = (counts.get(reason) ?? 0) + 1
      counts.set(reason, count)
      if (Number.isInteger(Math.log2(count))) say(reason, count)
    },
    reset: () => counts.clear(),
  }
}
