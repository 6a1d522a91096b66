// What an operator lets replicas have of a machine. A limit lowers what is reported; it never raises it, and never invents
// what is unknown. Pure.
import type { Resources } from '@muster/protocol'

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
