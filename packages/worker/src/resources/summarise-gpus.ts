// Several GPUs as the one figure that placement works with.
import type { Gpu, GpuVendor } from './gpu.ts'
import type { Memory } from './meminfo.ts'

export type GpuSummary = Readonly<{ vendor: GpuVendor | null; totalBytes: number | null; availableBytes: number | null; unified: boolean }>

/**
 * Below this a card is a processor's own graphics with a small carve-out of memory (64 MB to 2 GB),
 * or too old: a backend built for it would be slower than one for the CPU, or not start.
 */
export const smallestUsefulBytes = 4 * 2 ** 30

/** One node has one capability, so only the cards of one vendor count; the first of these that is there. */
const preference: readonly GpuVendor[] = ['apple', 'nvidia', 'amd', 'intel']

export function summarizeGpus(gpus: readonly Gpu[], memory: Memory, smallestBytes: number): GpuSummary {
  const usable = gpus.filter((gpu) => gpu.totalBytes === null || gpu.totalBytes >= smallestBytes)
  const vendor = preference.find((candidate) => usable.some((gpu) => gpu.vendor === candidate))
  if (vendor === undefined) return { vendor: null, totalBytes: null, availableBytes: null, unified: false }
  const chosen = usable.filter((gpu) => gpu.vendor === vendor)
  if (chosen.every((gpu) => gpu.unified)) return { vendor, ...memory, unified: true }
  return {
    vendor,
    totalBytes: sum(chosen.map((gpu) => gpu.totalBytes)),
    availableBytes: sum(chosen.map((gpu) => gpu.freeBytes)),
    unified: false,
  }
}

/** Cards that say nothing count for nothing: too little is safe to promise, too much is not. */
function sum(amounts: readonly (number | null)[]): number | null {
  const known = amounts.filter((amount) => amount !== null)
  return known.length === 0 ? null : known.reduce((total, amount) => total + amount, 0)
}
