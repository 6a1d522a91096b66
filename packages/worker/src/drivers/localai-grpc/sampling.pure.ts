// The part of the predict options that all requests have: sampling, stop words, grammar and metadata, from the request and the model.
import { anyJsonObject, grammarOfSchema } from './json-grammar.pure.ts'
import type { PredictOptions } from './messages.ts'
import type { Sampling } from './openai-request.ts'

export type Rejection = Readonly<{ refused: string; param: string }>

/** The facts of a model that its requests depend on. `parameters`: defaults for requests. */
export type ModelDefaults = Readonly<{ isLlama: boolean; parameters: Sampling }>

/** LocalAI's own defaults; a zero would mean something else. Backends read a penalty of zero as none. */
const defaults: PredictOptions = {
  Temperature: 0.9,
  TopP: 0.95,
  TypicalP: 1,
  TailFreeSamplingZ: 1,
  Seed: -1,
  MirostatETA: 0.1,
  MirostatTAU: 5,
  PromptCacheAll: true,
}

const fields = {
  temperature: 'Temperature',
  top_p: 'TopP',
  top_k: 'TopK',
  min_p: 'MinP',
  typical_p: 'TypicalP',
  tfz: 'TailFreeSamplingZ',
  seed: 'Seed',
  frequency_penalty: 'FrequencyPenalty',
  presence_penalty: 'PresencePenalty',
  repeat_penalty: 'Penalty',
  repeat_last_n: 'Repeat',
  n_keep: 'NKeep',
  n_draft: 'NDraft',
  batch: 'Batch',
  mirostat: 'Mirostat',
  mirostat_eta: 'MirostatETA',
  mirostat_tau: 'MirostatTAU',
  ignore_eos: 'IgnoreEOS',
  negative_prompt: 'NegativePrompt',
  negative_prompt_scale: 'NegativePromptScale',
  grammar: 'Grammar',
  prompt_cache_all: 'PromptCacheAll',
  prompt_cache_ro: 'PromptCacheRO',
} as const satisfies Partial<Record<keyof Sampling, keyof PredictOptions>>

/** As in LocalAI, a zero of a request does not count here: the model's value does. */
const zeroIsUnset: ReadonlySet<string> = new Set([
  'repeat_penalty',
  'frequency_penalty',
  'presence_penalty',
  'n_keep',
  'batch',
  'negative_prompt_scale',
])

/** The maximum number of tokens; 0: no limit. */
export function tokenLimit(request: Sampling, parameters: Sampling): number {
  return request.max_completion_tokens ?? request.max_tokens ?? parameters.max_completion_tokens ?? parameters.max_tokens ?? 0
}

type SampledRequest = Sampling & Readonly<{ metadata?: Readonly<Record<string, unknown>> | null | undefined }>

export function samplingOptions(request: SampledRequest, { isLlama, parameters }: ModelDefaults): PredictOptions {
  const named: Record<string, unknown> = {}
  for (const [from, to] of Object.entries(fields)) {
    const asked = zeroIsUnset.has(from) && request[from] === 0 ? null : request[from]
    const value = asked ?? parameters[from]
    if (value !== undefined && value !== null) named[to] = value
  }
  const bias = request.logit_bias ?? parameters.logit_bias
  const metadata = metadataOf(request, parameters)
  return {
    ...defaults,
    ...(isLlama ? { TopK: 40 } : {}),
    ...named,
    Tokens: tokenLimit(request, parameters),
    StopPrompts: [...new Set([...listOf(parameters.stop), ...listOf(request.stop)])],
    ...(bias === undefined || bias === null ? {} : { LogitBias: JSON.stringify(bias) }),
    ...(Object.keys(metadata).length === 0 ? {} : { Metadata: metadata }),
  }
}

const listOf = (stop: string | readonly string[] | null | undefined): readonly string[] =>
  stop === null || stop === undefined ? [] : typeof stop === 'string' ? [stop] : stop

/** How much a model thinks, and what its own chat template gets. All values are texts. */
function metadataOf(request: SampledRequest, parameters: Sampling): Record<string, string> {
  const effort = request.reasoning_effort ?? parameters.reasoning_effort
  const thinks = asksForThinking(request) ?? (effort === 'none' ? false : parameters.enable_thinking)
  const kwargs = { ...parameters.chat_template_kwargs, ...request.chat_template_kwargs }
  const known = {
    ...(thinks === undefined || thinks === null ? {} : { enable_thinking: thinks }),
    ...(effort === undefined || effort === null || effort === '' ? {} : { reasoning_effort: effort }),
  }
  return {
    ...Object.fromEntries(Object.entries(known).map(([key, value]) => [key, String(value)])),
    ...(Object.keys(kwargs).length === 0 ? {} : { chat_template_kwargs: JSON.stringify({ ...known, ...kwargs }) }),
  }
}

function asksForThinking({ enable_thinking: asked, metadata, chat_template_kwargs: kwargs }: SampledRequest): boolean | null {
  const named = [asked, metadata?.['enable_thinking'], kwargs?.['enable_thinking']].find((value) => value !== undefined && value !== null)
  return named === true || named === 'true' ? true : named === false || named === 'false' ? false : null
}

type FormattedRequest = Readonly<{
  response_format?: Readonly<{ type: string; json_schema?: Readonly<{ schema?: unknown }> | null | undefined }> | null | undefined
}>

/** The grammar of `response_format`. Null: none is asked for. Only engines that are known to obey a grammar get one. */
export function formatGrammar({ response_format: format }: FormattedRequest, isLlama: boolean): string | Rejection | null {
  const type = format?.type ?? 'text'
  if (type === 'text') return null
  if (!isLlama || (type !== 'json_object' && type !== 'json_schema')) {
    return { refused: `this backend does not support response_format ${type.slice(0, 64)}; use "grammar"`, param: 'response_format' }
  }
  if (type === 'json_object') return anyJsonObject
  const made = grammarOfSchema(format?.json_schema?.schema ?? {})
  if ('grammar' in made) return made.grammar
  const refused = `the schema of response_format has ${made.unsupported}, which cannot be guaranteed here; leave it out, or pass a "grammar"`
  return { refused, param: 'response_format' }
}
