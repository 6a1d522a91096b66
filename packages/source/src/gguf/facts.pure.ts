// Facts from a GGUF header that decide how much memory the model needs.
import { GgufFacts, maxGgufLayers } from '@muster/protocol'
import { type GgufHeader, type GgufTensor, type GgufValue, readGgufHeader } from './header.pure.ts'
import { tensorBytes } from './tensor-types.pure.ts'

/** Raise it when a correction changes facts: controllers then replace those that they keep. */
export const ggufReader = 1

export type GgufFactsReading =
  | Readonly<{ kind: 'facts'; facts: GgufFacts }>
  /** At least this many bytes from the beginning of the file are needed. */
  | Readonly<{ kind: 'more'; bytes: number }>
  | Readonly<{ kind: 'invalid'; reason: string }>

export function readGgufFacts(bytes: Uint8Array): GgufFactsReading {
  const sizes = createSizes()
  const reading = readGgufHeader(bytes, sizes.add)
  return reading.kind === 'header' ? { kind: 'facts', facts: factsOf(reading.header, sizes.sum()) } : reading
}

function factsOf({ metadata, tensorCount }: GgufHeader, sizes: Omit<GgufFacts['tensors'], 'count'>): GgufFacts {
  const architecture = textOf(metadata.get('general.architecture')) ?? ''
  const own = (key: string): GgufValue | undefined => metadata.get(`${architecture}.${key}`)
  return GgufFacts.parse({
    reader: ggufReader,
    architecture,
    kind: kindOf(textOf(metadata.get('general.type')), architecture),
    part: numberOf(metadata.get('split.no')),
    layers: numberOf(own('block_count')),
    context: numberOf(own('context_length')),
    embedding: numberOf(own('embedding_length')),
    feed_forward: perLayerOf(own('feed_forward_length')),
    expert_feed_forward: numberOf(own('expert_feed_forward_length')),
    heads: perLayerOf(own('attention.head_count')),
    kv_heads: perLayerOf(own('attention.head_count_kv')),
    key_length: numberOf(own('attention.key_length')),
    value_length: numberOf(own('attention.value_length')),
    window: numberOf(own('attention.sliding_window')),
    window_pattern: perLayerOf(own('attention.sliding_window_pattern')),
    experts: numberOf(own('expert_count')),
    experts_used: numberOf(own('expert_used_count')),
    vocabulary: numberOf(own('vocab_size')) ?? lengthOf(metadata.get('tokenizer.ggml.tokens')),
    recurrent_state: recurrentStateOf(own),
    tensors: { count: tensorCount, ...sizes },
  })
}

function kindOf(type: string | undefined, architecture: string): GgufFacts['kind'] {
  if (architecture === 'clip' || type === 'mmproj') return 'projector'
  return type === 'adapter' ? 'adapter' : 'model'
}

/** State-space layers remember `inner × state` numbers and a window of convolution inputs per sequence. */
function recurrentStateOf(own: (key: string) => GgufValue | undefined): number | undefined {
  const [inner, state] = [numberOf(own('ssm.inner_size')), numberOf(own('ssm.state_size'))]
  if (inner === undefined || state === undefined) return undefined
  const kernel = numberOf(own('ssm.conv_kernel')) ?? 1
  const groups = numberOf(own('ssm.group_count')) ?? 0
  return inner * state + Math.max(0, kernel - 1) * (inner + 2 * groups * state)
}

const textOf = (value: GgufValue | undefined): string | undefined => (typeof value === 'string' ? value : undefined)
const numberOf = (value: GgufValue | undefined): number | undefined => (typeof value === 'number' ? value : undefined)
const lengthOf = (value: GgufValue | undefined): number | undefined =>
  typeof value === 'object' && 'length' in value ? value.length : undefined
const perLayerOf = (value: GgufValue | undefined): number | readonly number[] | undefined =>
  typeof value === 'number' || Array.isArray(value) ? value : undefined

const layerName = /^blk\.(\d{1,6})\./

function createSizes() {
  let bytes: number | null = 0
  let [layerBytes, inputBytes] = [0, 0]
  return {
    add({ name, type, elements }: GgufTensor): void {
      const size = tensorBytes(type, elements)
      if (size === null) bytes = null
      else if (bytes !== null) bytes += size
      if (Number(layerName.exec(name)?.[1] ?? maxGgufLayers) < maxGgufLayers) layerBytes += size ?? 0
      else if (name === 'token_embd.weight' || name === 'per_layer_token_embd.weight') inputBytes += size ?? 0
    },
    sum: () => ({ bytes, layer_bytes: layerBytes, input_bytes: inputBytes }),
  }
}
