// The resources of a node as heartbeats report them: readings assembled, GPUs summarized, the operator's limits applied.
import { type ReplicaId, Resources } from '@muster/protocol'
import type { Gpu, GpuVendor } from './gpu-tools.pure.ts'
import type { Machine, Memory } from './read-machine.ts'
import type { GpuReading } from './read-gpus.ts'
import { sanitizeFree, sanitizeTotal } from './sanitize-bytes.ts'

/** Null for a part that was never read. */
export type Readings = Readonly<{
  machine: Machine | null
  disk: Readonly<{ totalBytes: number; availableBytes: number | null }> | null
  gpus: GpuReading | null
}>

export function assembleResources(
  { machine, disk, gpus }: Readings,
  smallestGpuBytes: number,
  owners: ProcessOwners = new Map(),
): Resources {
  const memory = machine?.memory ?? { totalBytes: null, availableBytes: null }
  const gpu = summarizeGpus(gpus?.gpus ?? [], memory, smallestGpuBytes)
  const totalDisk = sanitizeTotal(disk?.totalBytes)
  return Resources.parse({
    cpus: machine?.cpus ?? null,
    total_ram: memory.totalBytes,
    available_ram: memory.availableBytes,
    total_vram: gpu.totalBytes,
    available_vram: gpu.availableBytes,
    total_disk: totalDisk,
    available_disk: sanitizeFree(disk?.availableBytes ?? undefined, totalDisk),
    gpu_vendor: gpu.vendor,
    unified_memory: gpu.unified,
    ...(gpu.cards.length === 0 ? {} : { gpus: gpu.cards.slice(0, maxCards).map((card, index) => cardOf(card, index, owners)) }),
  })
}

/** The bounds of the message. */
const maxCards = 64
const maxUsers = 32

function cardOf({ uuid, name, vendor, totalBytes, freeBytes, processes }: Gpu, index: number, owners: ProcessOwners): object {
  const largest = processes?.toSorted((a, b) => (b.bytes ?? 0) - (a.bytes ?? 0)).slice(0, maxUsers)
  return {
    ...{ index, name: name.slice(0, 128), vendor, total: totalBytes, free: freeBytes },
    ...(uuid === undefined ? {} : { uuid }),
    ...(largest === undefined ? {} : { processes: largest.map((user) => ({ ...user, replica_id: owners.get(user.pid) })) }),
  }
}

/** Replicas by the numbers of their processes. */
export type ProcessOwners = ReadonlyMap<number, ReplicaId>

/** Limits set by the operator. */
export type Limits = Readonly<{
  /** Null: limited by memory only. */
  maxReplicas: number | null
  maxReplicasPerModel: number | null
  /** Reported, not applied: controllers compare it with the budget of an administrator. */
  vramBudget: string | null
  maxMemoryBytes: number | null
}>

export const noLimits: Limits = { maxReplicas: null, maxReplicasPerModel: null, vramBudget: null, maxMemoryBytes: null }

/** A limit lowers a reported amount; it never raises one, and unknown amounts stay unknown. */
export function applyLimits(resources: Resources, limits: Limits): Resources {
  const { maxReplicas, maxReplicasPerModel, vramBudget, maxMemoryBytes } = limits
  const lowered = (bytes: number | null): number | null =>
    bytes === null || maxMemoryBytes === null ? bytes : Math.min(bytes, maxMemoryBytes)
  const { total_ram, available_ram, total_vram, available_vram, unified_memory: isUnified } = resources
  return {
    ...resources,
    total_ram: lowered(total_ram),
    available_ram: lowered(available_ram),
    ...(isUnified ? { total_vram: lowered(total_vram), available_vram: lowered(available_vram) } : {}),
    ...(maxReplicas === null ? {} : { max_replicas: maxReplicas }),
    ...(maxReplicasPerModel === null ? {} : { max_replicas_per_model: maxReplicasPerModel }),
    ...(vramBudget === null ? {} : { vram_budget: vramBudget }),
  }
}

/** Several GPUs as the one amount that placement uses. */
type GpuSummary = Readonly<{
  vendor: GpuVendor | null
  totalBytes: number | null
  availableBytes: number | null
  unified: boolean
  /** The usable ones. */
  cards: readonly Gpu[]
}>

/**
 * Below this a card is a processor's own graphics with a small carve-out of memory (64 MB to 2 GB),
 * or too old: a backend built for it would be slower than one for the CPU, or not start.
 */
export const smallestUsefulBytes = 4 * 2 ** 30

/** A node has one capability, so only the cards of one vendor count: the first of this list that is present. */
const preference: readonly GpuVendor[] = ['apple', 'nvidia', 'amd', 'intel']

export function summarizeGpus(gpus: readonly Gpu[], memory: Memory, smallestBytes: number): GpuSummary {
  const usable = gpus.filter((gpu) => gpu.totalBytes === null || gpu.totalBytes >= smallestBytes)
  const vendor = preference.find((candidate) => usable.some((gpu) => gpu.vendor === candidate))
  if (vendor === undefined) return { vendor: null, totalBytes: null, availableBytes: null, unified: false, cards: [] }
  const chosen = usable.filter((gpu) => gpu.vendor === vendor)
  if (chosen.every((gpu) => gpu.unified)) return { vendor, ...memory, unified: true, cards: chosen }
  return {
    vendor,
    totalBytes: sum(chosen.map((gpu) => gpu.totalBytes)),
    availableBytes: sum(chosen.map((gpu) => gpu.freeBytes)),
    unified: false,
    cards: chosen,
  }
}

/** The memory of the smallest card that counts; null: none, or unknown. */
export function smallestCardOf(gpus: readonly Gpu[], smallestBytes: number): number | null {
  const { vendor } = summarizeGpus(gpus, { totalBytes: null, availableBytes: null }, smallestBytes)
  const known = gpus.flatMap((gpu) =>
    gpu.vendor === vendor && gpu.totalBytes !== null && gpu.totalBytes >= smallestBytes ? [gpu.totalBytes] : [],
  )
  return known.length === 0 ? null : Math.min(...known)
}

/** Cards without a figure count as zero: reporting too little is safe, too much is not. */
function sum(amounts: readonly (number | null)[]): number | null {
  const known = amounts.filter((amount) => amount !== null)
  return known.length === 0 ? null : known.reduce((total, amount) => total + amount, 0)
}
