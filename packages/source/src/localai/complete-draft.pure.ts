// Puts a converted configuration together: the defaults that LocalAI fills in at run time, and the order of keys. Pure.
import { isLlamaEngine, isTextEngine } from './backend-names.pure.ts'
import { familyOf, samplingOf } from './family-defaults.pure.ts'
import { isObject, type PlainObject } from './go-values.pure.ts'

/** The parts of a Muster configuration, while keys are converted. */
export interface Draft {
  /** Keys of the top level; also `pinned` and `disabled`. */
  readonly own: Record<string, unknown>
  readonly parameters: Record<string, unknown>
  /** By the key of Muster: values that were below `parameters` by mistake. */
  readonly misplaced: Record<string, unknown>
  readonly template: Record<string, unknown>
  readonly function: Record<string, unknown>
  readonly files: PlainObject[]
  /** The type that the backend's name stands for. */
  type: string | null
}

/** Facts that decide about keys other than their own. */
export interface ModelFacts {
  readonly name: string
  /** The file or repository to load. */
  readonly model: string
  /** The backend uses the template of the model itself. */
  readonly isDelegated: boolean
  readonly printsSystemPrompt: boolean
  readonly hasFiles: boolean
}

/** Above models without a priority. */
const pinnedPriority = 100

export function completeDraft(draft: Draft, about: ModelFacts): Record<string, unknown> {
  const { own } = draft
  const backend = typeof own['backend'] === 'string' ? own['backend'] : ''
  const parameters = parametersOf(draft, { backend, about })
  const config = {
    name: own['name'],
    backend: own['backend'],
    description: own['description'],
    parameters,
    context_size: own['context_size'] ?? draft.misplaced['context_size'],
    files: [...draft.files, ...(Array.isArray(own['files']) ? own['files'] : [])],
    options: optionsOf(own['options'], { backend, isOwnTemplate: about.isDelegated || !hasChatTemplate(draft) }),
    template: draft.template,
    roles: own['roles'],
    function: draft.function,
    known_usecases: own['known_usecases'],
    scheduling: schedulingOf(own),
  }
  return Object.fromEntries(Object.entries(config).filter(([, value]) => !isUnset(value)))
}

const isUnset = (value: unknown): boolean =>
  value === undefined || (Array.isArray(value) ? value.length === 0 : isObject(value) && Object.keys(value).length === 0)

const hasChatTemplate = ({ template }: Draft): boolean => ['chat', 'chat_message'].some((key) => template[key] !== undefined)

function parametersOf(draft: Draft, { backend, about }: { backend: string; about: ModelFacts }): Record<string, unknown> {
  const misplaced = Object.entries(draft.misplaced).flatMap(([key, value]) =>
    key.startsWith('parameters.') ? [[key.replace('parameters.', ''), value] as const] : [],
  )
  const given: Record<string, unknown> = {
    ...(draft.type === null ? {} : { type: draft.type }),
    ...Object.fromEntries(misplaced),
    ...draft.parameters,
  }
  const engineArgs = engineArgsOf(given['engine_args'], backend)
  return {
    ...given,
    ...(engineArgs === undefined ? {} : { engine_args: engineArgs }),
    ...embeddingsOf(given['embeddings'], draft.own['known_usecases']),
    ...missingSampling(given, { backend, about }),
  }
}

/** LocalAI reads the key alone: a use case without the key must not switch embeddings on. */
function embeddingsOf(given: unknown, usecases: unknown): { embeddings?: boolean } {
  if (typeof given === 'boolean') return { embeddings: given }
  return Array.isArray(usecases) && usecases.includes('embeddings') ? { embeddings: false } : {}
}

function missingSampling(given: PlainObject, { backend, about }: { backend: string; about: ModelFacts }): Record<string, number> {
  if (!isTextEngine(backend) || given['embeddings'] === true || given['reranking'] === true) return {}
  const sampling = samplingOf(familyOf(about), { isLlamaEngine: isLlamaEngine(backend) })
  return Object.fromEntries(Object.entries(sampling).filter(([key]) => given[key] === undefined))
}

/** The options that LocalAI adds for llama-cpp: reuse of the prompt cache, and the template of the model where no other is given. */
function optionsOf(given: unknown, { backend, isOwnTemplate }: { backend: string; isOwnTemplate: boolean }): unknown {
  if (!/(?:^|-)llama-cpp(?:-development)?$/.test(backend) || backend.startsWith('ik-')) return given
  const missing = [
    ...(hasOption(given, ['cache_reuse', 'n_cache_reuse']) ? [] : [['cache_reuse', '256'] as const]),
    ...(!isOwnTemplate || hasOption(given, ['use_jinja', 'jinja']) ? [] : [['use_jinja', 'true'] as const]),
  ]
  if (isObject(given)) return { ...given, ...Object.fromEntries(missing) }
  return [...(Array.isArray(given) ? given : []), ...missing.map(([key, value]) => `${key}:${value}`)]
}

function hasOption(given: unknown, names: readonly string[]): boolean {
  const keys = Array.isArray(given)
    ? given.map((option) => String(option).replace(/[:=].*$/s, ''))
    : isObject(given)
      ? Object.keys(given)
      : []
  return keys.some((key) => names.includes(key))
}

/** JSON text. LocalAI switches both on for vllm. */
function engineArgsOf(given: unknown, backend: string): unknown {
  if (backend !== 'vllm' && backend !== 'vllm-omni') return given
  const parsed = typeof given === 'string' ? parseObject(given) : {}
  return parsed === null ? given : JSON.stringify({ enable_prefix_caching: true, enable_chunked_prefill: true, ...parsed })
}

function parseObject(text: string): PlainObject | null {
  try {
    const value: unknown = JSON.parse(text)
    return isObject(value) ? value : null
  } catch {
    return null
  }
}

function schedulingOf({ pinned, disabled, scheduling = {} }: PlainObject): unknown {
  if (!isObject(scheduling)) return scheduling
  const minimum = scheduling['replicas'] === undefined ? { min_replicas: 1 } : {}
  return {
    ...(pinned === true ? { ...minimum, priority: pinnedPriority } : {}),
    ...(disabled === true ? { disabled: true } : {}),
    ...scheduling,
  }
}
