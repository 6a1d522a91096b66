// Pure: how fast bytes come, over the last seconds: an average over all the time would say nothing of now, and the step
// between two events jumps.
const windowMs = 8_000
const leastMs = 1_000

export interface Sample {
  readonly bytes: number
  readonly at: number
}

/** The samples with one more, and without those that say nothing any more. */
export function addSample(samples: readonly Sample[], sample: Sample): readonly Sample[] {
  // A new attempt, or another file: what was before says nothing of it.
  const known = (samples.at(-1)?.bytes ?? 0) > sample.bytes ? [] : samples
  return within([...known, sample], sample.at)
}

/** Those in the window, and the last before it. */
const within = (samples: readonly Sample[], now: number): readonly Sample[] =>
  samples.filter((_, index) => (samples[index + 1]?.at ?? now) > now - windowMs)

/** Bytes per second by `now`; null while too little is known, and when none come. */
export function rateOf(samples: readonly Sample[], now: number): number | null {
  const last = samples.at(-1)
  if (last === undefined) return null
  const at = Math.max(now, last.at)
  const [first = last] = within(samples, at)
  const ms = at - first.at
  if (ms < leastMs || last.bytes <= first.bytes) return null
  return ((last.bytes - first.bytes) / ms) * 1_000
}

/** Until all bytes are there; null when nobody can know. */
export function msLeft({ current, total }: { readonly current: number; readonly total: number }, rate: number | null): number | null {
  if (rate === null || rate <= 0 || total <= 0 || current >= total) return null
  return ((total - current) / rate) * 1_000
}

/** To five seconds, and to half a minute when it is long: a guess that ticks looks like knowledge. */
export function roundGuess(ms: number): number {
  const step = ms < 10_000 ? 1_000 : ms < 120_000 ? 5_000 : ms < 600_000 ? 30_000 : 60_000
  return Math.max(1_000, Math.round(ms / step) * step)
}
