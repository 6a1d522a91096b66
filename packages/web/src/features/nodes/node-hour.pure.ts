// Chart series of a node's last hour: one value per interval, null where there is no sample.
import type { NodeSample, Resources } from '@muster/protocol'
import type { NodeHistory } from '../../api/live-change.pure.ts'
import { parseTime } from '../../format.ts'

export interface NodeHour {
  /** Unix seconds. */
  readonly times: readonly number[]
  readonly ram: readonly (number | null)[]
  readonly vram: readonly (number | null)[]
  readonly disk: readonly (number | null)[]
  readonly inFlight: readonly (number | null)[]
}
type Totals = Pick<Resources, 'total_ram' | 'total_vram' | 'total_disk'>

const hourSeconds = 3_600

export function hourOf({ interval_seconds: step, samples }: NodeHistory, totals: Totals, now: number): NodeHour {
  const byTime = new Map(samples.map((sample) => [parseTime(sample.at) / 1000, sample]))
  const newest = Math.max(Math.floor(now / 1000 / step) * step, ...[...byTime.keys()].slice(-1))
  const times = Array.from({ length: hourSeconds / step }, (_, i) => newest - hourSeconds + (i + 1) * step)
  const line = (value: (sample: NodeSample) => number | null): (number | null)[] =>
    times.map((time) => {
      const sample = byTime.get(time)
      return sample === undefined ? null : value(sample)
    })
  return {
    times,
    ram: line(({ available_ram: free }) => used(totals.total_ram, free)),
    vram: line(({ available_vram: free }) => used(totals.total_vram, free)),
    disk: line(({ available_disk: free }) => used(totals.total_disk, free)),
    inFlight: line(({ in_flight: count }) => count),
  }
}

const used = (total: number | null, free: number | null): number | null =>
  total === null || free === null ? null : Math.max(0, total - free)
