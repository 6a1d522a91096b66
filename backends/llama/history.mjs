// OpenAI's messages → the engine's history, in which calls of tools and their results belong to the model's own answer.
import { invalid } from './api-error.mjs'
import { isObject } from './fields.mjs'

export function historyOf(messages) {
  if (!Array.isArray(messages) || messages.length === 0) throw invalid('messages must be a list with at least one message', 'messages')
  const history = []
  const calls = new Map()
  for (const [at, message] of messages.entries()) addMessage(history, calls, { message, where: `messages[${at}]` })
  // Where the answer goes; after results of tools the answer goes on.
  if (history.at(-1)?.type !== 'model') history.push({ type: 'model', response: [] })
  return history
}

function addMessage(history, calls, { message, where }) {
  if (!isObject(message)) throw invalid(`${where} must be an object`, where)
  switch (message.role) {
    case 'system':
    case 'developer':
      history.push({ type: 'system', text: textOf(message.content, where) })
      return
    case 'user':
      history.push({ type: 'user', text: textOf(message.content, where) })
      return
    case 'assistant':
      addAnswer(history, calls, { message, where })
      return
    case 'tool':
    case 'function': {
      const call = calls.get(message.tool_call_id ?? message.name)
      if (call === undefined) throw invalid(`${where} answers no tool call of a message before it`, where)
      call.result = resultOf(textOf(message.content, where))
      return
    }
    default:
      throw invalid(`${where}.role must be system, developer, user, assistant or tool`, where)
  }
}

function addAnswer(history, calls, { message, where }) {
  const last = history.at(-1)
  const answer = last?.type === 'model' ? last : { type: 'model', response: [] }
  if (answer !== last) history.push(answer)
  const text = textOf(message.content ?? '', where)
  if (text !== '') answer.response.push(text)
  const made = message.tool_calls ?? []
  if (!Array.isArray(made)) throw invalid(`${where}.tool_calls must be a list`, where)
  for (const [at, each] of made.entries()) {
    const { id, function: called } = each ?? {}
    if (typeof called?.name !== 'string') throw invalid(`${where}.tool_calls[${at}] must name a function`, where)
    const call = {
      type: 'functionCall',
      name: called.name,
      params: argumentsOf(called.arguments, where),
      result: '',
      startsNewChunk: at === 0,
    }
    answer.response.push(call)
    calls.set(id ?? called.name, call)
  }
}

/** Content is a text, or a list of parts. This engine cannot read parts that are not text. */
function textOf(content, where) {
  if (typeof content === 'string') return content
  if (!Array.isArray(content)) throw invalid(`${where}.content must be a text or a list of parts`, where)
  return content
    .map((part) => {
      if (part?.type === 'text' && typeof part.text === 'string') return part.text
      throw invalid(`${where}.content has a part that is no text: this model takes text only`, where)
    })
    .join('')
}

function argumentsOf(text, where) {
  if (text === undefined || text === '') return {}
  try {
    return JSON.parse(text)
  } catch {
    throw invalid(`${where} calls a tool with arguments that are not JSON`, where)
  }
}

/** JSON is passed to the model as a value, anything else as text. */
function resultOf(text) {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}
