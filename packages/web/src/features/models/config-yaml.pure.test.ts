import { ModelConfig } from '@muster/protocol'
import { expect, it } from 'vitest'
import { toYaml } from './config-yaml.pure.ts'

const yaml = (more: object): string => toYaml(ModelConfig.parse({ name: 'tiny', backend: 'llama', ...more }))
const options = (value: unknown): string => yaml({ options: { o: value } }).split('options:\n')[1] ?? ''

it('writes readable YAML without default values', () => {
  expect(
    yaml({
      name: 'org/tiny:q4@2',
      context_size: 512,
      known_usecases: ['chat', 'embeddings'],
      parameters: { model: 'tiny.gguf', temperature: 0.2 },
      files: [{ uri: 'https://h/tiny.gguf', filename: 'tiny.gguf' }],
      scheduling: { node_selector: { 'gpu.vendor': ['nvidia', 'amd'] }, min_replicas: 1 },
    }),
  ).toBe(`name: "org/tiny:q4@2"
backend: llama
parameters:
  model: tiny.gguf
  temperature: 0.2
context_size: 512
files:
  - uri: "https://h/tiny.gguf"
    filename: tiny.gguf
known_usecases: [chat, embeddings]
scheduling:
  node_selector:
    gpu.vendor: [nvidia, amd]
  min_replicas: 1
`)
})

it('writes templates as blocks, and options as the list that they are', () => {
  expect(yaml({ options: ['a:1', 'b'], template: { chat: '{{.Input}}\nx' }, roles: { user: 'U:' } })).toBe(`name: tiny
backend: llama
options: ["a:1", b]
template:
  chat: |-
    {{.Input}}
    x
roles:
  user: "U:"
`)
})

it.each([
  ['a word', 'plain.text', '  o: plain.text\n'],
  ['a word that YAML reads as a boolean', 'yes', '  o: "yes"\n'],
  ['a number as text', '0755', '  o: "0755"\n'],
  ['an empty text', '', '  o: ""\n'],
  ['a comment', 'a # b', '  o: "a # b"\n'],
  ['a mapping as text', 'a: b', '  o: "a: b"\n'],
  ['a star', '*', '  o: "*"\n'],
  ['control characters', 'a\u0085\u2028b\t', '  o: "a\\u0085\\u2028b\\t"\n'],
  ['several lines', 'one: 1\n\n  two # 2', '  o: |-\n    one: 1\n\n      two # 2\n'],
  ['lines with trailing whitespace', 'a \nb\n', '  o: "a \\nb\\n"\n'],
  ['values', [1, -0.5, 1e21, true, null], '  o: [1, -0.5, 1e+21, true, null]\n'],
  ['empty values', { a: {}, b: [], c: [[]] }, '  o:\n    a: {}\n    b: []\n    c:\n      - []\n'],
  ['lists of lists and mappings', [[1], { a: [{ b: 1 }] }], '  o:\n    - [1]\n    - a:\n        - b: 1\n'],
])('preserves %s', (_, value, text) => expect(options(value)).toBe(text))

it('breaks a long list, and writes a long key explicitly', () => {
  const long = 'x'.repeat(60)
  expect(options([long, long])).toBe(`  o:\n    - ${long}\n    - ${long}\n`)
  expect(options({ ['k'.repeat(1_100)]: [{ a: 1 }] })).toBe(`  o:\n    ? ${'k'.repeat(1_100)}\n    :\n      - a: 1\n`)
})
