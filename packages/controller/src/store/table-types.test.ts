import { expect, it } from 'vitest'
import { literalsOf, property } from './table-types.ts'

it.each<[string, string, string[]]>([
  ['a list', "CHECK ((x = ANY (ARRAY['a'::text, 'b'::text])))", ["'a'", "'b'"]],
  ['a list or null', "CHECK (((x IS NULL) OR (x = ANY (ARRAY['a'::text, 'b'::text]))))", ["'a'", "'b'"]],
  ['one value', "CHECK ((x = 'a'::text))", ["'a'"]],
  ['an array of listed values', "CHECK ((x <@ ARRAY['a'::text, 'b'::text]))", ["'a'", "'b'"]],
  ['quotes and commas', "CHECK ((x = ANY (ARRAY['it''s, so'::text, 'b\\c'::text])))", [String.raw`'it\'s, so'`, String.raw`'b\\c'`]],
  ['a pattern', "CHECK ((x ~ '^[a-z]$'::text))", []],
  ['a list of another column', "CHECK ((y = ANY (ARRAY['a'::text])))", []],
  ['a list and something else', "CHECK (((x = ANY (ARRAY['a'::text, 'b'::text])) OR (length(x) > 7)))", []],
])('reads %s', (_, check, want) => {
  expect(literalsOf({ name: 'x', checks: [check] })).toEqual(want)
})

it('breaks a union that is too long for a line as the formatter does', () => {
  const words = Array.from({ length: 9 }, (_, n) => `a_rather_long_state_${n}`)
  const checks = [`CHECK ((x = ANY (ARRAY[${words.map((word) => `'${word}'::text`).join(', ')}])))`]
  const column = { table: 't', name: 'x', type: 'text', nullable: true, checks } as const
  const lines = [...words.map((word) => `    | '${word}'`), '    | null'].join('\n')
  expect(property({ ...column, source: 'given' })).toBe(`x:\n${lines}`)
  expect(property({ ...column, source: 'defaulted' })).toBe(`x: Defaulted<\n${lines}\n  >`)
})
