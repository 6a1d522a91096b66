// Converts a JSON schema to the engine's grammar schema. A schema that no grammar can enforce, or that is too large for the
// engine, is refused: the engine would answer something else, or end the process.
import { invalid } from './api-error.mjs'
import { isObject } from './fields.mjs'

const deepest = 64
const mostParts = 4_000
/** llama.cpp refuses to repeat a part of a grammar more often. */
const mostRepeats = 2_000
const kinds = new Set(['object', 'array', 'string', 'number', 'integer', 'boolean', 'null'])
const formats = new Set(['date-time', 'time', 'date'])
const counts = ['minLength', 'maxLength', 'minProperties', 'maxProperties', 'minItems', 'maxItems']

/** `param`: the field of the request, for the error. */
export function engineSchema(schema, param) {
  const state = { param, parts: 0, refs: new Set(), defined: new Set() }
  const result = convert(schema, state, 0)
  const missing = [...state.refs].find((name) => !state.defined.has(name))
  if (missing !== undefined)
    throw invalid(`${param} has a schema that refers to ${JSON.stringify(missing)}, which is not among its $defs`, param)
  return result
}

function convert(schema, state, depth) {
  const { param } = state
  state.parts += 1
  if (depth > deepest || state.parts > mostParts) throw invalid(`${param} has a schema that is too large`, param)
  if (schema === true) return anything
  if (!isObject(schema)) throw invalid(`${param} has a schema with a part that is no object`, param)
  const inner = (each) => convert(each, state, depth + 1)
  const [only, ...more] = schema.allOf ?? []
  if (isObject(only) && more.length === 0) return inner({ ...schema, allOf: undefined, ...only })
  if ((schema.allOf ?? schema.not) !== undefined)
    throw invalid(`${param} has a schema with allOf or not, which no grammar can hold to`, param)

  const shared = definitionsOf(schema, state, inner)
  const variants = schema.oneOf ?? schema.anyOf ?? eachKind(schema)
  if (variants !== undefined) {
    if (!Array.isArray(variants) || variants.length === 0) throw invalid(`${param} has a schema with a choice among nothing`, param)
    return { ...shared, oneOf: variants.map(inner) }
  }
  if (schema.$ref !== undefined) return { ...shared, $ref: referenceOf(schema.$ref, state) }
  const type = schema.type ?? impliedType(schema)
  if (type === undefined && schema.enum === undefined && schema.const === undefined) return { ...shared, ...anything }
  return { ...shared, ...valueOf({ ...schema, type }, param), ...partsOf(schema, { inner, param }) }
}

/** The engine treats a schema without a type as null. */
const anything = {
  oneOf: [{ type: ['string', 'number', 'boolean', 'null'] }, { type: 'object', additionalProperties: true }, { type: 'array' }],
}

function impliedType({ properties, additionalProperties, required, items, prefixItems }) {
  if ((properties ?? additionalProperties ?? required) !== undefined) return 'object'
  return (items ?? prefixItems) === undefined ? undefined : 'array'
}

/** The engine has them under $defs only. */
function definitionsOf(schema, state, inner) {
  const found = Object.entries({ ...schema.definitions, ...schema.$defs })
  if (found.length === 0) return {}
  for (const [name] of found) state.defined.add(name)
  return { $defs: Object.fromEntries(found.map(([name, value]) => [name, inner(value)])) }
}

function referenceOf(reference, { param, refs }) {
  const [, name] = /^#\/(?:\$defs|definitions)\/([^/]+)$/.exec(reference) ?? []
  if (name === undefined) throw invalid(`${param} has a schema with a $ref that is not of the form #/$defs/NAME`, param)
  refs.add(name)
  return `#/$defs/${name}`
}

function valueOf(schema, param) {
  const { type, enum: values } = schema
  if (type !== undefined && ([type].flat().length === 0 || ![type].flat().every((kind) => kinds.has(kind))))
    throw invalid(`${param} has a schema with the unknown type ${JSON.stringify(type)}`, param)
  if (
    values !== undefined &&
    !(Array.isArray(values) && values.length > 0 && values.every((value) => typeof value !== 'object' || value === null))
  )
    throw invalid(`${param} has a schema with an enum that is no list of plain values`, param)
  for (const key of counts) {
    const count = schema[key] ?? 0
    if (!(Number.isSafeInteger(count) && count >= 0 && count <= mostRepeats))
      throw invalid(`${param} has a schema whose ${key} is not from 0 to ${mostRepeats}`, param)
  }
  const keys = ['type', 'enum', 'const', 'required', 'description', ...counts, ...(formats.has(schema.format) ? ['format'] : [])]
  return Object.fromEntries(keys.filter((key) => schema[key] !== undefined).map((key) => [key, schema[key]]))
}

function partsOf({ properties, additionalProperties: others, items, prefixItems }, { inner, param }) {
  if (properties !== undefined && !isObject(properties)) throw invalid(`${param} has a schema whose properties are no object`, param)
  return {
    ...(isObject(properties)
      ? { properties: Object.fromEntries(Object.entries(properties).map(([name, value]) => [name, inner(value)])) }
      : {}),
    ...(others === undefined ? {} : { additionalProperties: typeof others === 'boolean' ? others : inner(others) }),
    ...(items === undefined ? {} : { items: inner(items) }),
    ...(Array.isArray(prefixItems) ? { prefixItems: prefixItems.map(inner) } : {}),
  }
}

/** `type: ["object", "null"]`: the engine takes lists of plain types only. */
function eachKind({ type, ...rest }) {
  const isPlain = !Array.isArray(type) || type.every((kind) => kind !== 'object' && kind !== 'array')
  return isPlain ? undefined : type.map((kind) => ({ ...rest, type: kind }))
}
