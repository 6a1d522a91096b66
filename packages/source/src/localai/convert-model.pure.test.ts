import { ModelConfig } from '@muster/protocol'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { convertModel, isLocalAiModel, type KeyOutcome } from './convert-model.pure.ts'
import { familyOf, samplingOf } from './family-defaults.pure.ts'
import type { ValueType } from './go-values.pure.ts'
import { findModelKey, localAiModelKeys } from './model-keys.pure.ts'

/** Every key that LocalAI reads from a model file. */
const allKeys = `
name alias backend description usage known_usecases known_input_modalities known_output_modalities disabled pinned concurrency_groups
limits.max_concurrent limits.retry_after_seconds threads context_size f16 cuda low_vram numa mmap mmlock gpu_layers main_gpu tensor_split
embeddings reranking mmproj draft_model n_draft lora_adapter lora_base lora_scale lora_adapters lora_scales flash_attention cache_type_k
cache_type_v no_kv_offloading rope_scaling yarn_ext_factor yarn_attn_factor yarn_beta_fast yarn_beta_slow rms_norm_eps ngqa no_mulmatq
quantization load_format gpu_memory_utilization trust_remote_code enforce_eager swap_space max_model_len tensor_parallel_size dtype
disable_log_stats limit_mm_per_prompt.image limit_mm_per_prompt.video limit_mm_per_prompt.audio engine_args overrides type step cfg_scale
diffusers.pipeline_type diffusers.scheduler_type diffusers.cuda diffusers.img2img diffusers.clip_skip diffusers.clip_model
diffusers.clip_subfolder diffusers.control_net diffusers.enable_parameters tts.voice tts.audio_path tts.voice_cloning prompt_cache_all
prompt_cache_ro prompt_cache_path mirostat mirostat_eta mirostat_tau grammar stopwords system_prompt cutstrings extract_regex trimspace
trimsuffix roles template.chat template.chat_message template.function template.completion template.edit template.multimodal
template.join_chat_messages_by_character template.use_tokenizer_template template.reply_prefix function.grammar.disable
function.disable_no_action function.no_action_function_name function.no_action_description_name function.response_regex
function.json_regex_match function.argument_regex function.argument_regex_key_name function.argument_regex_value_name
function.replace_function_results function.replace_llm_results function.capture_llm_results function.automatic_tool_parsing_fallback
function.grammar.parallel_calls function.grammar.mixed_mode function.grammar.no_mixed_free_string
function.grammar.disable_parallel_new_lines function.grammar.expect_strings_after_json function.grammar.properties_order
function.grammar.prefix function.grammar.schema_type function.grammar.triggers function.function_name_key function.function_arguments_key
function.xml_format_preset function.xml_format function.disable_peg_parser function.return_name_in_function_response
function.grammar.function_arguments_key reasoning.disable reasoning.disable_reasoning_tag_prefill reasoning.strip_reasoning_only
reasoning.thinking_start_tokens reasoning.tag_pairs reasoning_effort chat_template_kwargs options artifacts download_files feature_flags
debug grpc.attempts grpc.attempts_sleep_time pipeline mcp.remote mcp.stdio agent pii pii.enabled pii_detection compression mitm.hosts
router proxy temperature top_p top_k min_p repeat_penalty presence_penalty parameters.model parameters.temperature parameters.top_p
parameters.top_k parameters.min_p parameters.typical_p parameters.tfz parameters.max_tokens parameters.seed parameters.repeat_penalty
parameters.repeat_last_n parameters.n_keep parameters.frequency_penalty parameters.presence_penalty parameters.ignore_eos
parameters.logit_bias parameters.negative_prompt parameters.negative_prompt_scale parameters.rope_freq_base parameters.rope_freq_scale
parameters.batch parameters.n parameters.echo parameters.logprobs parameters.top_logprobs parameters.clip_skip parameters.tokenizer
parameters.language parameters.translate parameters.encoding_format parameters.pooling parameters.pooling_half_life_tokens`
  .trim()
  .split(/\s+/)

describe('the table of keys', () => {
  it.each(allKeys)('has a row for %s', (key) => expect(findModelKey(key)).toBeDefined())

  it('has each key once, with a target exactly where one is needed, and a sentence', () => {
    expect(new Set(localAiModelKeys.map(({ key }) => key)).size).toBe(localAiModelKeys.length)
    for (const { key, outcome, to, message } of localAiModelKeys) {
      expect(to !== null, key).toBe(outcome === 'mapped' || outcome === 'carried')
      expect(message, key).toMatch(/^\p{L}.*\.$/u)
    }
  })
})

const base = { name: 'm', backend: 'whisper' }
const convert = (more: object) => convertModel({ ...base, ...more })
const fateOf = (more: object, key: string) => convert(more).keys.find((each) => each.key === key)

describe('a key becomes', () => {
  it.each<[string, object, object]>([
    ['the backend by its alias', { backend: 'llama' }, { backend: 'llama-cpp' }],
    [
      'a backend with a type',
      { backend: 'sentencetransformers' },
      { backend: 'transformers', parameters: { type: 'SentenceTransformer' } },
    ],
    ['a backend with its own type', { backend: 'mamba', type: 'X' }, { backend: 'transformers', parameters: { type: 'X' } }],
    ['llama-cpp for a .gguf file', { backend: '', parameters: { model: 'a/B.GGUF' } }, { backend: 'llama-cpp' }],
    ['llama-cpp for an empty backend', { backend: null, parameters: { model: 'b.gguf' } }, { backend: 'llama-cpp' }],
    ['a description of one line', { description: ' a\n  b\tc\n' }, { description: 'a b c' }],
    ['a name in one form', { name: 'tuga\u0303o' }, { name: 'tug\u00e3o' }],
    ['a text of a number', { name: 1, type: 2 }, { name: '1', parameters: { type: '2' } }],
    ['a use case without its prefix', { known_usecases: ['FLAG_CHAT', 'vision'] }, { known_usecases: ['chat', 'vision'] }],
    ['a parameter of the same name', { threads: 4, gpu_layers: 0 }, { parameters: { threads: 4, gpu_layers: 0 } }],
    ['a boolean of a word', { f16: 'yes', mmap: 'off' }, { parameters: { f16: true, mmap: false } }],
    ['a text that looks like a boolean', { flash_attention: 'on' }, { parameters: { flash_attention: 'on' } }],
    ['a flat parameter', { limit_mm_per_prompt: { image: 2 } }, { parameters: { limit_image_per_prompt: 2 } }],
    ['a diffusers parameter', { diffusers: { cuda: true, clip_skip: 1 } }, { parameters: { cuda: true, clip_skip: 1 } }],
    ['cuda from either place', { cuda: true, diffusers: { cuda: false } }, { parameters: { cuda: true } }],
    ['engine arguments as text', { engine_args: { a: { b: 1 } } }, { parameters: { engine_args: '{"a":{"b":1}}' } }],
    ['stop words', { stopwords: ['<|end|>', 1] }, { parameters: { stop: ['<|end|>', '1'] } }],
    ['a voice', { tts: { voice: 'Frank' } }, { parameters: { voice: 'Frank' } }],
    ['a context', { context_size: -1 }, { context_size: -1 }],
    ['a context below parameters', { parameters: { context_size: 8192 } }, { context_size: 8192 }],
    ['the context of the top level', { context_size: 1, parameters: { context_size: 2 } }, { context_size: 1 }],
    ['a load option below parameters', { parameters: { f16: true, stop: ['a'] } }, { parameters: { f16: true, stop: ['a'] } }],
    ['embeddings by the key alone', { known_usecases: ['embeddings'] }, { parameters: { embeddings: false } }],
    ['embeddings without the use case', { embeddings: true }, { parameters: { embeddings: true } }],
    ['options in their order', { options: ['b=1', 'a', 'b:2'] }, { options: ['b=1', 'a', 'b:2'] }],
    ['thinking, reversed', { reasoning: { disable: true } }, { parameters: { enable_thinking: false } }],
    ['a pinned model', { pinned: true }, { scheduling: { min_replicas: 1, priority: 100 } }],
    ['a disabled model', { disabled: true }, { scheduling: { disabled: true } }],
    [
      'scheduling of Muster, which wins',
      { pinned: true, scheduling: { min_replicas: 2 } },
      { scheduling: { min_replicas: 2, priority: 100 } },
    ],
    [
      'a file of an address',
      { parameters: { model: 'huggingface://o/r/dir/f.gguf' } },
      { parameters: { model: 'f.gguf' }, files: [{ uri: 'hf://o/r/dir/f.gguf', filename: 'f.gguf' }] },
    ],
    [
      'a file of GitHub',
      { mmproj: 'github:o/r/p/f.gguf@v1' },
      { parameters: { mmproj: 'f.gguf' }, files: [{ uri: 'https://raw.githubusercontent.com/o/r/v1/p/f.gguf', filename: 'f.gguf' }] },
    ],
    [
      'downloaded files',
      { download_files: [{ filename: 'a/ã', uri: 'https://h/ã', sha256: '' }] },
      { files: [{ uri: 'https://h/%C3%A3', filename: 'a/ã' }] },
    ],
    [
      'templates',
      { template: { chat: '{{.Input}}', join_chat_messages_by_character: '' }, roles: { user: 'U:' } },
      { template: { chat: '{{.Input}}', join_chat_messages_by_character: '' }, roles: { user: 'U:' } },
    ],
    [
      'expressions for tool calls',
      {
        function: {
          response_regex: ['a'],
          replace_llm_results: [{ key: 'k' }],
          grammar: { disable: true, triggers: [{ word: 'w', at_start: 1 }] },
        },
      },
      { function: { response_regex: ['a'], replace_llm_results: [{ key: 'k', value: '' }], grammar: { triggers: [{ word: 'w' }] } } },
    ],
    [
      'a system prompt that a template prints',
      { system_prompt: 's', template: { chat: '{{.SystemPrompt}}' } },
      { parameters: { system_prompt: 's' } },
    ],
  ])('%s', (_, more, config) => {
    const converted = convert(more)
    expect(converted.config).toMatchObject(config)
    expect(converted.keys.filter(({ outcome }) => outcome === 'refused')).toEqual([])
    expect(ModelConfig.safeParse(converted.config).error).toBeUndefined()
  })
})

describe('a key has no effect', () => {
  it.each<[string, object, string, string]>([
    ['that LocalAI does not know', { 'Base Model': 'x' }, 'Base Model', 'LocalAI does not know'],
    ['below a known one', { template: { image: 'x' } }, 'template.image', 'LocalAI does not know'],
    ['that is an unknown parameter', { parameters: { colour: 'x' } }, 'parameters.colour', 'LocalAI does not know'],
    ['without a value', { mmproj: null }, 'mmproj', 'no value'],
    ['with an empty value', { mmproj: '', alias: '', threads: 0 }, 'mmproj', 'no value'],
    [
      'of chat templates that the backend replaces',
      { template: { chat: '{{nope}}', use_tokenizer_template: true } },
      'template.chat',
      'template of the model itself',
    ],
    ['that no template prints', { system_prompt: 's' }, 'system_prompt', 'prints'],
    ['of a repository whose files nobody listed', { artifacts: [{ source: { repo: 'o/r' } }] }, 'artifacts', 'o/r'],
    ['of a filter that is off', { pii: { enabled: false, patterns: [] } }, 'pii.enabled', 'no value'],
    ['of the default pooling', { parameters: { pooling: 'backend' } }, 'parameters.pooling', 'backend'],
    ['of a sampling value at the top level', { temperature: 1 }, 'temperature', 'parameters.temperature'],
  ])('%s', (_, more, key, message) => {
    expect(fateOf(more, key)).toMatchObject({ outcome: 'no_effect', to: null, message: expect.stringContaining(message) as string })
    expect(convert(more).keys.filter(({ outcome }) => outcome === 'refused')).toEqual([])
  })
})

describe('a key is refused', () => {
  it.each<[string, object, string, string]>([
    ['a name with a space, with the nearest one', { name: 'my model' }, 'name', '"my-model"'],
    ['an alias', { alias: 'other' }, 'alias', 'give that model this name'],
    ['a pipeline', { pipeline: { llm: 'x' } }, 'pipeline', 'add the models of its parts'],
    ['a router', { router: { candidates: [] } }, 'router', 'clients have to name one'],
    ['another provider', { proxy: { provider: 'x' } }, 'proxy', 'another provider'],
    ['a filter of personal data', { pii: { enabled: true } }, 'pii.enabled', 'personal data'],
    ['no backend', { backend: '', parameters: { model: 'x.bin' } }, 'backend', 'add "backend: NAME"'],
    ['a backend that is gone', { backend: 'exllama2' }, 'backend', 'use vllm or llama-cpp'],
    ['a policy as a backend', { backend: 'pattern' }, 'backend', 'filter inside LocalAI'],
    ['a pooling', { parameters: { pooling: 'mean' } }, 'parameters.pooling', 'left to the backend'],
    ['a word for a number', { threads: 'many' }, 'threads', 'a whole number'],
    ['a word for a boolean', { f16: 'maybe' }, 'f16', 'true or false'],
    ['a word for a flag', { pinned: 'maybe' }, 'pinned', 'true or false'],
    ['an address of no known kind', { mmproj: 'huggingface://x' }, 'mmproj', 'unsupported file URI'],
    ['an endless address', { mmproj: `github:${'@'.repeat(1_000_000)}/` }, 'mmproj', 'at most 2048'],
    ['an address without a file', { mmproj: 'https://h/' }, 'mmproj', 'too small'],
    ['a mapping for a list', { stopwords: { a: 1 } }, 'stopwords', 'a list of texts'],
    ['a text for a mapping', { template: 'chatml' }, 'template', 'a mapping'],
    ['an option with a space', { options: [{ use_jinja: true }] }, 'options', 'without a space'],
    ['a path out of the folder', { mmproj: '../x' }, 'mmproj', 'inside the model'],
    ['a template by name', { template: { chat: 'chatml' } }, 'template.chat', 'chatml.tmpl'],
    ['a template with an unknown function', { template: { chat: '{{ trimAll .Input }}' } }, 'template.chat', 'trimAll'],
    ['a file without an address', { download_files: [{ filename: 'f' }] }, 'download_files', 'File 1'],
  ])('%s', (_, more, key, message) => {
    expect(fateOf(more, key)).toMatchObject({ outcome: 'refused', to: null })
    expect(fateOf(more, key)?.message.toLowerCase()).toContain(message.toLowerCase())
  })

  it('a file without a backend is refused by a key that it does not have', () => {
    expect(convertModel({ name: 'm' }).keys).toMatchObject([{ key: 'name' }, { key: 'backend', outcome: 'refused' }])
  })
})

describe('defaults of LocalAI', () => {
  const llama = (more: object = {}) => convert({ backend: 'llama-cpp', ...more }).config

  it.each<[string, object, string[]]>([
    ['are added for llama-cpp', {}, ['cache_reuse:256', 'use_jinja:true']],
    ['stay as they are given', { options: ['n_cache_reuse:0', 'jinja'] }, ['n_cache_reuse:0', 'jinja']],
    ['leave the template alone', { template: { chat: '{{.Input}}' } }, ['cache_reuse:256']],
    [
      'are those of the template of the model',
      { template: { chat: 'x y', use_tokenizer_template: 'on' } },
      ['cache_reuse:256', 'use_jinja:true'],
    ],
  ])('options %s', (_, more, options) => expect(llama(more)).toMatchObject({ options }))

  it('options of Muster keep their form', () => {
    expect(llama({ options: { parallel: 2 }, f16: true })).toMatchObject({
      options: { parallel: 2, cache_reuse: '256', use_jinja: 'true' },
    })
  })

  it.each<[string, object, object]>([
    ['of the family by the name', { name: 'my-Qwen3_8B' }, { temperature: 0.6, top_p: 0.95, top_k: 20, min_p: 0 }],
    ['of the family by the file', { parameters: { model: 'd/Meta-Llama-3.1-8B.gguf' } }, { temperature: 1.5, top_k: -1, min_p: 0.1 }],
    ['given by the file, also zero', { name: 'gemma-3', parameters: { temperature: 0 } }, { temperature: 0, top_p: 0.95, top_k: 64 }],
    ['of no family', {}, { temperature: 0.9, top_p: 0.95, top_k: 40, min_p: 0 }],
    ['of no family, for another engine', { backend: 'vllm' }, { temperature: 0.9, top_k: 0 }],
  ])('sampling %s', (_, more, parameters) => expect(llama(more)).toMatchObject({ parameters }))

  it.each<[string, object]>([
    ['embeddings', { embeddings: true }],
    ['reranking', { reranking: true }],
    ['another engine', { backend: 'whisper', name: 'qwen3-asr' }],
  ])('no sampling for %s', (_, more) => expect(llama(more)['parameters'] ?? {}).not.toHaveProperty('temperature'))

  it('the name counts before the file, and the first family of the table', () => {
    expect(familyOf({ name: 'mistral-small-3', model: 'qwen3.gguf' })).toBe('mistral-small')
    expect(familyOf({ name: 'x', model: 'a/Qwen3_Coder.gguf' })).toBe('qwen3-coder')
    expect(familyOf({ name: 'x', model: 'y' })).toBeNull()
    expect(samplingOf('qwen2.5', { isLlamaEngine: true })).toEqual({ temperature: 0.7, top_p: 0.8, top_k: 20, min_p: 0 })
  })

  it('engine arguments of vllm', () => {
    expect(llama({ backend: 'vllm', engine_args: { enable_prefix_caching: false } })).toMatchObject({
      parameters: { engine_args: '{"enable_prefix_caching":false,"enable_chunked_prefill":true}' },
    })
  })
})

describe('a configuration is of LocalAI', () => {
  it.each<[string, object, boolean]>([
    ['with a key that Muster does not have', { threads: 4 }, true],
    ['with a nested key that Muster does not have', { function: { grammar: { disable: true } } }, true],
    ['with a form that Muster does not have', { known_usecases: ['FLAG_CHAT'] }, true],
    ['with an address as the model', { parameters: { model: 'huggingface://o/r/f' } }, true],
    ['with keys of both and one of LocalAI', { files: [], f16: true }, true],
    ['not with keys of both', { options: ['a'], template: { chat: '{{.Input}}' }, function: { grammar: { triggers: [] } } }, false],
    ['not with a typing mistake', { context_sise: 1 }, false],
    ['not with parameters of LocalAI, which are free in Muster', { parameters: { tfz: 1, anything: 2 } }, false],
  ])('%s', (_, more, want) => expect(isLocalAiModel({ ...base, ...more })).toBe(want))
})

const text = fc.stringMatching(/^[a-z][a-z0-9.]{0,8}$/)
const texts = fc.array(text, { maxLength: 3 })
const values: Partial<Record<ValueType, fc.Arbitrary<unknown>>> = {
  bool: fc.constantFrom(true, false, 'yes', 'off'),
  negation: fc.boolean(),
  int: fc.integer({ min: -1, max: 9 }),
  count: fc.integer({ min: 0, max: 9 }),
  context: fc.integer({ min: -1, max: 9 }),
  float: fc.double({ min: 0, max: 2, noNaN: true }),
  amount: fc.double({ min: 0, max: 2, noNaN: true }),
  floats: fc.array(fc.integer(), { maxLength: 3 }),
  texts,
  files: texts,
  options: texts,
  usecases: texts,
  template: fc.constant('{{.Input}}'),
  json: fc.dictionary(text, fc.integer(), { maxKeys: 2 }),
  map: fc.dictionary(text, fc.integer(), { maxKeys: 2 }),
  'texts by name': fc.dictionary(text, text, { maxKeys: 2 }),
  replacements: fc.array(fc.record({ key: text, value: text }), { maxLength: 2 }),
  triggers: fc.array(fc.record({ word: text }), { maxLength: 2 }),
}
const kept: ReadonlySet<KeyOutcome> = new Set(['mapped', 'carried'])
const source = fc
  .tuple(
    ...localAiModelKeys.map(({ key, type }) =>
      fc.option(
        (values[type] ?? text).map((value) => [key, value] as const),
        { freq: 3 },
      ),
    ),
  )
  .map((entries) => {
    const tree: Record<string, unknown> = {}
    for (const entry of entries) {
      const [path, value] = entry ?? ['', null]
      const parts = path.replace(/\.\*$/, '').split('.')
      const last = parts.pop() ?? ''
      let node = tree
      for (const part of parts) node = (node[part] ??= {}) as Record<string, unknown>
      if (typeof node === 'object' && last !== '') node[last] = value
    }
    return tree
  })

describe('laws', () => {
  it('a conversion never throws, and reports every key', () => {
    fc.assert(
      fc.property(fc.dictionary(fc.oneof(fc.string(), fc.constantFrom(...allKeys)), fc.jsonValue()), (given) => {
        const { keys } = convertModel(given)
        for (const key of Object.keys(given))
          expect(keys.some((each) => each.key === key || each.key.startsWith(`${key}.`) || isEmpty(given[key]))).toBe(true)
        for (const { outcome, to } of keys) expect(to !== null).toBe(kept.has(outcome))
      }),
    )
  })

  it('a converted configuration is valid unless a key is refused, and converting it again is not needed', () => {
    fc.assert(
      fc.property(source, (given) => {
        const { config, keys } = convertModel({ ...given, name: 'm', backend: 'llama-cpp' })
        const refused = keys.filter(({ outcome }) => outcome === 'refused').map(({ key }) => key)
        if (refused.length === 0) expect(ModelConfig.safeParse(config).error).toBeUndefined()
        expect(isLocalAiModel(config)).toBe(false)
        expect(
          refused.filter(
            (key) =>
              !/^(?:alias|pipeline|router|proxy|pii\.enabled|parameters\.pooling|artifacts|download_files|parameters\.logprobs)/.test(key),
          ),
        ).toEqual([])
      }),
      { numRuns: 300 },
    )
  })
})

const isEmpty = (value: unknown): boolean => typeof value === 'object' && value !== null && Object.keys(value).length === 0
