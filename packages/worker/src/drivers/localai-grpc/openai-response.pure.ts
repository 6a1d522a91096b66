// OpenAI's responses from the replies of a LocalAI backend. Pure.
import type { EmbeddingResult, Reply, ToolCallDelta } from './messages.ts'

/** `hasFunctions`: the request used `functions` of the older API, so that its answer has one `function_call` and no `tool_calls`. */
export type Head = Readonly<{ id: string; created: number; model: string; kind: 'chat' | 'completion'; hasFunctions?: boolean }>
export type Usage = Readonly<{ prompt_tokens: number; completion_tokens: number; total_tokens: number }>

/** The addition of one reply of a stream. */
export type ReplyDelta = Readonly<{ content: string; reasoning: string; toolCalls: readonly ToolCallDelta[]; logprobs: unknown }>

/**
 * Reads the replies of one request. A character may be split between two replies. Once a backend sends deltas, they count: the
 * plain message beside them is the same text before it was parsed.
 */
export class ReplyReader {
  readonly #hasFunctions: boolean
  readonly #decoder = new TextDecoder('utf-8', { ignoreBOM: true })
  #hasDeltas = false
  #hasToolCalls = false
  #promptTokens = 0
  #tokens = 0

  constructor({ hasFunctions = false }: Pick<Head, 'hasFunctions'> = {}) {
    this.#hasFunctions = hasFunctions
  }

  read(reply: Reply): ReplyDelta {
    // Some backends count up, others report once at the end.
    this.#promptTokens = Math.max(this.#promptTokens, reply.prompt_tokens)
    this.#tokens = Math.max(this.#tokens, reply.tokens)
    this.#hasDeltas ||= reply.chat_deltas.length > 0
    const toolCalls = reply.chat_deltas.flatMap((delta) => delta.tool_calls)
    this.#hasToolCalls ||= toolCalls.length > 0
    const plain = this.#hasDeltas ? '' : this.#decoder.decode(reply.message, { stream: true })
    return {
      content: plain + reply.chat_deltas.map((delta) => delta.content).join(''),
      reasoning: reply.chat_deltas.map((delta) => delta.reasoning_content).join(''),
      toolCalls,
      logprobs: parse(reply.logprobs),
    }
  }

  /** An unfinished character, as a replacement character. */
  rest(): string {
    return this.#hasDeltas ? '' : this.#decoder.decode()
  }

  /** The backend itself reported tool calls: its text has none. */
  hasToolCalls(): boolean {
    return this.#hasToolCalls
  }

  usage(): Usage {
    return { prompt_tokens: this.#promptTokens, completion_tokens: this.#tokens, total_tokens: this.#promptTokens + this.#tokens }
  }

  /** `calls`: tool calls that were found in the text. */
  finishReason(tokenLimit: number, calls: readonly ToolCallDelta[] = []): 'stop' | 'length' | 'tool_calls' | 'function_call' {
    if (this.#hasToolCalls || calls.length > 0) return this.#hasFunctions ? 'function_call' : 'tool_calls'
    return tokenLimit > 0 && this.#tokens >= tokenLimit ? 'length' : 'stop'
  }
}

/** How the text of an answer becomes an answer. */
export type AnswerForm = Readonly<{
  /** 0: no limit. */
  tokenLimit: number
  /** Stands before the text. */
  prefix: string
  /** Null: the backend reports tool calls as such. */
  readCalls: ((text: string) => Readonly<{ content: string; calls: readonly Readonly<{ name: string; arguments: string }>[] }>) | null
}>

export function wholeAnswer(head: Head, reply: Reply, { tokenLimit, prefix, readCalls }: AnswerForm): object {
  const reader = new ReplyReader(head)
  const delta = reader.read(reply)
  const text = prefix + delta.content + reader.rest()
  const found = readCalls === null || reader.hasToolCalls() ? { content: text, toolCalls: [] } : callsIn(head, readCalls(text))
  const choice = {
    index: 0,
    ...(head.kind === 'chat'
      ? { message: messageOf(head, found.content, { ...delta, toolCalls: [...delta.toolCalls, ...found.toolCalls] }) }
      : { text: found.content }),
    logprobs: delta.logprobs ?? null,
    finish_reason: reader.finishReason(tokenLimit, found.toolCalls),
  }
  return { ...headOf(head, 'whole'), choices: [choice], usage: reader.usage() }
}

/** Tool calls that were found in a text, as a backend would report them. */
export function callsIn(
  { id }: Head,
  { content, calls }: ReturnType<NonNullable<AnswerForm['readCalls']>>,
): { content: string; toolCalls: ToolCallDelta[] } {
  return { content, toolCalls: calls.map((call, index) => ({ index, id: `call_${id}_${index}`, ...call })) }
}

function messageOf({ hasFunctions }: Head, content: string, { reasoning, toolCalls }: ReplyDelta): object {
  const calls = joinCalls(toolCalls)
  return {
    role: 'assistant',
    content: content === '' && calls.length > 0 ? null : content,
    ...(reasoning === '' ? {} : { reasoning_content: reasoning }),
    ...(calls.length === 0 ? {} : hasFunctions === true ? { function_call: calls[0]?.function } : { tool_calls: calls }),
  }
}

/** Tool calls arrive in parts: ID and name once, arguments in pieces. */
function joinCalls(deltas: readonly ToolCallDelta[]): { id: string; type: 'function'; function: { name: string; arguments: string } }[] {
  const calls = new Map<number, { id: string; name: string; args: string }>()
  for (const delta of deltas) {
    const call = calls.get(delta.index) ?? { id: '', name: '', args: '' }
    calls.set(delta.index, { id: call.id || delta.id, name: call.name || delta.name, args: call.args + delta.arguments })
  }
  return [...calls.values()].map(({ id, name, args }) => ({ id, type: 'function', function: { name, arguments: args } }))
}

/** The events of a reply; none for one that ends inside a character. */
export function chunksOf(head: Head, { content, reasoning, toolCalls, logprobs }: ReplyDelta): string[] {
  if (content === '' && reasoning === '' && toolCalls.length === 0) return []
  if (head.kind === 'completion') return content === '' ? [] : [eventOf(head, { text: content, logprobs: logprobs ?? null })]
  const delta = {
    ...(content === '' ? {} : { content }),
    ...(reasoning === '' ? {} : { reasoning_content: reasoning }),
    ...(toolCalls.length === 0 ? {} : head.hasFunctions === true ? functionDelta(toolCalls) : { tool_calls: toolCalls.map(callDelta) }),
  }
  return [eventOf(head, { delta, ...(logprobs === undefined ? {} : { logprobs }) })]
}

export const firstChunk = (head: Head): string => (head.kind === 'chat' ? eventOf(head, { delta: { role: 'assistant', content: '' } }) : '')

export function lastChunks(head: Head, { finishReason, usage }: { finishReason: string; usage: Usage | null }): string {
  const ended = eventOf(head, head.kind === 'chat' ? { delta: {} } : { text: '' }, finishReason)
  const counted = usage === null ? '' : `data: ${JSON.stringify({ ...headOf(head, 'chunk'), choices: [], usage })}\n\n`
  return `${ended}${counted}data: [DONE]\n\n`
}

/** The older API knows one call. */
function functionDelta(toolCalls: readonly ToolCallDelta[]): object {
  const first = toolCalls.find(({ index }) => index === 0)
  return first === undefined ? {} : { function_call: { ...(first.name === '' ? {} : { name: first.name }), arguments: first.arguments } }
}

const callDelta = ({ index, id, name, arguments: args }: ToolCallDelta): object => ({
  index,
  ...(id === '' ? {} : { id, type: 'function' }),
  function: { ...(name === '' ? {} : { name }), arguments: args },
})

const eventOf = (head: Head, what: object, finishReason: string | null = null): string =>
  `data: ${JSON.stringify({ ...headOf(head, 'chunk'), choices: [{ index: 0, ...what, finish_reason: finishReason }] })}\n\n`

const headOf = ({ id, created, model, kind }: Head, part: 'whole' | 'chunk'): object => ({
  id,
  object: kind === 'completion' ? 'text_completion' : part === 'whole' ? 'chat.completion' : 'chat.completion.chunk',
  created,
  model,
})

function parse(bytes: Buffer): unknown {
  if (bytes.length === 0) return undefined
  try {
    return JSON.parse(bytes.toString('utf8'))
  } catch {
    return undefined
  }
}

export function embeddingsAnswer(model: string, results: readonly EmbeddingResult[], format: 'float' | 'base64'): object {
  const data = results.map(({ embeddings }, index) => ({
    object: 'embedding',
    index,
    embedding: format === 'float' ? embeddings : Buffer.from(Float32Array.from(embeddings).buffer).toString('base64'),
  }))
  const count = results.reduce((sum, result) => sum + (result.prompt_tokens || result.tokens), 0)
  return { object: 'list', model, data, usage: { prompt_tokens: count, total_tokens: count } }
}

/** The error envelope of OpenAI. */
export function openAiError(status: number, message: string, param: string | null = null): object {
  const type = status < 500 ? 'invalid_request_error' : status === 501 ? 'not_implemented' : 'server_error'
  return { error: { message, type, param, code: null } }
}
