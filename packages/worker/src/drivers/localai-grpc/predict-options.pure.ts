// The predict options of a LocalAI backend, from OpenAI's requests. Unsupported fields are refused, never dropped silently. Pure.
import type { ChatMessage, PredictOptions } from './messages.ts'
import type { ChatRequest, CompletionRequest, Part, RequestMessage, Sampling } from './openai-request.ts'

export type Rejection = Readonly<{ refused: string; param: string }>

/** LocalAI's own defaults; a zero would mean something else. */
const defaults: PredictOptions = {
  Temperature: 0.9,
  TopP: 0.95,
  TopK: 40,
  TypicalP: 1,
  Penalty: 1,
  Seed: -1,
  MirostatETA: 0.1,
  MirostatTAU: 5,
}

const numbers = {
  temperature: 'Temperature',
  top_p: 'TopP',
  top_k: 'TopK',
  min_p: 'MinP',
  typical_p: 'TypicalP',
  seed: 'Seed',
  frequency_penalty: 'FrequencyPenalty',
  presence_penalty: 'PresencePenalty',
  repeat_penalty: 'Penalty',
  repeat_last_n: 'Repeat',
  mirostat: 'Mirostat',
  mirostat_eta: 'MirostatETA',
  mirostat_tau: 'MirostatTAU',
  ignore_eos: 'IgnoreEOS',
  negative_prompt: 'NegativePrompt',
  grammar: 'Grammar',
} as const satisfies Partial<Record<keyof Sampling, keyof PredictOptions>>

export function chatOptions(request: ChatRequest, parameters: Sampling): PredictOptions | Rejection {
  const wrong = findUnsupported(request)
  if (wrong !== null) return wrong
  if (request.functions !== undefined) return { refused: 'functions are not supported; use tools', param: 'functions' }
  const [images, audios]: [string[], string[]] = [[], []]
  const messages: ChatMessage[] = []
  for (const message of request.messages) {
    const text = textOf(message, { images, audios })
    if (typeof text === 'object') return text
    messages.push({ role: message.role, content: text, ...rest(message) })
  }
  return {
    ...sampling(request, parameters),
    UseTokenizerTemplate: true,
    Messages: messages,
    ...(images.length === 0 ? {} : { Images: images }),
    ...(audios.length === 0 ? {} : { Audios: audios }),
    ...(isEmpty(request.tools) ? {} : { Tools: JSON.stringify(request.tools) }),
    ...(request.tool_choice === undefined || request.tool_choice === null ? {} : { ToolChoice: JSON.stringify(request.tool_choice) }),
    ...(request.logprobs === true ? { Logprobs: 1, TopLogprobs: request.top_logprobs ?? 0 } : {}),
  }
}

export function completionOptions(request: CompletionRequest, parameters: Sampling): PredictOptions | Rejection {
  const wrong = findUnsupported(request)
  if (wrong !== null) return wrong
  if (request.echo === true) return { refused: 'this backend cannot echo the prompt', param: 'echo' }
  if (!isEmpty(request.suffix)) return { refused: 'this backend does not support suffix', param: 'suffix' }
  if ((request.best_of ?? 1) !== 1) return { refused: 'this backend generates one answer; best_of must be 1', param: 'best_of' }
  const { prompt } = request
  const logprobs = (request.logprobs ?? 0) > 0 ? { Logprobs: 1, TopLogprobs: request.logprobs ?? 0 } : {}
  return { ...sampling(request, parameters), Prompt: typeof prompt === 'string' ? prompt : (prompt[0] ?? ''), ...logprobs }
}

/** The maximum number of tokens; 0: no limit. */
export function tokenLimit(request: Sampling, parameters: Sampling): number {
  return request.max_completion_tokens ?? request.max_tokens ?? parameters.max_completion_tokens ?? parameters.max_tokens ?? 0
}

function sampling(request: Sampling & { logit_bias?: Record<string, number> | null | undefined }, parameters: Sampling): PredictOptions {
  const named: Record<string, unknown> = {}
  for (const [from, to] of Object.entries(numbers)) {
    const value = request[from] ?? parameters[from]
    if (value !== undefined && value !== null) named[to] = value
  }
  const stop = request.stop ?? parameters.stop ?? []
  return {
    ...defaults,
    ...named,
    Tokens: tokenLimit(request, parameters),
    StopPrompts: typeof stop === 'string' ? [stop] : stop,
    ...(request.logit_bias === undefined || request.logit_bias === null ? {} : { LogitBias: JSON.stringify(request.logit_bias) }),
  }
}

function findUnsupported(request: Pick<ChatRequest, 'n' | 'response_format'>): Rejection | null {
  if ((request.n ?? 1) !== 1) return { refused: 'this backend generates one answer; n must be 1', param: 'n' }
  const format = request.response_format?.type ?? 'text'
  if (format === 'text') return null
  return {
    refused: `this backend does not support response_format ${format}; use "grammar"`,
    param: 'response_format',
  }
}

type Media = Readonly<{ images: string[]; audios: string[] }>

function textOf({ content }: RequestMessage, media: Media): string | Rejection {
  if (content === null || content === undefined) return ''
  if (typeof content === 'string') return content
  const texts: string[] = []
  for (const part of content) {
    const refused = take(part, { ...media, texts })
    if (refused !== null) return refused
  }
  return texts.join('')
}

function take(part: Part, { images, audios, texts }: Media & { texts: string[] }): Rejection | null {
  if (part.type === 'text') texts.push(part.text ?? '')
  else if (part.type === 'image_url') {
    const url = (typeof part.image_url === 'string' ? part.image_url : part.image_url?.url) ?? ''
    const [, data] = /^data:[^,]{0,200};base64,(.+)$/s.exec(url) ?? []
    if (data === undefined) return { refused: 'an image must be inline, as data:…;base64,…', param: 'messages' }
    images.push(data)
  } else if (part.type === 'input_audio') audios.push(part.input_audio?.data ?? '')
  else
    return {
      refused: `unsupported message part ${JSON.stringify(part.type.slice(0, 64))}; expected text, image_url or input_audio`,
      param: 'messages',
    }
  return null
}

function rest({ name, tool_call_id, reasoning_content, tool_calls }: RequestMessage): Partial<ChatMessage> {
  return {
    ...(isEmpty(name) ? {} : { name: name ?? '' }),
    ...(isEmpty(tool_call_id) ? {} : { tool_call_id: tool_call_id ?? '' }),
    ...(isEmpty(reasoning_content) ? {} : { reasoning_content: reasoning_content ?? '' }),
    ...(isEmpty(tool_calls) ? {} : { tool_calls: JSON.stringify(tool_calls) }),
  }
}

const isEmpty = (value: string | readonly unknown[] | null | undefined): boolean =>
  value === null || value === undefined || value.length === 0
