// The figures of a machine as they are reported.
import { Resources } from '@muster/protocol'
import type { GpuReading } from './read-gpus.ts'
import type { Machine } from './read-machine.ts'
import { saneFree, saneTotal } from './sane-bytes.ts'
import { summarizeGpus } from './summarise-gpus.ts'

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
