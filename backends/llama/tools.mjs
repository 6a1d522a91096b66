// OpenAI's tools: offered in the words of the model's own template when it may choose, and by a grammar when it must call.
import { randomUUID } from 'node:crypto'
import { invalid } from './api-error.mjs'
import { isObject } from './fields.mjs'
import { grammarForSchema } from './json-output.mjs'
import { engineSchema } from './json-schema.mjs'

/** `{}` without tools; `{ functions }` when the model may call; `{ forced }` when it must. */
export function toolsOf(body) {
  const tools = body.tools ?? []
  if (!Array.isArray(tools) || !tools.every((tool) => tool?.type === 'function' && /^[\w.-]{1,64}$/.test(tool.function?.name ?? '')))
    throw invalid(
      'tools must be a list of functions, each with a name of at most 64 letters, digits, dots, dashes and underscores',
      'tools',
    )
  const choice = body.tool_choice ?? (tools.length === 0 ? 'none' : 'auto')
  const named = isObject(choice) ? choice.function?.name : null
  if (named === undefined || (named === null && !['none', 'auto', 'required'].includes(choice)))
    throw invalid('tool_choice must be none, auto, required or name a function', 'tool_choice')
  const functions = Object.fromEntries(tools.map((tool) => [tool.function.name, functionOf(tool.function)]))
  if (choice === 'none') return {}
  if (named !== null && !Object.hasOwn(functions, named))
    throw invalid(`tool_choice names ${named}, which is not among tools`, 'tool_choice')
  if (tools.length === 0) throw invalid('tool_choice needs tools', 'tool_choice')
  if (choice === 'auto') return { functions }
  return { forced: named === null ? functions : { [named]: functions[named] } }
}

function functionOf({ description, parameters }) {
  const params = parameters === undefined || parameters === null ? undefined : engineSchema({ type: 'object', ...parameters }, 'tools')
  const isEmpty = params === undefined || Object.keys(params.properties ?? {}).length === 0
  return { ...(description === undefined ? {} : { description: String(description) }), ...(isEmpty ? {} : { params }) }
}

/** The engine cannot force a call: a grammar restricts the answer to a call, and the prompt names the function. */
export async function forcedCall(forced, { llama }) {
  const calls = Object.entries(forced).map(([name, { params }]) => ({
    type: 'object',
    properties: { name: { const: name }, arguments: params ?? { type: 'object', properties: {} } },
    required: ['name', 'arguments'],
  }))
  const about = Object.entries(forced).map(([name, { description, params }]) => JSON.stringify({ name, description, parameters: params }))
  const text = `Answer only with a call of one of these functions, as JSON with "name" and "arguments":\n${about.join('\n')}`
  return {
    grammar: await grammarForSchema(llama, calls.length === 1 ? calls[0] : { oneOf: calls }, 'tools'),
    instruction: { type: 'system', text },
  }
}

/** Null when the call was cut short. */
export function parseForced(text) {
  try {
    const { name, arguments: params } = JSON.parse(text)
    return toolCall(name, params)
  } catch {
    return null
  }
}

export const toolCall = (name, params) => ({
  id: `call_${randomUUID().replaceAll('-', '')}`,
  type: 'function',
  function: { name, arguments: JSON.stringify(params ?? {}) },
})
