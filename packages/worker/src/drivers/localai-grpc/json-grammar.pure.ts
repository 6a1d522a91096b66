// A grammar (GBNF, of llama.cpp) that admits only JSON of a schema, for `response_format`. A keyword that a grammar cannot express is
// refused by name: an answer that breaks the schema would be worse than none. Objects have the properties of the schema and no others.
import { z } from 'zod'

/** `unsupported`: the keyword, or the reason, for the error message. */
export type JsonGrammar = Readonly<{ grammar: string } | { unsupported: string }>

const deepest = 32
const mostRules = 2_000
const mostRepeats = 1_000

/** White space is bounded: a model could go on with it for ever. */
const baseRules = {
  ws: '[ \\t\\n]{0,16}',
  value: 'object | array | string | number | "true" | "false" | "null"',
  object: '"{" ws ( member ( "," ws member )* )? "}"',
  member: 'string ws ":" ws value ws',
  array: '"[" ws ( value ws ( "," ws value ws )* )? "]"',
  string: '"\\"" char* "\\""',
  char: '[^"\\\\\\x00-\\x1F\\x7F] | "\\\\" ( ["\\\\/bfnrt] | "u" [0-9a-fA-F]{4} )',
  integer: '"-"? ( "0" | [1-9] [0-9]{0,15} )',
  number: 'integer ( "." [0-9]{1,16} )? ( [eE] [-+]? [0-9]{1,3} )?',
} as const
const listRules = (rules: Iterable<readonly [string, string]>): string => [...rules].map(([name, body]) => `${name} ::= ${body}\n`).join('')

/** Any JSON object. */
export const anyJsonObject = `root ::= ws object\n${listRules(Object.entries(baseRules))}`

export function grammarOfSchema(schema: unknown): JsonGrammar {
  const state: State = { root: schema, rules: new Map(), references: new Map() }
  try {
    const root = ruleOf(schema, state, 0)
    return { grammar: `root ::= ws ${root}\n${listRules(state.rules)}${listRules(Object.entries(baseRules))}` }
  } catch (error) {
    if (error instanceof Unsupported) return { unsupported: error.message }
    throw error
  }
}

class Unsupported extends Error {}

type State = Readonly<{ root: unknown; rules: Map<string, string>; references: Map<string, string> }>
const JsonType = z.enum(['string', 'number', 'integer', 'boolean', 'null', 'object', 'array'])
type JsonType = z.infer<typeof JsonType>

const count = z.number().int().min(0).max(mostRepeats)
const Schema = z.looseObject({
  type: z.union([JsonType, z.array(JsonType).min(1)]).optional(),
  enum: z.array(z.json()).min(1).max(1_000).optional(),
  const: z.json().optional(),
  anyOf: z.array(z.unknown()).min(1).max(100).optional(),
  oneOf: z.array(z.unknown()).min(1).max(100).optional(),
  $ref: z.string().max(1_000).optional(),
  properties: z.record(z.string().max(1_000), z.unknown()).optional(),
  required: z.array(z.string().max(1_000)).optional(),
  additionalProperties: z.unknown().optional(),
  items: z.unknown().optional(),
  minItems: count.optional(),
  maxItems: count.optional(),
  minLength: count.optional(),
  maxLength: count.optional(),
})
type Schema = z.infer<typeof Schema>

/** They describe, and restrict nothing. `$defs` and `definitions` are read where a `$ref` names them. */
const annotations = [
  'title',
  'description',
  'default',
  'examples',
  '$schema',
  '$id',
  '$comment',
  '$defs',
  'definitions',
  'deprecated',
  'strict',
]
const known = new Set([...Object.keys(Schema.shape), ...annotations])

/** The name of a rule, or an expression that needs no parentheses. */
function ruleOf(schema: unknown, state: State, depth: number): string {
  if (schema === true || schema === undefined) return 'value'
  if (depth > deepest) throw new Unsupported(`more than ${deepest} levels`)
  const parsed = Schema.safeParse(schema)
  if (!parsed.success) throw new Unsupported(parsed.error.issues[0]?.path.join('.') || 'a schema that is no object')
  const unknown = Object.keys(parsed.data).find((key) => !known.has(key))
  if (unknown !== undefined) throw new Unsupported(unknown.slice(0, 64))
  return expressionOf(parsed.data, state, depth)
}

function expressionOf(schema: Schema, state: State, depth: number): string {
  if (schema.$ref !== undefined) return followReference(schema.$ref, state, depth)
  if ('const' in schema) return literal(schema.const)
  if (schema.enum !== undefined) return addRule(state, schema.enum.map(literal).join(' | '))
  const choices = schema.anyOf ?? schema.oneOf
  if (choices !== undefined) return addRule(state, choices.map((each) => ruleOf(each, state, depth + 1)).join(' | '))
  const types = typesOf(schema)
  if (types.length === 0) return 'value'
  const expressions = types.map((type) => expressionOfType(type, schema, { state, depth }))
  return expressions.length === 1 ? (expressions[0] ?? 'value') : addRule(state, expressions.join(' | '))
}

function typesOf({ type, properties, items }: Schema): readonly JsonType[] {
  if (type !== undefined) return typeof type === 'string' ? [type] : type
  return properties !== undefined ? ['object'] : items !== undefined ? ['array'] : []
}

function expressionOfType(type: JsonType, schema: Schema, { state, depth }: { state: State; depth: number }): string {
  switch (type) {
    case 'boolean':
      return addRule(state, '"true" | "false"')
    case 'null':
      return '"null"'
    case 'string':
      return stringRule(schema, state)
    case 'array':
      return addRule(state, arrayBody(ruleOf(schema.items, state, depth + 1), schema))
    case 'object':
      return objectRule(schema, state, depth)
    case 'number':
    case 'integer':
    default:
      return type
  }
}

function stringRule({ minLength = 0, maxLength }: Schema, state: State): string {
  if (minLength === 0 && maxLength === undefined) return 'string'
  if (maxLength !== undefined && maxLength < minLength) throw new Unsupported('maxLength below minLength')
  return addRule(state, `"\\"" char{${minLength},${maxLength ?? ''}} "\\""`)
}

function arrayBody(item: string, { minItems = 0, maxItems }: Schema): string {
  if (maxItems !== undefined && maxItems < minItems) throw new Unsupported('maxItems below minItems')
  if (maxItems === 0) return '"[" ws "]"'
  const rest = `( "," ws ${item} ws ){${Math.max(0, minItems - 1)},${maxItems === undefined ? '' : maxItems - 1}}`
  return minItems === 0 ? `"[" ws ( ${item} ws ${rest} )? "]"` : `"[" ws ${item} ws ${rest} "]"`
}

function objectRule({ properties, required = [], additionalProperties }: Schema, state: State, depth: number): string {
  const names = [...new Set([...Object.keys(properties ?? {}), ...required])]
  if (names.length === 0) {
    if (properties !== undefined && additionalProperties === false) return addRule(state, '"{" ws "}"')
    const value = additionalProperties === false ? 'value' : ruleOf(additionalProperties, state, depth + 1)
    return value === 'value' ? 'object' : addRule(state, `"{" ws ( ${mapMember(value)} ( "," ws ${mapMember(value)} )* )? "}"`)
  }
  const member = (name: string): string => addRule(state, `${literal(name)} ws ":" ws ${ruleOf(properties?.[name], state, depth + 1)} ws`)
  const [needed, optional] = [names.filter((name) => required.includes(name)), names.filter((name) => !required.includes(name))]
  const first = needed.map(member).join(' "," ws ')
  const rest = optional.map(member)
  if (first !== '') return addRule(state, `"{" ws ${[first, ...rest.map((each) => `( "," ws ${each} )?`)].join(' ')} "}"`)
  return addRule(state, `"{" ws ( ${firstOptional(rest, state)} )? "}"`)
}

const mapMember = (value: string): string => `string ws ":" ws ${value} ws`

/** One of the members, then any of those after it: a comma only between two. */
function firstOptional(members: readonly string[], state: State): string {
  let tail = ''
  const alternatives: string[] = []
  for (const member of members.toReversed()) {
    alternatives.unshift(`${member} ${tail}`.trim())
    tail = addRule(state, `( "," ws ${member} )? ${tail}`.trim())
  }
  return alternatives.join(' | ')
}

/** A schema may refer to itself. */
function followReference(reference: string, state: State, depth: number): string {
  const existing = state.references.get(reference)
  if (existing !== undefined) return existing
  const name = addRule(state, 'value')
  state.references.set(reference, name)
  state.rules.set(name, ruleOf(findReference(reference, state.root), state, depth + 1))
  return name
}

function findReference(reference: string, root: unknown): unknown {
  if (reference === '#') return root
  const [found, area, name = ''] = /^#\/(\$defs|definitions)\/([^/]+)$/.exec(reference) ?? []
  const areas = z.record(z.string(), z.unknown()).safeParse(root).data ?? {}
  const entries = z.record(z.string(), z.unknown()).safeParse(area === undefined ? undefined : areas[area]).data ?? {}
  const key = name.replaceAll('~1', '/').replaceAll('~0', '~')
  if (found === undefined || !Object.hasOwn(entries, key)) throw new Unsupported(`$ref ${reference.slice(0, 100)}`)
  return entries[key]
}

function addRule({ rules }: State, body: string): string {
  if (rules.size >= mostRules) throw new Unsupported(`more than ${mostRules} rules`)
  const name = `r${rules.size}`
  rules.set(name, body)
  return name
}

/** JSON text has no control characters, so only quotes and backslashes need an escape. */
const literal = (value: unknown): string => `"${JSON.stringify(value).replaceAll(/["\\]/g, (sign) => `\\${sign}`)}"`
