// What a machine has. Numbers come from foreign machines: what is not a sane number is *unknown*
// (null), never zero and never infinite.
import { z } from 'zod'
import { plainText } from '../ids.ts'

/** 1 PiB: more memory or disk than any node has; larger claims are lies or bugs. */
const maxBytes = 2 ** 50
const bytes = z.number().int().min(0).max(maxBytes).nullable().catch(null).default(null)

export const Resources = z.object({
  cpus: z.number().int().min(1).max(65_536).nullable().catch(null).default(null),
  total_ram: bytes,
  available_ram: bytes,
  total_vram: bytes,
  available_vram: bytes,
  total_disk: bytes,
  available_disk: bytes,
  /** `nvidia`, `amd`, `intel`, `apple` or null without a usable GPU. */
  gpu_vendor: plainText(32).nullable().catch(null).default(null),
  /** CPU and GPU share one memory: `*_vram` then repeats `*_ram`, and the two must not be added. */
  unified_memory: z.boolean().catch(false).default(false),
  /** How many replicas it runs at most; left out: as many as there is memory for. */
  max_replicas: z.number().int().min(1).max(65_536).optional().catch(undefined),
  /** How long ago its memory was looked at; left out: nobody knows. */
  memory_age_ms: z.number().int().min(0).max(86_400_000).optional().catch(undefined),
})
export type Resources = z.infer<typeof Resources>
