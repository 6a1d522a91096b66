// Estimates the memory of a replica from the headers of its GGUF files and its settings; docs/models.md explains the formula.
import type { GgufFacts } from '@muster/protocol'

export interface MemorySettings {
  /** Tokens of all slots together. */
  readonly contextTokens: number
  readonly slots: number
  /** Names of tensor types; null: f16. */
  readonly keyType: string | null
  readonly valueType: string | null
  /** Tokens that are evaluated together. */
  readonly batch: number
  /** False: the attention scores of a batch are stored whole. */
  readonly hasFlashAttention: boolean
  /** True: layers with a window cache the whole context. */
  readonly hasFullWindow: boolean
  /** Memory of the process before it loads anything. */
  readonly processBytes: number
}

/** The files of a model by their use. Parts of a split model are added up. */
export interface ModelHeaders {
  readonly main: GgufFacts
  /** Sizes of all files of the model and its adapters, in bytes. */
  readonly weightBytes: number
  readonly projectorBytes: number
  readonly draft: Readonly<{ facts: GgufFacts; weightBytes: number }> | null
}

/** In bytes. */
export interface MemoryEstimate {
  readonly weights: number
  readonly kvCache: number
  /** Buffers of a batch. */
  readonly compute: number
  readonly mmproj: number
  readonly process: number
  readonly total: number
  /** One layer with its cache, on average. */
  readonly perLayer: number
  readonly layers: number
}

const float = 4
/** Bookkeeping of the engine for each token of the cache; measured. */
const cellBytes = 64
/** The engine rounds the cache up to this many tokens. */
const padding = 256
/** Buffers of a projector in addition to its weights. */
const projectorOverhead = 1.2

export function estimateMemory({ main, weightBytes, projectorBytes, draft }: ModelHeaders, settings: MemorySettings): MemoryEstimate {
  const { contextTokens: tokens } = settings
  const parts = {
    weights: weightBytes + (draft?.weightBytes ?? 0),
    kvCache: cacheBytes(main, tokens, settings) + (draft === null ? 0 : cacheBytes(draft.facts, tokens, settings)),
    compute: computeBytes(main, tokens, settings) + (draft === null ? 0 : computeBytes(draft.facts, tokens, settings)),
    mmproj: Math.ceil(projectorBytes * projectorOverhead),
    process: settings.processBytes,
  }
  const layers = Math.max(1, main.layers ?? 1)
  const total = parts.weights + parts.kvCache + parts.compute + parts.mmproj + parts.process
  const ofLayers = Math.min(main.tensors.layer_bytes, parts.weights)
  return { ...parts, total, layers, perLayer: Math.ceil((ofLayers + parts.kvCache) / layers) }
}

/** Encoders keep no cache between requests. */
const encoders = /^(?:bert|nomic-bert|nomic-bert-moe|jina-bert-v2|jina-bert-v3|neo-bert|modern-bert|t5encoder|gemma-embedding|clip)$/

/** Architectures whose layers take turns: every nth layer has no window. A window of any other architecture is ignored. */
const turns: Readonly<Record<string, number>> = {
  gemma2: 2,
  gemma3: 6,
  gemma3n: 5,
  'gpt-oss': 2,
  cohere2: 4,
  exaone4: 4,
  olmo2: 4,
  llama4: 4,
}

function cacheBytes(facts: GgufFacts, tokens: number, settings: MemorySettings): number {
  const { layers = 0, architecture, window = 0 } = facts
  if (layers === 0 || encoders.test(architecture)) return 0
  const slots = Math.max(1, settings.slots)
  const perSlot = padded(tokens / slots)
  const ofWindow = Math.min(perSlot, padded(window + settings.batch))
  let bytes = cellBytes * perSlot * slots
  for (let layer = 0; layer < layers; layer += 1) {
    const cells = slots * (hasWindow(facts, layer) && !settings.hasFullWindow ? ofWindow : perSlot)
    bytes += cells * tokenBytes(facts, layer, settings)
    if (atLayer(facts.kv_heads, layer) === 0) bytes += slots * (facts.recurrent_state ?? 0) * float
  }
  return Math.ceil(bytes)
}

const padded = (tokens: number): number => Math.ceil(tokens / padding) * padding

function hasWindow({ window = 0, window_pattern: pattern, architecture }: GgufFacts, layer: number): boolean {
  if (window === 0) return false
  if (typeof pattern === 'object') return pattern[layer] === 1
  const turn = pattern ?? (Object.hasOwn(turns, architecture) ? turns[architecture] : undefined)
  return turn !== undefined && turn > 0 && layer % turn < turn - 1
}

/** Keys and values of one token in one layer. */
function tokenBytes(facts: GgufFacts, layer: number, { keyType, valueType }: MemorySettings): number {
  const heads = atLayer(facts.heads, layer) ?? 1
  const kvHeads = atLayer(facts.kv_heads, layer) ?? heads
  const ofHead = (facts.embedding ?? 0) / Math.max(1, heads)
  return kvHeads * ((facts.key_length ?? ofHead) * elementBytes(keyType) + (facts.value_length ?? ofHead) * elementBytes(valueType))
}

/** Bytes per number of the types that a cache can have. */
const cacheTypes: ReadonlyMap<string, number> = new Map([
  ['f32', 4],
  ['f16', 2],
  ['bf16', 2],
  ['q8_0', 34 / 32],
  ['q5_1', 24 / 32],
  ['q5_0', 22 / 32],
  ['q4_1', 20 / 32],
  ['q4_0', 18 / 32],
  ['iq4_nl', 18 / 32],
])

/** An unknown type counts as f16. */
const elementBytes = (type: string | null): number => cacheTypes.get(type?.toLowerCase() ?? 'f16') ?? 2

const atLayer = (value: number | readonly number[] | undefined, layer: number): number | undefined =>
  typeof value === 'object' ? (value[layer] ?? value.at(-1)) : value

/** Activations and logits of a batch, and its attention to the context of one slot. */
function computeBytes(facts: GgufFacts, tokens: number, settings: MemorySettings): number {
  const batch = Math.min(settings.batch, Math.max(1, tokens))
  const heads = largestOf(facts.heads) ?? 1
  const feedForward = facts.experts_used === undefined ? undefined : facts.expert_feed_forward
  const hidden = (feedForward ?? largestOf(facts.feed_forward) ?? 0) * Math.max(1, facts.experts_used ?? 1)
  const attended = padded(tokens / Math.max(1, settings.slots))
  const scores = attended * (settings.hasFlashAttention ? 1 : heads + 1)
  return batch * float * (6 * (facts.embedding ?? 0) + 2 * hidden + (facts.vocabulary ?? 0) + scores)
}

const largestOf = (value: number | readonly number[] | undefined): number | undefined =>
  typeof value === 'object' ? Math.max(0, ...value) : value

// Where the memory is.

/** Bytes in the memory of the machine and of its GPUs. */
export type MemoryNeed = Readonly<{ ram: number; vram: number }>

/** Memory of a GPU that a process takes for itself before it loads anything. */
const gpuContextBytes = 256 * 2 ** 20

/** `gpuLayers`: the number of layers on GPUs; 0: the model runs on the processor. The output counts as one more layer. */
export function splitMemory(estimate: MemoryEstimate, { gpuLayers, inputBytes }: { gpuLayers: number; inputBytes: number }): MemoryNeed {
  const { weights, kvCache, compute, mmproj, process, layers, total } = estimate
  if (gpuLayers <= 0) return { ram: total, vram: 0 }
  const share = Math.min(1, gpuLayers / layers)
  // The token embeddings stay with the processor.
  const movable = Math.max(0, weights - inputBytes)
  const vram = Math.ceil(share * (movable + kvCache)) + compute + mmproj + gpuContextBytes
  // The processor needs buffers for its own layers.
  const ram = weights + kvCache - Math.ceil(share * (movable + kvCache)) + (share < 1 ? compute : 0) + process
  return { ram, vram }
}
