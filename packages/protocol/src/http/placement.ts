// Placement of a model: every node with its score or its reason, and the memory of a replica.
import { z } from 'zod'
import { NodeId, ReplicaId } from '../ids.ts'

/** The memory of a replica in bytes, by its use. */
export const MemoryParts = z.object({
  weights: z.number(),
  /** Keys and values of all tokens in the context. */
  cache: z.number(),
  /** Buffers of a batch. */
  compute: z.number(),
  /** The projector for images or sound. */
  mmproj: z.number(),
  process: z.number(),
  total: z.number(),
  /** One layer with its cache. */
  per_layer: z.number(),
  layers: z.number(),
})
export type MemoryParts = z.infer<typeof MemoryParts>

export const ReplicaMemory = z.object({
  /** `gguf`: from the headers of the files. `size`: roughly, from their sizes. `unknown`: nothing is booked. */
  basis: z.enum(['gguf', 'size', 'unknown']),
  /** Null unless the basis is `gguf`. */
  parts: MemoryParts.nullable(),
})
export type ReplicaMemory = z.infer<typeof ReplicaMemory>

/** The memory that a replica would book on a node, and what is free there; null: unknown. */
export const NodeMemory = z.object({
  device: z.enum(['cpu', 'gpu']),
  ram: z.number(),
  vram: z.number(),
  free_ram: z.number().nullable(),
  free_vram: z.number().nullable(),
  /** The GPU that holds all of it; null: several, none, or the worker does not list its GPUs. */
  card: z.object({ id: z.string(), name: z.string() }).nullable(),
})
export type NodeMemory = z.infer<typeof NodeMemory>

export const PlacementNode = z.object({
  node_id: NodeId,
  node_name: z.string(),
  eligible: z.boolean(),
  /** Why it is excluded; empty when it is eligible. */
  reason: z.string(),
  score: z.number(),
  /** The same in one word: `agent`, `status`, `old_worker`, `selector`, `unloaded`, `spread`, `unfit`, `disk`, `memory`, `places` or `per_model`. */
  excluded_by: z.string().nullable().optional(),
  /** A concern that does not exclude it: its disk looks too small, and --disk-check is `warn`. */
  warning: z.string().optional(),
  memory: NodeMemory.optional(),
})
export type PlacementNode = z.infer<typeof PlacementNode>

export const PlacementView = z.object({
  /** The need of one replica. */
  memory: ReplicaMemory.optional(),
  nodes: z.array(PlacementNode),
  /** When no node is eligible: replicas of other models that would be evicted. Empty: other replicas are already ending there. */
  eviction: z
    .object({
      node_id: NodeId,
      node_name: z.string(),
      replicas: z.array(z.object({ id: ReplicaId, model: z.string() })),
    })
    .nullable()
    .optional(),
})
export type PlacementView = z.infer<typeof PlacementView>
