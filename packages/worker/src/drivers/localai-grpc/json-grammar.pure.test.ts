import { describe, expect, it } from 'vitest'
import { anyJsonObject, grammarOfSchema } from './json-grammar.pure.ts'
import { accepts } from '../../../test/gbnf.ts'

const grammarOf = (schema: unknown): string => {
  const made = grammarOfSchema(schema)
  if ('unsupported' in made) throw new Error(made.unsupported)
  return made.grammar
}

describe('the grammar of a schema admits', () => {
  it.each<[string, unknown, unknown[], unknown[]]>([
    ['texts', { type: 'string' }, ['', 'a"\\\n é'], [1, null, {}]],
    ['numbers', { type: 'number' }, [0, -1.5, 1e9, 120], ['1', true]],
    ['whole numbers', { type: 'integer' }, [0, -7, 42], [1.5]],
    ['constants and enumerations', { enum: ['a"b', 2, null] }, ['a"b', 2, null], ['a', 3]],
    ['several types', { type: ['string', 'null'] }, ['x', null], [1]],
    ['alternatives', { anyOf: [{ const: 'a' }, { type: 'boolean' }] }, ['a', true, false], ['b']],
    ['lists', { type: 'array', items: { type: 'integer' }, minItems: 1, maxItems: 2 }, [[1], [1, 2]], [[], [1, 2, 3], ['a']]],
    ['lengths', { type: 'string', minLength: 1, maxLength: 2 }, ['a', 'ab'], ['', 'abc']],
    ['maps', { type: 'object', additionalProperties: { type: 'integer' } }, [{}, { a: 1, b: 2 }], [{ a: 'x' }]],
    ['anything', {}, [1, 'x', [], { a: [null] }], []],
    [
      'required properties, then optional ones',
      {
        type: 'object',
        properties: { a: { type: 'integer' }, b: { type: 'string' }, c: true },
        required: ['a'],
        additionalProperties: false,
      },
      [{ a: 1 }, { a: 1, b: 'x' }, { a: 1, c: null }, { a: 1, b: 'x', c: [] }],
      [{}, { b: 'x' }, { a: 'x' }, { a: 1, d: 1 }],
    ],
    [
      'optional properties only',
      { properties: { a: { type: 'integer' }, b: { type: 'integer' }, c: { type: 'integer' } } },
      [{}, { a: 1 }, { b: 1 }, { c: 1 }, { a: 1, c: 1 }, { a: 1, b: 1, c: 1 }],
      [{ d: 1 }, { b: 1, a: 1 }],
    ],
    [
      'a schema that refers to itself',
      {
        $ref: '#/$defs/node',
        $defs: {
          node: { type: 'object', properties: { next: { anyOf: [{ $ref: '#/$defs/node' }, { type: 'null' }] } }, required: ['next'] },
        },
      },
      [{ next: null }, { next: { next: null } }],
      [{}, { next: 1 }],
    ],
  ])('%s', (_, schema, right, wrong) => {
    const grammar = grammarOf(schema)
    for (const value of right) expect([value, accepts(grammar, JSON.stringify(value))]).toEqual([value, true])
    for (const value of wrong) expect([value, accepts(grammar, JSON.stringify(value))]).toEqual([value, false])
  })
})

it('the grammar of any object admits objects, with white space, and nothing else', () => {
  expect(accepts(anyJsonObject, '{ "a": [1, {"b": "\\u00e9"}],\n "c": null }')).toBe(true)
  expect(accepts(anyJsonObject, '[1]')).toBe(false)
  expect(accepts(anyJsonObject, '{"a":1} more')).toBe(false)
})

it.each<[unknown, string]>([
  [{ type: 'string', pattern: '^a' }, 'pattern'],
  [{ type: 'object', properties: { a: { type: 'integer', minimum: 1 } } }, 'minimum'],
  [{ allOf: [{}] }, 'allOf'],
  [{ $ref: 'https://example.org/x' }, '$ref https://example.org/x'],
  [{ $ref: '#/$defs/none' }, '$ref #/$defs/none'],
  [{ type: 'text' }, 'type'],
  [{ type: 'array', minItems: 5_000 }, 'minItems'],
  [7, 'a schema that is no object'],
])('%j is not supported: %s', (schema, unsupported) => expect(grammarOfSchema(schema)).toEqual({ unsupported }))

it('a schema with too many levels or rules is not supported', () => {
  const nested = (depth: number): object => (depth === 0 ? {} : { type: 'array', items: nested(depth - 1) })
  expect(grammarOfSchema(nested(40))).toEqual({ unsupported: 'more than 32 levels' })
  const properties = Object.fromEntries(Array.from({ length: 3_000 }, (_, at) => [`p${at}`, true]))
  expect(grammarOfSchema({ type: 'object', properties })).toEqual({ unsupported: 'more than 2000 rules' })
})
