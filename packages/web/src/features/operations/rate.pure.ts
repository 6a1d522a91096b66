// The byte rate over the last seconds: an average over the whole time lags behind, and the step between two events jumps.
const windowMs = 8_000
const minMs = 1_000

export interface Sample {
  readonly bytes: number
  readonly at: number
}

/** Adds a sample and drops outdated ones. */
export function addSample(samples: readonly Sample[], sample: Sample): readonly Sample[] {
  // Fewer bytes mean a new attempt, which starts a new series.
  const current = (samples.at(-1)?.bytes ?? 0) > sample.bytes ? [] : samples
  return within([...current, sample], sample.at)
}

/** The samples in the window, and the last one before it. */
const within = (samples: readonly Sample[], now: number): readonly Sample[] =>
  samples.filter((_, index) => (samples[index + 1]?.at ?? now) > now - windowMs)

/** Bytes per second at `now`; null with too few samples, and while no bytes arrive. */
export function rateOf(samples: readonly Sample[], now: number): number | null {
  const last = samples.at(-1)
  if (last === undefined) return null
  const at = Math.max(now, last.at)
  const [first = last] = within(samples, at)
  const ms = at - first.at
  if (ms < minMs || last.bytes <= first.bytes) return null
  return ((last.bytes - first.bytes) / ms) * 1_000
}

/** Time until all bytes have arrived; null while unknown. */
export function msLeft({ current, total }: { readonly current: number; readonly total: number }, rate: number | null): number | null {
  if (rate === null || rate <= 0 || total <= 0 || current >= total) return null
  return ((total - current) / rate) * 1_000
}

/** Rounds an estimate, so that it does not change every second. */
export function roundEstimate(ms: number): number {
  const step = ms < 10_000 ? 1_000 : ms < 120_000 ? 5_000 : ms < 600_000 ? 30_000 : 60_000
  return Math.max(1_000, Math.round(ms / step) * step)
}
