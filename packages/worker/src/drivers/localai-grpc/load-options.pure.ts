// The load options of a LocalAI backend, from the model's configuration, as LocalAI itself makes them. Pure.
import { FleetError } from '@muster/protocol'
import type { ReplicaSpec } from '../driver.ts'
import type { ModelOptions } from './messages.ts'
import type { Field } from './client.ts'
import { Sampling } from './openai-request.ts'

/** Facts outside of the configuration. */
export type LoadFacts = Readonly<{
  fields: readonly Field[]
  threads: number
  /** Null: no GPU, or its memory is unknown. */
  smallestGpuBytes: number | null
  /** The context that the model was trained with. Null: unknown. */
  trainedContext: number | null
  /** The companions (`companionsOf`) that are in the model's folder, with their full paths. */
  companions: ReadonlyMap<string, string>
  /** The backend applies the chat template of the model itself. */
  isDelegated: boolean
}>

/** `unused`: parameters that nothing reads. */
export type LoadPlan = Readonly<{ options: ModelOptions; unused: readonly string[] }>

/** LocalAI's own defaults; a zero would mean something else. */
const defaults = { ContextSize: 4096, MMap: true, NGPULayers: 99_999_999, FlashAttention: 'auto' }
const usualBatch = 512

/** Names in LocalAI's model files that differ from those on the wire. */
const otherNames: Readonly<Record<string, string>> = {
  batch: 'NBatch',
  f16: 'F16Memory',
  gpu_layers: 'NGPULayers',
  mmlock: 'MLock',
  cache_type_k: 'CacheTypeKey',
  cache_type_v: 'CacheTypeValue',
  no_kv_offloading: 'NoKVOffload',
  flash_attn: 'FlashAttention',
  cuda: 'CUDA',
  disable_log_stats: 'DisableLogStatus',
}

/** Parameters of requests. Those that no request of this driver reads are defaults of other kinds of requests. */
const requestKeys: ReadonlySet<string> = new Set([
  ...Object.keys(Sampling.shape),
  ...['model', 'n', 'echo', 'logprobs', 'top_logprobs', 'encoding_format', 'system_prompt', 'voice', 'language', 'translate', 'step'],
  ...['enable_parameters', 'known_input_modalities', 'known_output_modalities'],
])
/** Request parameters whose name is also a field of the load. */
const notForLoading = new Set(['model', 'seed', 'negative_prompt'])

/** Parameters that name files of the model beside its main file. */
const companionKeys = ['mmproj', 'draft_model', 'audio_path', 'lora_adapter', 'lora_base', 'lora_adapters']
/** llama.cpp looks for these beside the main file, also when the path is a full one. */
const besideMainFile = new Set(['lora_adapter', 'lora_base', 'lora_adapters'])

/** The identity that a backend compares to refuse requests for another model. */
export const modelIdentityOf = ({ config, model }: ReplicaSpec): string => config.parameters.model ?? model

/** Engines of the llama.cpp family, in any build: `llama-cpp`, `cuda12-llama-cpp`, `ik-llama-cpp-development`. */
export const isLlamaLike = (backend: string): boolean => /(?:^|-)(?:llama-cpp|turboquant|bonsai|ds4)(?:-|$)/.test(backend)
const isLlamaCpp = (backend: string): boolean => /(?:^|-)(?<!ik-)llama-cpp(?:-|$)/.test(backend)

export function companionsOf({ config }: ReplicaSpec): string[] {
  const named = companionKeys.flatMap((key): unknown => config.parameters[key])
  return named.filter((value): value is string => typeof value === 'string' && value !== '')
}

export function toLoadOptions(spec: ReplicaSpec, facts: LoadFacts): LoadPlan {
  const { config, modelDirectory, modelPath, backend } = spec
  const { named, unused } = namedFields(spec, facts)
  const contextSize = contextOf(spec, facts) ?? named['ContextSize'] ?? defaults.ContextSize
  const triggers = config.function?.grammar?.triggers ?? []
  const shared = {
    Embeddings: config.known_usecases.includes('embeddings'),
    ...defaults,
    Threads: facts.threads,
    ...named,
    // Slow or broken on Intel's GPUs, as LocalAI found.
    ...(/intel|sycl/i.test(backend) ? { MMap: false } : {}),
    ContextSize: contextSize,
  }
  const readsAllAtOnce = shared.Embeddings || named['Reranking'] === true || config.known_usecases.includes('score')
  const options = {
    NBatch: readsAllAtOnce ? contextSize : usualBatch,
    ...shared,
    ...(triggers.length === 0 ? {} : { GrammarTriggers: triggers.map(({ word }) => ({ word })) }),
    Model: modelIdentityOf(spec),
    ModelPath: modelDirectory,
    ModelFile: modelPath ?? '',
    Options: [...optionsOf(spec), ...servingOptions(spec, { ...facts, contextSize })],
  }
  return { options, unused }
}

function namedFields(spec: ReplicaSpec, { fields, companions }: LoadFacts): { named: Record<string, unknown>; unused: string[] } {
  const byName = new Map(fields.map((field) => [plain(field.name), field]))
  const named: Record<string, unknown> = {}
  const unused: string[] = []
  for (const [key, given] of flatParameters(spec)) {
    const field = notForLoading.has(key) ? undefined : byName.get(plain(otherNames[key] ?? key))
    if (field === undefined && !requestKeys.has(key)) unused.push(key)
    if (field === undefined || given === null || given === undefined) continue
    const value = key === 'engine_args' && typeof given === 'object' ? JSON.stringify(given) : locate(key, given, { spec, companions })
    named[field.name] = checkValue(value, field, { key, spec })
  }
  return { named, unused }
}

/** LocalAI's model files have these three in a mapping. */
function flatParameters({ config: { parameters } }: ReplicaSpec): [string, unknown][] {
  return Object.entries(parameters).flatMap(([key, value]): [string, unknown][] => {
    if (key !== 'limit_mm_per_prompt' || typeof value !== 'object' || value === null) return [[key, value]]
    return Object.entries(value).map(([kind, limit]): [string, unknown] => [`limit_${kind}_per_prompt`, limit])
  })
}

/** A file of the model becomes its full path, or for llama.cpp the path from the main file to a LoRA; other words stay. */
function locate(key: string, value: unknown, at: { spec: ReplicaSpec; companions: ReadonlyMap<string, string> }): unknown {
  if (!companionKeys.includes(key)) return value
  if (Array.isArray(value)) return value.map((each) => locate(key, each, at))
  const path = typeof value === 'string' ? at.companions.get(value) : undefined
  if (path === undefined) return value
  const { backend, modelPath } = at.spec
  return besideMainFile.has(key) && isLlamaLike(backend) && modelPath !== null ? pathFrom(modelPath, path) : path
}

/** Both are full paths. */
function pathFrom(file: string, target: string): string {
  const [from, to] = [file.split('/').slice(0, -1), target.split('/')]
  const shared = from.findIndex((part, at) => part !== to[at])
  const common = shared === -1 ? from.length : shared
  return [...from.slice(common).map(() => '..'), ...to.slice(common)].join('/')
}

const contextOf = ({ config }: ReplicaSpec, { trainedContext }: LoadFacts): number | null =>
  config.context_size === -1 ? (trainedContext ?? defaults.ContextSize) : (config.context_size ?? null)

function optionsOf({ config: { options } }: ReplicaSpec): readonly string[] {
  if (Array.isArray(options)) return options
  return Object.entries(options).map(([key, value]) => `${key}:${typeof value === 'string' ? value : JSON.stringify(value)}`)
}

/** Above this, slots of their own for several requests would take most of the memory. */
const largestSharedContext = 65_536
const slotsByGpu = [
  { atLeastBytes: 32 * 2 ** 30, slots: 8 },
  { atLeastBytes: 8 * 2 ** 30, slots: 4 },
  { atLeastBytes: 4 * 2 ** 30, slots: 2 },
] as const

/** LocalAI adds these where the model does not say otherwise. */
function servingOptions(spec: ReplicaSpec, { smallestGpuBytes, isDelegated, contextSize }: LoadFacts & { contextSize: unknown }): string[] {
  const given = new Set(optionsOf(spec).map((option) => option.split(/[:=]/, 1)[0] ?? ''))
  const unlessGiven = (names: readonly string[], option: string): string[] => (names.some((name) => given.has(name)) ? [] : [option])
  const slots = slotsByGpu.find(({ atLeastBytes }) => (smallestGpuBytes ?? 0) >= atLeastBytes)?.slots
  const isLarge = typeof contextSize === 'number' && contextSize > largestSharedContext
  return [
    ...(isLlamaCpp(spec.backend) ? unlessGiven(['cache_reuse', 'n_cache_reuse'], 'cache_reuse:256') : []),
    ...(isLlamaCpp(spec.backend) && slots !== undefined && !isLarge ? unlessGiven(['parallel', 'n_parallel'], `parallel:${slots}`) : []),
    ...(isLlamaLike(spec.backend) && isDelegated ? unlessGiven(['use_jinja', 'jinja'], 'use_jinja:true') : []),
  ]
}

const plain = (name: string): string => name.replaceAll('_', '').toLowerCase()

function checkValue(value: unknown, field: Field, { key, spec }: { key: string; spec: ReplicaSpec }): unknown {
  const isRight = field.isRepeated ? Array.isArray(value) && value.every((each) => isOf(field.kind, each)) : isOf(field.kind, value)
  if (isRight) return value
  const wanted = `${field.isRepeated ? 'a list of ' : 'a '}${field.kind.replace('TYPE_', '').toLowerCase()}`
  throw new FleetError({ code: 'invalid', retry: 'never', message: `parameters.${key} of the model ${spec.model} must be ${wanted}` })
}

function isOf(kind: string, value: unknown): boolean {
  switch (kind) {
    case 'TYPE_STRING':
      return typeof value === 'string'
    case 'TYPE_BOOL':
      return typeof value === 'boolean'
    case 'TYPE_INT32':
      return Number.isInteger(value)
    case 'TYPE_FLOAT':
      return typeof value === 'number'
    default:
      return false
  }
}
