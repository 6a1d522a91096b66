// Decides from probes when the machine behind a gateway has vanished. A request on a kept connection to such a machine fails
// only after many minutes, because TCP keeps sending. Engines are not probed: one may compute for minutes before its first byte.

/** Milliseconds between probes, after a miss, and for an answer; then the misses in a row that make a gateway vanished. */
export type ProbePace = Readonly<{ everyMs: number; againMs: number; withinMs: number; misses: number }>
export const probePace: ProbePace = { everyMs: 2_000, againMs: 500, withinMs: 3_000, misses: 3 }

/** The longest time from the last sign of life to the verdict. */
export const verdictMs = ({ everyMs, againMs, withinMs, misses }: ProbePace): number => everyMs + misses * withinMs + (misses - 1) * againMs

/**
 * `unclear`: the probe failed on this side or in name resolution, or the other side closed the connection, as a gateway with too
 * many connections does.
 */
export type ProbeResult = 'answered' | 'silent' | 'unclear'

/** Errors of a connection to an address where nothing answers or listens. */
const silentCodes: ReadonlySet<unknown> = new Set([
  ...['UND_ERR_CONNECT_TIMEOUT', 'UND_ERR_HEADERS_TIMEOUT', 'ETIMEDOUT', 'TIMEOUT'],
  ...['ECONNREFUSED', 'EHOSTUNREACH', 'EHOSTDOWN', 'ENETUNREACH'],
])

export const probeResultOf = (code: string | number | undefined): ProbeResult => (silentCodes.has(code) ? 'silent' : 'unclear')

/** Silent probes in a row. `hasReceived`: bytes arrived from the gateway since the last probe, which a busy one may not answer. */
export function countMisses(misses: number, { result, hasReceived }: { result: ProbeResult; hasReceived: boolean }): number {
  if (hasReceived || result === 'answered') return 0
  return result === 'silent' ? misses + 1 : misses
}
