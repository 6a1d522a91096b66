// The figures of a machine as they are reported.
import { Resources } from '@muster/protocol'
import type { Gpu, GpuVendor } from './gpu-tools.pure.ts'
import type { Machine, Memory } from './read-machine.ts'
import type { GpuReading } from './read-gpus.ts'
import { saneFree, saneTotal } from './sane-bytes.ts'

/** Null is a part that was never read. */
export type Readings = Readonly<{
  machine: Machine | null
  disk: Readonly<{ totalBytes: number; availableBytes: number | null }> | null
  gpus: GpuReading | null
}>

export function assembleResources({ machine, disk, gpus }: Readings, smallestGpuBytes: number): Resources {
  const memory = machine?.memory ?? { totalBytes: null, availableBytes: null }
  const gpu = summarizeGpus(gpus?.gpus ?? [], memory, smallestGpuBytes)
  const totalDisk = saneTotal(disk?.totalBytes)
  return Resources.parse({
    cpus: machine?.cpus ?? null,
    total_ram: memory.totalBytes,
    available_ram: memory.availableBytes,
    total_vram: gpu.totalBytes,
    available_vram: gpu.availableBytes,
    total_disk: totalDisk,
    available_disk: saneFree(disk?.availableBytes ?? undefined, totalDisk),
    gpu_vendor: gpu.vendor,
    unified_memory: gpu.unified,
  })
}

// What an operator lets replicas have of a machine. A limit lowers what is reported; it never raises it, and never invents
// what is unknown. Pure.

export type Limits = Readonly<{ /** Null: as many as there is memory for. */ maxReplicas: number | null; maxMemoryBytes: number | null }>

export const noLimits: Limits = { maxReplicas: null, maxMemoryBytes: null }

export function applyLimits(resources: Resources, { maxReplicas, maxMemoryBytes }: Limits): Resources {
  const lowered = (bytes: number | null): number | null =>
    bytes === null || maxMemoryBytes === null ? bytes : Math.min(bytes, maxMemoryBytes)
  const { total_ram, available_ram, total_vram, available_vram, unified_memory: isOne } = resources
  return {
    ...resources,
    total_ram: lowered(total_ram),
    available_ram: lowered(available_ram),
    ...(isOne ? { total_vram: lowered(total_vram), available_vram: lowered(available_vram) } : {}),
    ...(maxReplicas === null ? {} : { max_replicas: maxReplicas }),
  }
}

// Several GPUs as the one figure that placement works with.

type GpuSummary = Readonly<{ vendor: GpuVendor | null; totalBytes: number | null; availableBytes: number | null; unified: boolean }>

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
