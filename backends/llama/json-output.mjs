// response_format → a grammar that leaves the model no other choice.
import { ApiError, invalid } from './api-error.mjs'
import { isObject } from './fields.mjs'
import { engineSchema } from './json-schema.mjs'

export async function grammarOf(body, { llama }) {
  const format = body.response_format ?? undefined
  if (format === undefined || format?.type === 'text') return null
  if (format?.type === 'json_object') return await llama.getGrammarFor('json')
  if (format?.type !== 'json_schema') throw invalid('response_format.type must be text, json_object or json_schema', 'response_format')
  const schema = format.json_schema?.schema
  if (!isObject(schema)) throw invalid('response_format.json_schema.schema must be a JSON schema', 'response_format')
  return await grammarForSchema(llama, engineSchema(schema, 'response_format'), 'response_format')
}

/** The grammar of a schema in the engine's own terms. */
export async function grammarForSchema(llama, schema, param) {
  try {
    return await llama.createGrammarForJsonSchema(schema)
  } catch (error) {
    throw new ApiError(400, `${param} has a schema that cannot be converted to a grammar: ${error.message}`, { param })
  }
}
