// Decides whether this controller may declare nodes silent: only after it listened without a break. A stalled bus, database or
// process, an inbox that overflowed, or a clock that jumped looks exactly like all nodes dying at once. Pure; times are
// monotonic milliseconds.

export type Attention = Readonly<{
  /** Start of the time without a break; null while something does not work. */
  since: number | null
  lastProbeAt: number
  /** The database's clock minus this process's clock, at the last probe that reached it. */
  databaseOffsetMs: number | null
}>

export type Probe = Readonly<{
  at: number
  busAnswered: boolean
  /** This process lost no heartbeat since the last probe. */
  receivedAll: boolean
  /** The database's time; null when it did not answer. */
  databaseNowMs: number | null
}>

export type AttentionLimits = Readonly<{
  /** Probes further apart than this: the process itself stood still. */
  maxGapMs: number
  /** The database's clock ran differently by more than this: it was set. */
  maxClockJumpMs: number
}>

export const inattentive = (at: number): Attention => ({ since: null, lastProbeAt: at, databaseOffsetMs: null })

export function attend(before: Attention, probe: Probe, limits: AttentionLimits): Attention {
  const databaseOffsetMs = probe.databaseNowMs === null ? before.databaseOffsetMs : probe.databaseNowMs - probe.at
  const jumped =
    databaseOffsetMs !== null &&
    before.databaseOffsetMs !== null &&
    Math.abs(databaseOffsetMs - before.databaseOffsetMs) > limits.maxClockJumpMs
  const stood = probe.at - before.lastProbeAt > limits.maxGapMs
  const works = probe.busAnswered && probe.receivedAll && probe.databaseNowMs !== null
  const since = !works ? null : before.since === null || stood || jumped ? probe.at : before.since
  return { since, lastProbeAt: probe.at, databaseOffsetMs }
}

/** The time by which machines agree, at this moment of the own clock; null until the database has told it once. */
export const databaseTime = ({ databaseOffsetMs }: Attention, at: number): number | null =>
  databaseOffsetMs === null ? null : databaseOffsetMs + at

/** One node timeout after things began to work: by then every living node has reported again. */
export function mayJudge(attention: Attention, limits: { now: number; nodeTimeoutMs: number }): boolean {
  return attention.since !== null && limits.now - attention.since > limits.nodeTimeoutMs
}
