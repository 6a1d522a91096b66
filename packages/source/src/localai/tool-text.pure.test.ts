import fc from 'fast-check'
import { expect, it } from 'vitest'
import type { FunctionConfig } from '@muster/protocol'
import { compileToolText, longestToolText, type ToolText } from './tool-text.pure.ts'

const read = (config: FunctionConfig, text: string) => compileToolText(config)(text, new Set(['f', 'g']))
const call = (name: string, args: string) => ({ name, arguments: args })
const mistral: FunctionConfig = {
  json_regex_match: [String.raw`(?s)\[CALLS\](.*)`],
  replace_function_results: [{ key: String.raw`(?s)[^}\]]*$`, value: '' }],
}
const response: FunctionConfig = { response_regex: [String.raw`<function=(?P<name>\w+)>(?P<arguments>.*?)</function>`] }

it.each<[string, FunctionConfig, string, ToolText['calls'], string]>([
  ['named groups', response, 'x <function=f>{"a":1}</function><function=g>{}</function>', [call('f', '{"a":1}'), call('g', '{}')], ''],
  ['named groups without a match', response, 'no call', [], 'no call'],
  [
    'pairs of arguments',
    { ...response, argument_regex: ['(?P<k>[a-z]+)=(?P<v>[^,]*)'], argument_regex_key_name: 'k', argument_regex_value_name: 'v' },
    '<function=f>b=2,a=one two</function>',
    [call('f', '{"a":"one two","b":"2"}')],
    '',
  ],
  ['JSON after a match', mistral, '[CALLS] [{"name":"h","arguments":{"a":1}}] done', [call('h', '{"a":1}')], ''],
  [
    'the first expression that matches',
    { json_regex_match: ['<t>(.*?)</t>', '(.*)'] },
    '<t>{"name":"f","arguments":{}}</t>',
    [call('f', '{}')],
    '',
  ],
  [
    'JSON anywhere',
    {},
    'Sure: {"name": "f", "arguments": {"a": "}"}} and {"name":"g","parameters":{}}',
    [call('f', '{"a":"}"}'), call('g', '{}')],
    '',
  ],
  ['arguments that are text', {}, '{"name":"f","arguments":"{\\"a\\":1}"}', [call('f', '{"a":1}')], ''],
  ['texts with line breaks', {}, '{"name":"f",\n"arguments":{"a":"x\ny"}}', [call('f', String.raw`{"a":"x\ny"}`)], ''],
  [
    'no object that names no tool',
    {},
    'an {"name":"Ann","arguments":{}} {"name":"f"}',
    [],
    'an {"name":"Ann","arguments":{}} {"name":"f"}',
  ],
  ['an object inside broken braces', {}, '{ see {"name":"f","arguments":{}}', [call('f', '{}')], ''],
  [
    'the captured text as content',
    { capture_llm_results: ['(?s)<think>(.*?)</think>'], replace_llm_results: [{ key: '(?s)<think>.*?</think>', value: '' }] },
    '<think>because</think>{"name":"f","arguments":{}}',
    [call('f', '{}')],
    'because',
  ],
  [
    'the cleaned text without calls',
    { replace_llm_results: [{ key: '(?s)<think>.*?</think>', value: '' }] },
    '<think>x</think>yes',
    [],
    'yes',
  ],
])('reads %s', (...[, config, text, calls, content]) => expect(read(config, text)).toEqual({ content, calls }))

it('an expression that is not supported is refused with its key', () => {
  expect(() => compileToolText({ response_regex: ['(?=a)'] })).toThrow(/^function\.response_regex: the regular expression/)
})

it('a long text, or one that takes too long, stays text', () => {
  const long = '{"name":"f","arguments":{}}'.padEnd(longestToolText + 1)
  expect(read({}, long)).toEqual({ content: long, calls: [] })
  const slow = 'b'.repeat(longestToolText)
  expect(read({ replace_llm_results: [{ key: '(b.*c|b)', value: '' }] }, slow)).toEqual({ content: slow, calls: [] })
  expect(read({}, '{'.repeat(longestToolText)).calls).toEqual([])
})

it('a call that is written as JSON is read back, whatever is around it', () => {
  fc.assert(
    fc.property(
      fc.dictionary(fc.string(), fc.jsonValue()),
      fc.string().filter((text) => !/["{}\\]/.test(text)),
      (args, around) => {
        const { calls } = read({}, `${around}${JSON.stringify({ name: 'f', arguments: args })}${around}`)
        expect(calls.map((each) => JSON.parse(each.arguments))).toEqual([JSON.parse(JSON.stringify(args))])
      },
    ),
  )
})
