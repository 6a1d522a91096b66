// How fast bytes come, over the last seconds: an average over all the time would say nothing of now, and the step
// between two ticks jumps.
const windowMs = 5_000
const leastWindowMs = 1_000

export interface RateMeter {
  /** Bytes per second by now; null while too little is known. */
  measure(key: string, bytes: number, at: number): number | null
}

interface Sample {
  readonly bytes: number
  readonly at: number
}

export function createRateMeter(): RateMeter {
  const samples = new Map<string, Sample[]>()
  return {
    measure: (key, bytes, at) => {
      const known = samples.get(key) ?? []
      // A new attempt, or another file: what was before says nothing of it.
      const since = (known.at(-1)?.bytes ?? 0) > bytes ? [] : known
      const kept = [...since, { bytes, at }].filter((sample, index, all) => (all[index + 1]?.at ?? at) >= at - windowMs)
      samples.set(key, kept)
      const first = kept[0]
      if (first === undefined || at - first.at < leastWindowMs) return null
      return ((bytes - first.bytes) / (at - first.at)) * 1000
    },
  }
}
