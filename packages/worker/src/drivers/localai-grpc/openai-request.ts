// The fields that are read of OpenAI's requests. Unknown fields are ignored, as in OpenAI's own servers.
import { z } from 'zod'

const Text = z.string()
const Part = z.looseObject({
  type: z.string(),
  text: z.string().optional(),
  image_url: z.union([z.string(), z.looseObject({ url: z.string() })]).optional(),
  input_audio: z.looseObject({ data: z.string() }).optional(),
})
export type Part = z.infer<typeof Part>

const RequestMessage = z.looseObject({
  role: Text,
  content: z.union([Text, z.array(Part)]).nullish(),
  name: Text.nullish(),
  tool_call_id: Text.nullish(),
  reasoning_content: Text.nullish(),
  tool_calls: z.array(z.unknown()).nullish(),
  /** The older API has it. */
  function_call: z.unknown().optional(),
})
export type RequestMessage = z.infer<typeof RequestMessage>

const number = z.number().nullish()
const int = z.number().int().min(-2_147_483_648).max(2_147_483_647).nullish()

/** As in LocalAI's requests and model files. */
const Thinking = {
  reasoning_effort: Text.max(64).nullish(),
  enable_thinking: z.boolean().nullish(),
  chat_template_kwargs: z.record(z.string(), z.json()).nullish(),
}

/** A model's `parameters` may set the same fields as defaults. */
const Sampling = z.looseObject({
  temperature: number,
  top_p: number,
  top_k: int,
  min_p: number,
  typical_p: number,
  max_tokens: int,
  max_completion_tokens: int,
  seed: int,
  stop: z.union([Text, z.array(Text)]).nullish(),
  frequency_penalty: number,
  presence_penalty: number,
  repeat_penalty: number,
  repeat_last_n: int,
  ignore_eos: z.boolean().nullish(),
  mirostat: int,
  mirostat_eta: number,
  mirostat_tau: number,
  negative_prompt: Text.nullish(),
  negative_prompt_scale: number,
  grammar: Text.nullish(),
  tfz: number,
  n_keep: int,
  n_draft: int,
  batch: int,
  prompt_cache_all: z.boolean().nullish(),
  prompt_cache_ro: z.boolean().nullish(),
  logit_bias: z.record(z.string(), z.number()).nullish(),
  ...Thinking,
})
export type Sampling = z.infer<typeof Sampling>
export { Sampling }

const Generating = Sampling.extend({
  stream: z.boolean().nullish(),
  stream_options: z.looseObject({ include_usage: z.boolean().nullish() }).nullish(),
  n: int,
  response_format: z.looseObject({ type: Text, json_schema: z.looseObject({ schema: z.unknown().optional() }).nullish() }).nullish(),
  /** Texts by name; `enable_thinking` counts here too. */
  metadata: z.record(z.string(), z.unknown()).nullish(),
})

export const ChatRequest = Generating.extend({
  messages: z.array(RequestMessage).min(1),
  tools: z.array(z.unknown()).nullish(),
  tool_choice: z.unknown().optional(),
  /** The older API has it. */
  functions: z.array(z.unknown()).nullish(),
  function_call: z.unknown().optional(),
  logprobs: z.boolean().nullish(),
  top_logprobs: int,
})
export type ChatRequest = z.infer<typeof ChatRequest>

export const CompletionRequest = Generating.extend({
  prompt: z.union([Text, z.array(Text).length(1)]),
  best_of: int,
  echo: z.boolean().nullish(),
  suffix: Text.nullish(),
  logprobs: int,
})
export type CompletionRequest = z.infer<typeof CompletionRequest>

const tokens = z.array(z.number().int()).min(1)
export const EmbeddingsRequest = z.looseObject({
  input: z.union([
    Text,
    tokens,
    z
      .array(z.union([Text, tokens]))
      .min(1)
      .max(2048),
  ]),
  encoding_format: z.enum(['float', 'base64']).nullish(),
  dimensions: int,
})

export const TokenizeRequest = z.union([
  z.looseObject({ content: Text }).transform(({ content }) => content),
  z.looseObject({ prompt: Text }).transform(({ prompt }) => prompt),
])
