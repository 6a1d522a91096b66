// The predict options of a LocalAI backend, from OpenAI's requests. Unsupported fields are refused, never dropped silently. Pure.
import { z } from 'zod'
import type { ChatMessage, PredictOptions } from './messages.ts'
import type { ChatRequest, CompletionRequest, Part, RequestMessage } from './openai-request.ts'
import { formatGrammar, type ModelDefaults, type Rejection, samplingOptions } from './sampling.pure.ts'

/** The chat as a template sees it. */
export type TemplatedChat = Readonly<{
  messages: readonly TemplatedMessage[]
  functions: readonly TemplatedFunction[]
  hasGrammar: boolean
  reasoningEffort: string
  metadata: Readonly<Record<string, string>>
}>
type TemplatedMessage = Readonly<{
  role: string
  text: string
  name: string
  calls: readonly (FunctionCall & Readonly<{ index: number; id: string; type: string }>)[] | FunctionCall | null
  media: Readonly<{ audios: number; images: number; videos: number }>
}>
type FunctionCall = Readonly<{ name: string; arguments: string }>
type TemplatedFunction = Readonly<{ name: string; description: string; parameters: unknown; strict: boolean }>

export type ChatModel = ModelDefaults &
  Readonly<{
    /** Null: the backend applies the template of the model itself. */
    renderChat: ((chat: TemplatedChat) => string) | null
  }>

/** `functionNames`: the tools that the answer may call. */
export type ChatOptions = Readonly<{ options: PredictOptions; functionNames: ReadonlySet<string> }>

export function chatOptions(request: ChatRequest, model: ChatModel): ChatOptions | Rejection {
  const wrong = findUnsupported(request)
  if (wrong !== null) return wrong
  const grammar = formatGrammar(request, model.isLlama)
  if (grammar !== null && typeof grammar === 'object') return grammar
  const media: Media = { images: [], audios: [] }
  const messages: ReadMessage[] = []
  for (const message of request.messages) {
    const read = readMessage(message, media)
    if ('refused' in read) return read
    messages.push(read)
  }
  const { tools, choice } = toolsOf(request)
  const functions = callableFunctions(tools, choice)
  const options: PredictOptions = {
    ...samplingOptions(request, model),
    ...(grammar === null ? {} : { Grammar: grammar }),
    ...(media.images.length === 0 ? {} : { Images: media.images }),
    ...(media.audios.length === 0 ? {} : { Audios: media.audios }),
    ...(tools.length === 0 ? {} : { Tools: JSON.stringify(tools) }),
    ...(choice === undefined || choice === null ? {} : { ToolChoice: JSON.stringify(choice) }),
    ...(request.logprobs === true ? { Logprobs: 1, TopLogprobs: request.top_logprobs ?? 0 } : {}),
  }
  const prompt =
    model.renderChat === null
      ? backendPrompt(messages)
      : { Prompt: model.renderChat(templatedChat(messages, functions, { request, options, model })) }
  return { options: { ...options, ...prompt }, functionNames: new Set(functions.map(({ name }) => name)) }
}

const backendPrompt = (messages: readonly ReadMessage[]): PredictOptions => ({
  UseTokenizerTemplate: true,
  Messages: messages.map(({ message, text }) => ({ role: message.role, content: text, ...rest(message) })),
})

type ChatFacts = Readonly<{ request: ChatRequest; options: PredictOptions; model: ChatModel }>

function templatedChat(
  messages: readonly ReadMessage[],
  functions: readonly TemplatedFunction[],
  { request, options, model }: ChatFacts,
): TemplatedChat {
  return {
    messages: messages.map(({ message, text, media }) => ({
      role: message.role,
      text,
      name: message.name ?? '',
      calls: callsOf(message),
      media,
    })),
    functions,
    hasGrammar: (options.Grammar ?? '') !== '',
    reasoningEffort: request.reasoning_effort ?? model.parameters.reasoning_effort ?? '',
    metadata: options.Metadata ?? {},
  }
}

export function completionOptions(
  request: CompletionRequest,
  model: ModelDefaults & Readonly<{ renderCompletion: ((text: string) => string) | null }>,
): PredictOptions | Rejection {
  const wrong = findUnsupported(request)
  if (wrong !== null) return wrong
  if (request.echo === true) return { refused: 'this backend cannot echo the prompt', param: 'echo' }
  if (!isEmpty(request.suffix)) return { refused: 'this backend does not support suffix', param: 'suffix' }
  if ((request.best_of ?? 1) !== 1) return { refused: 'this backend generates one answer; best_of must be 1', param: 'best_of' }
  const grammar = formatGrammar(request, model.isLlama)
  if (grammar !== null && typeof grammar === 'object') return grammar
  const text = typeof request.prompt === 'string' ? request.prompt : (request.prompt[0] ?? '')
  return {
    ...samplingOptions(request, model),
    ...(grammar === null ? {} : { Grammar: grammar }),
    Prompt: model.renderCompletion === null ? text : model.renderCompletion(text),
    ...((request.logprobs ?? 0) > 0 ? { Logprobs: 1, TopLogprobs: request.logprobs ?? 0 } : {}),
  }
}

const findUnsupported = (request: Pick<ChatRequest, 'n'>): Rejection | null =>
  (request.n ?? 1) === 1 ? null : { refused: 'this backend generates one answer; n must be 1', param: 'n' }

/** `functions` and `function_call` of the older API are tools. */
function toolsOf({ tools, tool_choice: choice, functions, function_call: call }: ChatRequest): {
  tools: readonly unknown[]
  choice: unknown
} {
  if (!isEmpty(tools) || isEmpty(functions)) return { tools: tools ?? [], choice }
  const named = z.looseObject({ name: z.string() }).safeParse(call)
  return {
    tools: (functions ?? []).map((each) => ({ type: 'function', function: each })),
    choice: choice ?? (named.success ? { type: 'function', function: { name: named.data.name } } : call),
  }
}

const Tool = z.looseObject({
  function: z.looseObject({
    name: z.string(),
    description: z.string().nullish(),
    parameters: z.unknown().optional(),
    strict: z.boolean().nullish(),
  }),
})
const ToolChoice = z.looseObject({ function: z.looseObject({ name: z.string() }) })

/** None when the request forbids tools; only the named one when it names one. */
function callableFunctions(tools: readonly unknown[], choice: unknown): TemplatedFunction[] {
  if (choice === 'none') return []
  const wanted = ToolChoice.safeParse(choice).data?.function.name
  return tools.flatMap((tool) => {
    const { data } = Tool.safeParse(tool)
    if (data === undefined || (wanted !== undefined && data.function.name !== wanted)) return []
    const { name, description, parameters, strict } = data.function
    return [{ name, description: description ?? '', parameters: parameters ?? null, strict: strict ?? false }]
  })
}

const Called = z.looseObject({ name: z.string().catch(''), arguments: z.string().catch('') })
const ToolCall = z.looseObject({
  index: z.number().catch(0),
  id: z.string().catch(''),
  type: z.string().catch('function'),
  function: Called.catch({ name: '', arguments: '' }),
})

function callsOf({ tool_calls: calls, function_call: call }: RequestMessage): TemplatedMessage['calls'] {
  if (!isEmpty(calls)) {
    return (calls ?? []).flatMap((each) => {
      const { data } = ToolCall.safeParse(each)
      return data === undefined
        ? []
        : [{ index: data.index, id: data.id, type: data.type, name: data.function.name, arguments: data.function.arguments }]
    })
  }
  const { data } = Called.safeParse(call)
  return data === undefined ? null : { name: data.name, arguments: data.arguments }
}

type Media = Readonly<{ images: string[]; audios: string[] }>
type ReadMessage = Readonly<{ message: RequestMessage; text: string; media: TemplatedMessage['media'] }>

function readMessage(message: RequestMessage, all: Media): ReadMessage | Rejection {
  const media: Media = { images: [], audios: [] }
  const text = textOf(message, media)
  if (typeof text === 'object') return text
  all.images.push(...media.images)
  all.audios.push(...media.audios)
  return { message, text, media: { images: media.images.length, audios: media.audios.length, videos: 0 } }
}

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

function rest({ name, tool_call_id, reasoning_content, tool_calls, function_call }: RequestMessage): Partial<ChatMessage> {
  const calls =
    isEmpty(tool_calls) && Called.safeParse(function_call).success ? [{ type: 'function', function: function_call }] : tool_calls
  return {
    ...(isEmpty(name) ? {} : { name: name ?? '' }),
    ...(isEmpty(tool_call_id) ? {} : { tool_call_id: tool_call_id ?? '' }),
    ...(isEmpty(reasoning_content) ? {} : { reasoning_content: reasoning_content ?? '' }),
    ...(isEmpty(calls) ? {} : { tool_calls: JSON.stringify(calls) }),
  }
}

const isEmpty = (value: string | readonly unknown[] | null | undefined): boolean =>
  value === null || value === undefined || value.length === 0
