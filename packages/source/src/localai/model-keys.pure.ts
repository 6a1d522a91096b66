// Every key of a LocalAI model configuration, with its fate in a Muster configuration. The conversion and the table in
// docs/localai-models.md are both made from these rows. Pure.
import type { ValueType } from './go-values.pure.ts'

export type KeyOutcome = 'mapped' | 'carried' | 'no_effect' | 'refused'

export interface ModelKey {
  /** Dotted path. `x.*` stands for every key below x that has no row. */
  readonly key: string
  readonly type: ValueType
  readonly outcome: KeyOutcome
  /** The key of Muster; null for no_effect and refused. */
  readonly to: string | null
  readonly message: string
}

const mapped = (key: string, type: ValueType, to: string, message: string): ModelKey => ({ key, type, outcome: 'mapped', to, message })
const carried = (key: string, type: ValueType, message: string, to = `parameters.${key.replace(/^.*\./, '')}`): ModelKey => ({
  key,
  type,
  outcome: 'carried',
  to,
  message,
})
const unused = (key: string, message: string): ModelKey => ({ key, type: 'any', outcome: 'no_effect', to: null, message })
const refused = (key: string, type: ValueType, message: string): ModelKey => ({ key, type, outcome: 'refused', to: null, message })

const identity: readonly ModelKey[] = [
  mapped('name', 'name', 'name', 'The name of the model, in Unicode normal form NFC.'),
  refused('alias', 'text', 'The model stands for another one: give that model this name, or add a second model with the same files.'),
  mapped('backend', 'backend', 'backend', 'The backend, by its name in the galleries.'),
  mapped('description', 'line', 'description', 'Shown in lists; line breaks become spaces.'),
  unused('usage', 'Muster shows no usage text.'),
  mapped('known_usecases', 'usecases', 'known_usecases', 'FLAG_CHAT is written chat; unknown words are kept.'),
  carried('known_input_modalities', 'texts', 'Listed with the capabilities of the model.'),
  carried('known_output_modalities', 'texts', 'Listed with the capabilities of the model.'),
  mapped('disabled', 'bool', 'scheduling.disabled', 'The model runs nowhere, and requests for it are refused until it is enabled.'),
  mapped('pinned', 'bool', 'scheduling', 'One replica always runs (min_replicas: 1), with a higher priority than other models.'),
  unused('concurrency_groups', 'Memory decides which models run beside each other on a node.'),
  unused('limits.max_concurrent', 'Requests are spread over the replicas, not limited per model.'),
  unused('limits.retry_after_seconds', 'Requests are spread over the replicas, not limited per model.'),
]

const loading: readonly ModelKey[] = [
  carried('threads', 'count', 'Threads of the backend.'),
  mapped('context_size', 'context', 'context_size', 'The context in tokens; -1 is the length that the model was trained with.'),
  carried('f16', 'bool', 'Sent when the model is loaded.'),
  carried('cuda', 'bool', 'Sent when the model is loaded.'),
  carried('low_vram', 'bool', 'Sent when the model is loaded.'),
  carried('numa', 'bool', 'Sent when the model is loaded.'),
  carried('mmap', 'bool', 'Sent when the model is loaded.'),
  carried('mmlock', 'bool', 'Sent as MLock when the model is loaded.'),
  carried('gpu_layers', 'int', 'Sent as NGPULayers when the model is loaded.'),
  carried('main_gpu', 'text', 'Sent when the model is loaded.'),
  carried('tensor_split', 'text', 'Sent when the model is loaded.'),
  mapped('embeddings', 'bool', 'parameters.embeddings', 'Decides alone whether the backend makes embeddings; known_usecases do not.'),
  carried('reranking', 'bool', 'Sent when the model is loaded.'),
  mapped('mmproj', 'file', 'parameters.mmproj', 'A file of the model; the backend gets its full path.'),
  mapped('draft_model', 'file', 'parameters.draft_model', 'A file of the model; the backend gets its full path.'),
  carried('n_draft', 'int', 'Sent with each request.'),
  carried('lora_adapter', 'file', 'A file of the model.'),
  carried('lora_base', 'file', 'A file of the model.'),
  carried('lora_scale', 'float', 'Sent when the model is loaded.'),
  carried('lora_adapters', 'files', 'Files of the model.'),
  carried('lora_scales', 'floats', 'Sent when the model is loaded.'),
  carried('flash_attention', 'text', 'on, off or auto.'),
  carried('cache_type_k', 'text', 'Sent when the model is loaded.'),
  carried('cache_type_v', 'text', 'Sent when the model is loaded.'),
  carried('no_kv_offloading', 'bool', 'Sent when the model is loaded.'),
  carried('rope_scaling', 'text', 'Sent when the model is loaded.'),
  carried('yarn_ext_factor', 'float', 'Sent when the model is loaded.'),
  carried('yarn_attn_factor', 'float', 'Sent when the model is loaded.'),
  carried('yarn_beta_fast', 'float', 'Sent when the model is loaded.'),
  carried('yarn_beta_slow', 'float', 'Sent when the model is loaded.'),
  carried('rms_norm_eps', 'float', 'Sent when the model is loaded.'),
  carried('ngqa', 'int', 'Sent when the model is loaded.'),
  carried('no_mulmatq', 'bool', 'Sent when the model is loaded.'),
  carried('quantization', 'text', 'Sent when the model is loaded.'),
  carried('load_format', 'text', 'Sent when the model is loaded.'),
  carried('gpu_memory_utilization', 'float', 'Sent when the model is loaded.'),
  carried('trust_remote_code', 'bool', 'With true the backend runs code of the model repository on the worker: check that you trust it.'),
  carried('enforce_eager', 'bool', 'Sent when the model is loaded.'),
  carried('swap_space', 'int', 'Sent when the model is loaded.'),
  carried('max_model_len', 'count', 'Sent when the model is loaded.'),
  carried('tensor_parallel_size', 'count', 'Sent when the model is loaded.'),
  carried('dtype', 'text', 'Sent when the model is loaded.'),
  carried('disable_log_stats', 'bool', 'Sent as DisableLogStatus when the model is loaded.'),
  carried('limit_mm_per_prompt.image', 'count', 'Sent when the model is loaded.', 'parameters.limit_image_per_prompt'),
  carried('limit_mm_per_prompt.video', 'count', 'Sent when the model is loaded.', 'parameters.limit_video_per_prompt'),
  carried('limit_mm_per_prompt.audio', 'count', 'Sent when the model is loaded.', 'parameters.limit_audio_per_prompt'),
  carried('engine_args', 'json', 'Sent as JSON text when the model is loaded.'),
  carried('overrides', 'texts', 'Overrides of GGUF metadata, sent when the model is loaded.'),
  carried('type', 'text', 'Sent when the model is loaded.'),
  mapped('options', 'options', 'options', 'A list of texts, sent to the backend unchanged and in this order.'),
  mapped('artifacts', 'artifacts', 'files', 'The files of a Hugging Face repository; "muster models install" lists them.'),
  mapped('download_files', 'downloads', 'files', 'Files of the model; an empty sha256 is left out.'),
]

const media: readonly ModelKey[] = [
  mapped('step', 'count', 'parameters.step', 'The steps of an image request that names none.'),
  carried('cfg_scale', 'float', 'Sent when the model is loaded.'),
  carried('diffusers.pipeline_type', 'text', 'Sent when the model is loaded.'),
  carried('diffusers.scheduler_type', 'text', 'Sent when the model is loaded.'),
  carried('diffusers.cuda', 'bool', 'The same as cuda at the top level; either is enough.'),
  carried('diffusers.img2img', 'bool', 'Sent when the model is loaded.'),
  carried('diffusers.clip_skip', 'int', 'Sent when the model is loaded, and with image requests.'),
  carried('diffusers.clip_model', 'text', 'Sent when the model is loaded.'),
  carried('diffusers.clip_subfolder', 'text', 'Sent when the model is loaded.'),
  carried('diffusers.control_net', 'text', 'Sent when the model is loaded.'),
  carried('diffusers.enable_parameters', 'text', 'Sent with image requests.'),
  mapped('tts.voice', 'text', 'parameters.voice', 'The voice of a speech request that names none.'),
  carried('tts.audio_path', 'file', 'A file of the model.'),
  unused('tts.voice_cloning', 'LocalAI uses it in its list of models alone.'),
]

const requests: readonly ModelKey[] = [
  carried('prompt_cache_all', 'bool', 'Sent with each request; true is the default.'),
  unused('prompt_cache_ro', 'Backends keep their prompt cache in memory.'),
  unused('prompt_cache_path', 'Backends keep their prompt cache in memory.'),
  mapped('mirostat', 'int', 'parameters.mirostat', 'A default for requests.'),
  mapped('mirostat_eta', 'float', 'parameters.mirostat_eta', 'A default for requests.'),
  mapped('mirostat_tau', 'float', 'parameters.mirostat_tau', 'A default for requests.'),
  mapped('grammar', 'text', 'parameters.grammar', 'A default for requests.'),
  mapped('stopwords', 'texts', 'parameters.stop', 'Added to the stop words of each request.'),
  carried('system_prompt', 'system', 'For templates that print .SystemPrompt.'),
  unused('cutstrings', 'Answers reach clients as the backend wrote them: nothing is cut out of them.'),
  unused('extract_regex', 'Answers reach clients as the backend wrote them: nothing is cut out of them.'),
  unused('trimspace', 'Answers reach clients as the backend wrote them: nothing is cut out of them.'),
  unused('trimsuffix', 'Answers reach clients as the backend wrote them: nothing is cut out of them.'),
  mapped('roles', 'texts by name', 'roles', 'The names of roles in the prompt.'),
  carried('reasoning.disable', 'negation', 'Sent with each request as enable_thinking, reversed.', 'parameters.enable_thinking'),
  unused('reasoning.disable_reasoning_tag_prefill', 'The backend separates thoughts from text.'),
  unused('reasoning.strip_reasoning_only', 'The backend separates thoughts from text.'),
  unused('reasoning.thinking_start_tokens', 'The backend separates thoughts from text.'),
  unused('reasoning.tag_pairs', 'The backend separates thoughts from text.'),
  carried('reasoning_effort', 'text', 'Sent with each request.'),
  carried('chat_template_kwargs', 'map', 'Sent with each request.'),
  ...['temperature', 'top_p', 'top_k', 'min_p', 'repeat_penalty', 'presence_penalty'].map((key) =>
    unused(key, `LocalAI reads it under parameters alone; write parameters.${key}.`),
  ),
]

const ownTemplate = 'The backend uses the template of the model itself.'
const delegated = 'Without effect where the backend uses the template of the model.'
const noGrammar = 'Muster makes no grammar out of tools.'

const templates: readonly ModelKey[] = [
  mapped('template.chat', 'template', 'template.chat', `A Go template for the prompt. ${delegated}`),
  mapped('template.chat_message', 'template', 'template.chat_message', `A Go template for one message. ${delegated}`),
  mapped('template.function', 'template', 'template.function', `A Go template for the prompt of a request with tools. ${delegated}`),
  mapped('template.completion', 'template', 'template.completion', 'A Go template for the prompt of completions.'),
  mapped('template.edit', 'template', 'template.edit', 'A Go template for the prompt of edits.'),
  mapped('template.multimodal', 'template', 'template.multimodal', `A Go template for a message with media. ${delegated}`),
  mapped(
    'template.join_chat_messages_by_character',
    'separator',
    'template.join_chat_messages_by_character',
    'The text between messages; a line break without it.',
  ),
  mapped('template.use_tokenizer_template', 'bool', 'template.use_tokenizer_template', ownTemplate),
  mapped('template.reply_prefix', 'text', 'template.reply_prefix', 'Put before the answer.'),
]

const functions: readonly ModelKey[] = [
  unused('function.grammar.disable', noGrammar),
  unused('function.disable_no_action', noGrammar),
  unused('function.no_action_function_name', noGrammar),
  unused('function.no_action_description_name', noGrammar),
  mapped('function.response_regex', 'texts', 'function.response_regex', `Reads tool calls out of text. ${delegated}`),
  mapped('function.json_regex_match', 'texts', 'function.json_regex_match', `Reads tool calls out of text. ${delegated}`),
  mapped('function.argument_regex', 'texts', 'function.argument_regex', `Reads arguments out of text. ${delegated}`),
  mapped('function.argument_regex_key_name', 'text', 'function.argument_regex_key_name', `The group of the name. ${delegated}`),
  mapped('function.argument_regex_value_name', 'text', 'function.argument_regex_value_name', `The group of the value. ${delegated}`),
  mapped('function.replace_function_results', 'replacements', 'function.replace_function_results', `Edits tool calls. ${delegated}`),
  mapped('function.replace_llm_results', 'replacements', 'function.replace_llm_results', `Edits the answer first. ${delegated}`),
  mapped('function.capture_llm_results', 'texts', 'function.capture_llm_results', `Finds the text beside tool calls. ${delegated}`),
  unused('function.automatic_tool_parsing_fallback', 'Tool calls are read when a request has tools.'),
  carried('function.grammar.triggers', 'triggers', 'Sent as GrammarTriggers when the model is loaded.', 'function.grammar.triggers'),
  ...[
    ...['parallel_calls', 'mixed_mode', 'no_mixed_free_string', 'disable_parallel_new_lines', 'expect_strings_after_json'],
    ...['properties_order', 'prefix', 'schema_type', 'function_arguments_key'],
  ].map((key) => unused(`function.grammar.${key}`, noGrammar)),
  ...['function_name_key', 'function_arguments_key', 'xml_format_preset', 'xml_format', 'disable_peg_parser'].map((key) =>
    unused(`function.${key}`, 'Muster reads tool calls by the regular expressions of function alone.'),
  ),
  unused('function.return_name_in_function_response', 'LocalAI ignores it too.'),
]

const request = 'A default for requests.'
const onLoad = 'Sent when the model is loaded.'
const parameter = (key: string, type: ValueType, message: string): ModelKey =>
  mapped(`parameters.${key}`, type, `parameters.${key}`, message)

const parameters: readonly ModelKey[] = [
  parameter('model', 'file', 'The file to load, or the name of a repository that the backend knows.'),
  parameter('temperature', 'float', request),
  parameter('top_p', 'float', request),
  parameter('top_k', 'int', request),
  parameter('min_p', 'float', request),
  parameter('typical_p', 'float', request),
  parameter('tfz', 'float', request),
  parameter('max_tokens', 'int', request),
  parameter('seed', 'int', request),
  parameter('repeat_penalty', 'amount', request),
  parameter('repeat_last_n', 'int', request),
  parameter('n_keep', 'int', request),
  parameter('frequency_penalty', 'amount', request),
  parameter('presence_penalty', 'amount', request),
  parameter('ignore_eos', 'bool', request),
  parameter('logit_bias', 'map', request),
  parameter('negative_prompt', 'text', request),
  parameter('negative_prompt_scale', 'amount', request),
  parameter('rope_freq_base', 'float', onLoad),
  parameter('rope_freq_scale', 'float', onLoad),
  parameter('batch', 'count', onLoad),
  parameter('n', 'count', request),
  parameter('echo', 'bool', request),
  parameter('logprobs', 'any', request),
  parameter('top_logprobs', 'int', request),
  parameter('clip_skip', 'int', request),
  parameter('tokenizer', 'text', onLoad),
  parameter('language', 'text', 'A default for transcription and speech.'),
  parameter('translate', 'bool', 'A default for transcription.'),
  parameter('encoding_format', 'text', request),
  refused(
    'parameters.pooling',
    'pooling',
    'Pooling is left to the backend: leave it out, or set the option of the backend ("pooling:mean").',
  ),
  unused('parameters.pooling_half_life_tokens', 'Pooling is left to the backend.'),
]

const others: readonly ModelKey[] = [
  unused('feature_flags', 'It changes how LocalAI works inside.'),
  unused('debug', 'muster worker --log-level sets the detail of logs.'),
  unused('grpc.attempts', 'Workers wait for a backend as long as it shows signs of life.'),
  unused('grpc.attempts_sleep_time', 'Workers wait for a backend as long as it shows signs of life.'),
  refused('pipeline.*', 'any', 'A pipeline of models is not served here: add the models of its parts.'),
  unused('mcp.remote', 'Clients run tools, not the server.'),
  unused('mcp.stdio', 'Clients run tools, not the server.'),
  unused('agent.*', 'Clients run agents, not the server.'),
  refused(
    'pii.enabled',
    'bool',
    'LocalAI filtered the requests for personal data, and Muster does not: filter before Muster, or leave out pii.',
  ),
  unused('pii.*', 'Muster filters no requests.'),
  unused('pii_detection.*', 'Muster filters no requests.'),
  unused('compression.*', 'Muster filters no requests.'),
  unused('mitm.hosts', 'Muster intercepts no traffic.'),
  refused('router.*', 'any', 'The model routes requests to other models: clients have to name one of those.'),
  refused('proxy.*', 'any', 'Another provider serves the model, not this fleet: clients have to use that provider.'),
]

/** Keys that only Muster has; a LocalAI file may use them as well. */
const own: readonly ModelKey[] = [
  mapped('files', 'own', 'files', 'A key of Muster, taken unchanged.'),
  mapped('scheduling', 'own', 'scheduling', 'A key of Muster, taken unchanged.'),
]

export const localAiModelKeys: readonly ModelKey[] = [
  ...identity,
  ...loading,
  ...media,
  ...requests,
  ...templates,
  ...functions,
  ...parameters,
  ...others,
]

const rows: ReadonlyMap<string, ModelKey> = new Map([...localAiModelKeys, ...own].map((row) => [row.key, row]))

/** Keys whose value is a mapping that is converted key by key. */
const groups: ReadonlySet<string> = new Set(
  [...rows.keys()].filter((key) => !key.endsWith('.*')).flatMap((key) => (key.includes('.') ? [key.replace(/\.[^.]*$/, '')] : [])),
)

export const isGroup = (key: string): boolean => groups.has(key)

/** The row of a key, or of all keys below its parent or itself. */
export const findModelKey = (key: string): ModelKey | undefined =>
  rows.get(key) ?? rows.get(`${key}.*`) ?? rows.get(key.replace(/[^.]*$/, '*'))

/** Parameters of Muster that LocalAI reads elsewhere: `parameters.f16` stands for `f16`. */
const misplaced: ReadonlyMap<string, ModelKey> = new Map(
  localAiModelKeys.flatMap((row) =>
    !row.key.startsWith('parameters.') && (row.to === 'context_size' || row.to?.startsWith('parameters.') === true)
      ? [[`parameters.${row.to.replace(/^parameters\./, '')}`, row] as const]
      : [],
  ),
)

export const findMisplacedKey = (key: string): ModelKey | undefined => (rows.has(key) ? undefined : misplaced.get(key))
