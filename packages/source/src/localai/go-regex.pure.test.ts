import fc from 'fast-check'
import { FleetError } from '@muster/protocol'
import { expect, it } from 'vitest'
import { compileGoRegex } from './go-regex.pure.ts'

const groupsOf = (source: string, text: string) =>
  compileGoRegex(source)
    .findAll(text)
    .map(({ groups }) => groups)

it.each<[string, string, (string | null)[][]]>([
  [
    String.raw`<function=(?P<name>\w+)>(?P<arguments>.*)</function>`,
    'a <function=f>{"x":1}</function>',
    [['<function=f>{"x":1}</function>', 'f', '{"x":1}']],
  ],
  [
    '(?s)<t>(.*?)</t>',
    '<t>a\n</t><t>b</t>',
    [
      ['<t>a\n</t>', 'a\n'],
      ['<t>b</t>', 'b'],
    ],
  ],
  ['<t>(.*)', '<t>a\nb', [['<t>a', 'a']]],
  [String.raw`(?s)\[TOOL\_CALLS\](.*)`, '[TOOL_CALLS] [{\n', [['[TOOL_CALLS] [{\n', ' [{\n']]],
  ['(a|ab)(c|bcd)?', 'abcd', [['abcd', 'a', 'bcd']]],
  ['a{2,3}', 'aaaaa', [['aaa'], ['aa']]],
  ['a+?', 'aa', [['a'], ['a']]],
  ['(?i)ab(?-i:C)', 'AbC abc', [['AbC']]],
  ['(?m)^x$', 'x\nx', [['x'], ['x']]],
  [String.raw`\bfoo\b`, 'foo food foo', [['foo'], ['foo']]],
  [String.raw`[^\]}\x41-C-]+`, 'ABCz]}-y', [['z'], ['y']]],
  ['[]a]', ']a', [[']'], ['a']]],
  ['x*', 'axb', [[''], ['x'], ['']]],
  ['(a)|(b)', 'b', [['b', null, 'b']]],
])('%s finds all in %j', (source, text, want) => expect(groupsOf(source, text)).toEqual(want))

it.each<[string, string, string, string]>([
  [String.raw`(?s)^[^{\[]*`, '', 'say {"a":1}', '{"a":1}'],
  [String.raw`(?s)[^}\]]*$`, '', '{"a":1} done', '{"a":1}'],
  ["'([^']*?)'", '_Q_${1}_Q_', "{'a': 'b'}", '{_Q_a_Q_: _Q_b_Q_}'],
  ['(?P<x>a)(b)', '$2${x}$1x$$', 'ab', 'ba$'],
])('%s is replaced by %j', (source, value, text, want) => expect(compileGoRegex(source).replaceAll(text, value)).toBe(want))

it.each([
  ['(?=a)', '(?='],
  ['(a', 'not closed'],
  ['a)', 'unexpected )'],
  ['[a', 'not closed'],
  [String.raw`\p{L}`, String.raw`\p`],
  ['[[:alpha:]]', '[:alpha:]'],
  ['*a', 'repetition of nothing'],
  ['a**', 'repetition of a repetition'],
  ['(a{1000}){1000}', 'too large'],
  ['(?P<n>a)(?P<n>b)', 'two groups'],
  ['a'.repeat(5_000), 'more than 4096'],
])('%s is refused', (source, message) => {
  expect(() => compileGoRegex(source)).toThrow(FleetError)
  expect(() => compileGoRegex(source)).toThrow(message)
})

it('an expression that takes exponential time elsewhere is linear here', () => {
  expect(groupsOf('(a+)+$', `${'a'.repeat(50_000)}b`)).toEqual([])
  expect(groupsOf('(?s)(.*)*x', 'a'.repeat(20_000))).toEqual([])
})

it('an expression that would be quadratic ends with its budget', () => {
  expect(() => compileGoRegex('(b.*c|b)').findAll('b'.repeat(200_000))).toThrow('takes too long')
})

const atom = fc.constantFrom('a', 'b', '.', '[ab]', '[^a]', '(a|b)', '(ab)', '(?:b)', String.raw`\w`, '(a*)b')
const repeated = fc.tuple(atom, fc.constantFrom('', '', '*', '+', '?', '*?', '+?', '{1,2}')).map((pair) => pair.join(''))
const expression = fc.array(fc.oneof(repeated, fc.constant('|')), { minLength: 1, maxLength: 5 }).map((parts) => parts.join(''))

it('finds what the engine of JavaScript finds', () => {
  fc.assert(
    fc.property(
      expression,
      fc.array(fc.constantFrom('a', 'b', 'c', '\n'), { maxLength: 8 }).map((letters) => letters.join('')),
      (source, text) => {
        const wanted = [...text.matchAll(new RegExp(source, 'g'))].map((match) => [match.index, match[0].length])
        const found = compileGoRegex(source)
          .findAll(text)
          .map(({ index, end }) => [index, end - index])
        // Go drops an empty match right after a match; JavaScript keeps it.
        const kept = wanted.filter(
          ([index, length], at) => length !== 0 || at === 0 || wanted[at - 1]?.[0] !== (index ?? 0) - (wanted[at - 1]?.[1] ?? 0),
        )
        expect(found).toEqual(kept)
      },
    ),
    { numRuns: 1_000 },
  )
})
