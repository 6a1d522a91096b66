// The memory that a replica of a model needs, on the processor and on GPUs, and the device that it uses on a node. From the
// headers of its GGUF files when they are known, from the sizes of its files otherwise.
import type { GgufFacts, Resources } from '@muster/protocol'
import { z } from 'zod'
import { estimateMemory, type MemoryEstimate, type MemorySettings, type ModelHeaders, splitMemory } from './estimate.pure.ts'
import { type Device, type MemoryByDevice, noMemory } from './room.pure.ts'

/** The parts of a model's configuration that decide on its memory. Stored ones may be of any version. */
export const MemoryConfig = z.looseObject({
  backend: z.string().catch(''),
  context_size: z.number().optional().catch(undefined),
  parameters: z.record(z.string(), z.unknown()).catch({}),
  /** A map, or LocalAI's list of `key:value`. */
  options: z.union([z.record(z.string(), z.unknown()), z.array(z.string())]).catch({}),
  known_usecases: z.array(z.string()).catch([]),
  files: z.array(z.object({ uri: z.string(), filename: z.string().catch(''), sha256: z.string().optional() })).catch([]),
})
export type MemoryConfig = z.infer<typeof MemoryConfig>
export type MemoryFile = MemoryConfig['files'][number]

/** Null: unknown. */
export type KnownFile = Readonly<{ size: number | null; facts: GgufFacts | null }>

export interface ModelMemory extends MemoryByDevice {
  /** `gguf`: from the headers of its files. `size`: roughly, from their sizes. `unknown`: nothing is booked. */
  readonly basis: 'gguf' | 'size' | 'unknown'
  readonly estimate: MemoryEstimate | null
  /** Layers on GPUs; null: as many as the backend decides. */
  readonly gpuLayers: number | null
}

const MiB = 2 ** 20
/** The factor for a file whose header is unknown: buffers and context in addition to the weights. */
const overhead = 1.1
const leastOverhead = 64 * MiB

/** Computed from the known sizes; zero without any. */
export function needOf(sizes: readonly (number | null)[]): number {
  const known = sizes.reduce<number>((sum, size) => sum + (size ?? 0), 0)
  return known === 0 ? 0 : Math.ceil(known * overhead) + leastOverhead
}

export function memoryOf(config: MemoryConfig, known: (file: MemoryFile) => KnownFile): ModelMemory {
  const files = config.files.map((file) => ({ ...file, ...known(file) }))
  const lookUp = createLookup(config)
  const gpuLayers = wholeNumber(lookUp('gpu_layers', 'n_gpu_layers', 'ngl'))
  const headers = headersOf(files, lookUp)
  if (headers === null) {
    const need = needOf(files.map(({ size }) => size))
    const basis = need === 0 ? 'unknown' : 'size'
    return { basis, estimate: null, gpuLayers, cpu: { ram: need, vram: 0 }, gpu: { ram: 0, vram: need } }
  }
  const estimate = estimateMemory(headers, settingsOf(config, lookUp, headers.main))
  const inputBytes = Math.min(headers.main.tensors.input_bytes, headers.weightBytes)
  return {
    ...{ basis: 'gguf', estimate, gpuLayers },
    cpu: splitMemory(estimate, { gpuLayers: 0, inputBytes }),
    gpu: splitMemory(estimate, { gpuLayers: gpuLayers === null || gpuLayers < 0 ? estimate.layers : gpuLayers, inputBytes }),
  }
}

export const unknownMemory: ModelMemory = { basis: 'unknown', estimate: null, gpuLayers: null, cpu: noMemory, gpu: noMemory }

// Files by their use: the model with all its parts, a projector, a draft model.

type FileWithFacts = MemoryFile & KnownFile

/** Null without the header of the model. */
function headersOf(files: readonly FileWithFacts[], lookUp: Lookup): ModelHeaders | null {
  const named = (name: string): FileWithFacts | undefined => files.find(({ filename }) => filename !== '' && filename === lookUp(name))
  const draft = named('draft_model')
  const isProjector = (file: FileWithFacts): boolean => file.facts?.kind === 'projector' || file === named('mmproj')
  const isMain = (file: FileWithFacts): boolean => file.facts?.kind === 'model' && file.facts.layers !== undefined && file !== draft
  const wanted = named('model')
  const main = wanted !== undefined && isMain(wanted) ? wanted : files.find(isMain)
  const facts = main?.facts ?? null
  if (facts === null) return null
  const rest = files.filter((file) => file !== draft && !isProjector(file))
  return {
    main: facts,
    weightBytes: sumOf(rest),
    projectorBytes: sumOf(files.filter((file) => isProjector(file) && file !== draft)),
    draft: draft === undefined || draft.facts === null ? null : { facts: draft.facts, weightBytes: weightsOf(draft) },
  }
}

const sumOf = (files: readonly FileWithFacts[]): number => files.reduce((sum, file) => sum + weightsOf(file), 0)
/** The tensors of a file; its size when their types are unknown. */
const weightsOf = ({ facts, size }: FileWithFacts): number => facts?.tensors.bytes ?? size ?? 0

// Settings, from wherever a configuration has them.

type Lookup = (...names: readonly string[]) => unknown

/** The first of these names in the options, the parameters or the configuration itself. */
function createLookup(config: MemoryConfig): Lookup {
  const options = Array.isArray(config.options) ? Object.fromEntries(config.options.map(pairOf)) : config.options
  const places: readonly Readonly<Record<string, unknown>>[] = [options, config.parameters, config]
  return (...names) => {
    for (const place of places)
      for (const name of names) if (Object.hasOwn(place, name) && place[name] !== undefined && place[name] !== null) return place[name]
    return undefined
  }
}

/** `key:value`; a bare word means true. */
function pairOf(option: string): [string, unknown] {
  const at = option.indexOf(':')
  return at === -1 ? [option, true] : [option.slice(0, at), option.slice(at + 1)]
}

function wholeNumber(value: unknown): number | null {
  const number = typeof value === 'string' && value.trim() !== '' ? Number(value) : value
  return typeof number === 'number' && Number.isSafeInteger(number) ? number : null
}

const positive = (value: unknown, max: number): number | null => {
  const number = wholeNumber(value)
  return number === null || number < 1 ? null : Math.min(number, max)
}
const textOf = (value: unknown): string | null => (typeof value === 'string' ? value : null)
const isOff = (value: unknown): boolean => value === false || value === 'false' || value === 'off' || value === 'disabled'
const isOn = (value: unknown): boolean => value === true || value === 'true' || value === 'on'

/** The built-in backend gives each slot a context of its own; llama.cpp's server divides one context among its slots. */
const builtinBackend = 'llama'
/** Measured: Node with llama.cpp, and a server in C++. */
const processBytes = { builtin: 144 * MiB, other: 96 * MiB }
const largestContext = 2 ** 24
const usualContext = 4_096

function settingsOf(config: MemoryConfig, lookUp: Lookup, main: GgufFacts): MemorySettings {
  const isBuiltin = config.backend === builtinBackend
  const slots = positive(lookUp('parallel', 'n_parallel', 'sequences'), 256) ?? (isBuiltin ? 4 : 1)
  const trained = main.context ?? usualContext
  const asked = config.context_size ?? lookUp('context_size', 'n_ctx')
  const usual = isBuiltin ? Math.min(trained, usualContext) : usualContext
  const perSlot = asked === -1 ? Math.min(trained, largestContext) : (positive(asked, largestContext) ?? usual)
  // Embeddings have a context of their own there.
  const sequences = slots + (isBuiltin && config.known_usecases.includes('embeddings') ? 1 : 0)
  const contextTokens = isBuiltin ? perSlot * sequences : perSlot
  const isEmbedder =
    !isBuiltin && (config.known_usecases.some((use) => use === 'embeddings' || use === 'score') || isOn(lookUp('embeddings', 'reranking')))
  const batch = positive(lookUp('ubatch', 'n_ubatch', 'batch', 'batch_size', 'n_batch'), largestContext) ?? 512
  return {
    ...{ slots: sequences, contextTokens, processBytes: isBuiltin ? processBytes.builtin : processBytes.other },
    keyType: textOf(lookUp('cache_type_k')),
    valueType: textOf(lookUp('cache_type_v')),
    // Texts to embed are evaluated in one batch.
    batch: isEmbedder ? contextTokens : batch,
    hasFlashAttention: !isOff(lookUp('flash_attention')),
    hasFullWindow: isOn(lookUp('swa_full')),
  }
}

// The device.

/** The build of a backend on a node: its name or address, from which its device follows. */
export function deviceOfBuild(build: string): Device | null {
  // The built-in backends compute on the processor.
  if (build.startsWith('builtin:')) return 'cpu'
  if (/(?:^|[^a-z])cpu(?:[^a-z]|$)/i.test(build)) return 'cpu'
  return /(?:^|[^a-z])(?:gpu|cuda|nvidia|rocm|hipblas|amd(?!64)|sycl|intel|vulkan|metal|mlx|l4t)/i.test(build) ? 'gpu' : null
}

type DeviceFacts = Readonly<{ resources: Resources; capability: string; build: string }>

/** The device of a replica: the processor without a usable GPU, with a build for it, or when no layer is to be on a GPU. */
export function deviceOf({ resources, capability, build }: DeviceFacts, { gpuLayers }: Pick<ModelMemory, 'gpuLayers'>): Device {
  if (capability === 'default' || (resources.total_vram ?? 0) <= 0 || gpuLayers === 0) return 'cpu'
  return deviceOfBuild(build) ?? 'gpu'
}
