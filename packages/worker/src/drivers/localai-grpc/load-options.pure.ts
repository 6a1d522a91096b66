// The load options of a LocalAI backend, from the model's configuration. Pure.
import { FleetError } from '@muster/protocol'
import type { ReplicaSpec } from '../driver.ts'
import type { ModelOptions } from './messages.ts'
import type { Field } from './client.ts'

/** LocalAI's own defaults; a zero would mean something else. */
const defaults = { ContextSize: 4096, NBatch: 512, F16Memory: true, MMap: true, NGPULayers: 99_999_999 }

/** Names in LocalAI's model files that differ from those on the wire. */
const otherNames: Readonly<Record<string, string>> = {
  batch: 'NBatch',
  f16: 'F16Memory',
  gpu_layers: 'NGPULayers',
  cache_type_k: 'CacheTypeKey',
  cache_type_v: 'CacheTypeValue',
  no_kv_offloading: 'NoKVOffload',
  flash_attn: 'FlashAttention',
  cuda: 'CUDA',
}

/** Parameters of a request, not of the model. */
const notForLoading = new Set(['model', 'seed', 'negative_prompt'])

/** The identity that a backend compares to refuse requests for another model. */
export const modelIdentityOf = ({ config, model }: ReplicaSpec): string => config.parameters.model ?? model

export function toLoadOptions(spec: ReplicaSpec, fields: readonly Field[], threads: number): ModelOptions {
  const { config, modelDirectory, modelPath } = spec
  const byName = new Map(fields.map((field) => [plain(field.name), field]))
  const named: Record<string, unknown> = {}
  for (const [key, value] of Object.entries(config.parameters)) {
    const field = byName.get(plain(otherNames[key] ?? key))
    if (field !== undefined && value !== null && !notForLoading.has(key)) named[field.name] = checkValue(value, field, { key, spec })
  }
  return {
    ...defaults,
    Threads: threads,
    Embeddings: config.known_usecases.includes('embeddings'),
    ...named,
    ...((config.context_size ?? -1) === -1 ? {} : { ContextSize: config.context_size }),
    Model: modelIdentityOf(spec),
    ModelPath: modelDirectory,
    ModelFile: modelPath ?? '',
    Options: Array.isArray(config.options) ? config.options : Object.entries(config.options).map(optionOf),
  }
}

const optionOf = ([key, value]: readonly [string, unknown]): string => `${key}:${typeof value === 'string' ? value : JSON.stringify(value)}`

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
