// Facts from the header of a GGUF file, from which the memory of a replica is estimated. Workers report them with the files that
// they store; controllers keep them by content. Numbers come from files of strangers: an implausible one is left out.
import { z } from 'zod'
import { plainText } from '../ids.ts'

const count = (max: number) => z.number().int().min(0).max(max).optional().catch(undefined)
const bytes = z
  .number()
  .int()
  .min(0)
  .max(2 ** 50)
/** The most layers that are counted one by one. */
export const maxGgufLayers = 1_024
const perLayer = (max: number) =>
  z
    .union([z.number().int().min(0).max(max), z.array(z.number().int().min(0).max(max)).max(maxGgufLayers)])
    .optional()
    .catch(undefined)

export const GgufFacts = z.object({
  /** The version of the reader: facts of a newer one replace older ones. */
  reader: z.number().int().min(1).max(65_535),
  architecture: plainText(64).catch(''),
  /** A projector (mmproj) translates images or sound for the model; an adapter (LoRA) changes it. */
  kind: z.enum(['model', 'projector', 'adapter']).catch('model'),
  /** The number of this part of a split model, from 0. */
  part: count(65_535),
  layers: count(maxGgufLayers),
  /** In tokens; what the model was trained for. */
  context: count(2 ** 24),
  embedding: count(2 ** 20),
  feed_forward: perLayer(2 ** 24),
  expert_feed_forward: count(2 ** 24),
  heads: perLayer(2 ** 16),
  kv_heads: perLayer(2 ** 16),
  key_length: count(2 ** 16),
  value_length: count(2 ** 16),
  /** In tokens; layers with a window cache no more. */
  window: count(2 ** 31),
  /** Every nth layer has no window; a list: 1 for a layer with a window. */
  window_pattern: perLayer(2 ** 16),
  experts: count(2 ** 16),
  experts_used: count(2 ** 16),
  vocabulary: count(2 ** 24),
  /** Numbers per sequence that each recurrent layer remembers. */
  recurrent_state: count(2 ** 40),
  tensors: z.object({
    count: z
      .number()
      .int()
      .min(0)
      .max(2 ** 20),
    /** All tensors; null when one has a type of unknown size. */
    bytes: bytes.nullable().catch(null),
    /** The tensors of layers. */
    layer_bytes: bytes.catch(0),
    /** The token embeddings, which stay in the memory of the machine. */
    input_bytes: bytes.catch(0),
  }),
})
export type GgufFacts = z.infer<typeof GgufFacts>
