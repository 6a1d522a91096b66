import { FleetError, ModelName } from '@muster/protocol'
import { describe, expect, it } from 'vitest'
import { type ConfigFormat, InvalidConfig, parseConfig } from './config.ts'

const name = ModelName.parse('tiny')
const parse = (text: string, format: ConfigFormat = 'yaml') => parseConfig(text, { name, format }).config

function refused(text: string, format: ConfigFormat = 'yaml'): { message: string; problem?: object } {
  try {
    parse(text, format)
  } catch (error) {
    if (error instanceof InvalidConfig) return { message: error.message, problem: error.problem }
    if (error instanceof FleetError && error.failure.code === 'invalid') return { message: error.message }
    throw error
  }
  throw new Error('it was taken')
}

it('YAML and JSON give the same result', () => {
  const yaml = `
name: tiny
backend: llama
parameters: { model: tiny.gguf, temperature: 0.2 }
context_size: 512
files: [{ uri: "https://h/tiny.gguf", filename: tiny.gguf }]
scheduling: { node_selector: { gpu.vendor: nvidia }, min_replicas: 1, max_replicas: 4, policy: prefix }
`
  const json = JSON.stringify({
    name,
    backend: 'llama',
    parameters: { model: 'tiny.gguf', temperature: 0.2 },
    context_size: 512,
    files: [{ uri: 'https://h/tiny.gguf', filename: 'tiny.gguf' }],
    scheduling: { node_selector: { 'gpu.vendor': 'nvidia' }, min_replicas: 1, max_replicas: 4, policy: 'prefix' },
  })
  expect(parse(yaml)).toEqual(parse(json, 'json'))
})

it('omitted fields have their defaults, and the name is that of the path', () => {
  expect(parse('backend: llama')).toEqual({
    ...{ name, backend: 'llama', parameters: {}, files: [], options: {}, known_usecases: [], scheduling: {} },
  })
})

it('an alias is replaced by its value', () => {
  expect(parse('backend: llama\noptions: { a: &x [1, 2], b: *x }').options).toEqual({ a: [1, 2], b: [1, 2] })
})

it('merge keys add the keys of a mapping, and own keys win', () => {
  const merged = 'backend: llama\nparameters: &p { a: 1, b: 2 }\noptions: { <<: [{ c: 3, a: 0 }, *p], b: 5 }'
  expect(parse(merged).options).toEqual({ a: 0, b: 5, c: 3 })
})

it('JSON with tabs at the beginning of lines is JSON', () => {
  expect(parse('{\n\t"backend":\t"llama",\n\t"options": {\n\t\t"a": 1\n\t}\n}', 'json').options).toEqual({ a: 1 })
})

describe('is refused', () => {
  it.each<[string, string, string, object]>([
    [
      'an unknown key',
      'backend: llama\ncontext_sise: 512',
      'line 2: unknown key "context_sise"; the closest known key is context_size',
      { key: 'context_sise', line: 2, closest: 'context_size' },
    ],
    [
      'an unknown key of a template',
      'backend: b\ntemplate:\n  chats: x',
      'line 3: unknown key "template.chats"; the closest known key is chat',
      { key: 'chats', line: 3, closest: 'chat' },
    ],
    ['options of another form', 'backend: b\noptions: 5', 'line 2: options: options are a mapping', { line: 2 }],
    ['a context of nothing', 'backend: b\ncontext_size: 0', 'line 2: context_size: a context has at least one token', { line: 2 }],
    [
      'one inside a list',
      'backend: llama\nfiles:\n  - uri: https://h/f\n    filename: f\n    sha265: ab',
      'line 5: unknown key "files.0.sha265"; the closest known key is sha256',
      { key: 'sha265', line: 5, closest: 'sha256' },
    ],
    [
      'one of the scheduling',
      'backend: llama\nscheduling:\n  min_replica: 1',
      'line 3: unknown key "scheduling.min_replica"; the closest known key is min_replicas',
      { line: 3, closest: 'min_replicas' },
    ],
    ['a value of another type', 'backend: llama\n\ncontext_size: many', 'line 3: context_size: ', { key: 'context_size', line: 3 }],
    ['a value out of range', 'backend: llama\ncontext_size: 0', 'line 2: context_size: ', { line: 2 }],
    ['another name than that of the path', 'backend: llama\nname: other', 'line 2: name: ', { key: 'name', line: 2 }],
    ['no backend', 'context_size: 1', 'backend: ', { key: 'backend', line: null }],
    [
      'two files at one place',
      'backend: b\nfiles:\n- { uri: "https://h/a", filename: f }\n- { uri: "https://h/b", filename: f }',
      'line 4: files.1.filename: two files',
      { line: 4 },
    ],
    [
      'a file where another needs a folder',
      'backend: b\nfiles:\n- { uri: "https://h/a", filename: f/g }\n- { uri: "https://h/b", filename: f }',
      'line 4: ',
      { line: 4 },
    ],
    [
      'a file outside of its folder',
      'backend: b\nfiles: [{ uri: "https://h/a", filename: ../f }]',
      'line 2: files.0.filename: ',
      { line: 2 },
    ],
    ['a file from nowhere', 'backend: b\nfiles: [{ uri: "gopher://h/a", filename: f }]', 'line 2: files.0.uri: ', { line: 2 }],
    [
      'all nodes and a minimum',
      'backend: b\nscheduling: { replicas: all, min_replicas: 1 }',
      'line 2: scheduling: replicas: all excludes',
      { line: 2 },
    ],
    [
      'a minimum above the maximum',
      'backend: b\nscheduling: { min_replicas: 2, max_replicas: 1 }',
      'line 2: scheduling: min_replicas is greater',
      { line: 2 },
    ],
    ['a list', '- backend: b', 'a model configuration is a mapping', {}],
    ['nothing', '', 'a model configuration is a mapping', {}],
  ])('%s', (_, text, message, problem) => {
    const given = refused(text)
    expect(given.message).toContain(message)
    expect(given.problem).toMatchObject(problem)
  })

  it.each<[string, string, string]>([
    ['a duplicate key', 'backend: a\noptions: {}\nbackend: b', 'line 3: duplicate key "backend"'],
    ['one deeper down', 'backend: a\noptions:\n  x: 1\n  x: 2', 'line 4: duplicate key "x"'],
    ['what is no YAML', 'backend: [', 'line 1'],
    ['a number that JSON does not have', 'backend: b\noptions: { x: .inf }', 'line 2: Infinity'],
    ['text that the database cannot store', 'backend: b\noptions: { x: "a\\0b" }', 'line 2: text must not contain NUL'],
    ['a merge of a text', 'backend: b\noptions: { <<: x }', 'line 2: a merge key (<<) takes a mapping'],
    ['a list as a key', 'backend: b\noptions: { [a]: b }', 'line 2: keys must be plain strings'],
    ['an alias of nothing', 'backend: *b', '*b'],
    ['what contains itself', 'backend: b\noptions: &o { x: *o }', 'nested'],
    ['a tag of a language', 'backend: b\noptions: !!js/function "x"', 'line 2'],
    ['what is too deep', `backend: b\noptions: ${'['.repeat(60)}${']'.repeat(60)}`, 'nested deeper'],
    ['what is far too deep', `backend: b\noptions: ${'['.repeat(20_000)}${']'.repeat(20_000)}`, 'nested'],
    ['what is too long', `backend: b\ndescription: ${'x'.repeat(1_100_000)}`, 'characters'],
  ])('%s', (_, text, message) => {
    expect(refused(text).message).toContain(message)
  })

  it('a page that stands for billions of values, at once', () => {
    const bomb = [
      'a: &a0 [x, x, x, x, x, x, x, x, x]',
      ...Array.from({ length: 12 }, (_, i) => `b${i}: &a${i + 1} [${`*a${i},`.repeat(9)}]`),
    ]
    expect(refused(bomb.join('\n')).message).toContain('values')
  })

  it('JSON with an unknown key, with its line', () => {
    expect(refused('{\n "backend": "llama",\n "parametres": {}\n}', 'json').problem).toEqual({
      key: 'parametres',
      line: 3,
      closest: 'parameters',
    })
    expect(refused('{ "backend": "a", "backend": "b" }', 'json').message).toContain('duplicate key')
    expect(refused('{ backend: llama }', 'json').message).toContain('not JSON')
  })

  it('JSON without lines, and text that the database cannot store', () => {
    const tabs = (options: string): string => `{\n\t"backend": "b",\n\t"options": {\n\t\t"x": ${options}\n\t}\n}`
    expect(refused(tabs('"a\\u0000b"'), 'json').message).toContain('NUL')
    expect(refused(tabs('"\\ud800"'), 'json').message).toContain('lone surrogates')
    expect(refused(tabs(`${'['.repeat(5_000)}${']'.repeat(5_000)}`), 'json').message).toContain('nested')
  })
})

describe('a LocalAI configuration', () => {
  const convert = (text: string, isLocalAi = false) => parseConfig(text, { name, format: 'yaml', isLocalAi })

  it('is converted by a key that only LocalAI has, and its unknown keys are reported', () => {
    const { config, keys } = convert('backend: whisper\nthreads: 2\nstopwords: [x]\ncontext_sise: 1')
    expect(config).toMatchObject({ name, backend: 'whisper', parameters: { threads: 2, stop: ['x'] } })
    expect(keys).toMatchObject([
      { key: 'name', outcome: 'mapped' },
      { key: 'backend', outcome: 'mapped' },
      { key: 'threads', outcome: 'carried', to: 'parameters.threads' },
      { key: 'stopwords', outcome: 'mapped', to: 'parameters.stop' },
      { key: 'context_sise', outcome: 'no_effect' },
    ])
  })

  it('without such a key is one of Muster, unless the caller says otherwise', () => {
    const text = 'backend: llama\nparameters: { model: f.gguf }'
    expect(convert(text)).toMatchObject({ config: { backend: 'llama', parameters: { model: 'f.gguf' } }, keys: null })
    expect(convert(text, true).config).toMatchObject({ backend: 'llama-cpp', options: ['cache_reuse:256', 'use_jinja:true'] })
  })

  it('is converted once: the result is a configuration of Muster', () => {
    const { config } = convert('backend: llama\nf16: true\npinned: true\ntemplate: { chat: "{{.Input}}" }')
    expect(parse(JSON.stringify(config), 'json')).toEqual(config)
  })

  it.each<[string, string, string, object]>([
    ['a refused key', 'backend: b\nthreads: 1\nalias: x', 'line 3: alias: The model stands for another one', { key: 'alias', line: 3 }],
    [
      'several refused keys',
      'threads: x\nbackend: pattern',
      'line 1: threads: LocalAI expects a whole number',
      { key: 'threads', line: 1 },
    ],
    ['no backend', 'f16: true', 'backend: The file names no backend', { key: 'backend', line: null }],
    ['a nested key', 'backend: b\ntemplate:\n  use_tokenizer_template: maybe\nf16: true', 'line 3: template.use', { line: 3 }],
    [
      'a value beyond a limit, at the line of its own key',
      'backend: b\nf16: true\nstopwords: [a]\ncontext_size: 99999999',
      'line 4: context_size',
      { line: 4 },
    ],
    [
      'a clash of files, at the line of the key that names them',
      'backend: b\nf16: true\ndownload_files:\n- { uri: "https://h/a", filename: f }\n- { uri: "https://h/b", filename: f }',
      'line 3: files.1.filename: two files have the name "f"',
      { line: 3 },
    ],
    ['another name', 'backend: b\nf16: true\nname: other', 'line 3: name: the name "other" differs', { line: 3 }],
    ['a backend with two meanings', 'files: []\nf16: true\nbackend: llama', 'line 3: backend: the file has keys of LocalAI', { line: 3 }],
  ])('is refused for %s', (_, text, message, problem) => {
    const given = refused(text)
    expect(given.message).toContain(message)
    expect(given.problem).toMatchObject(problem)
  })

  it('names all refused keys, and has the whole report', () => {
    const error = invalidOf(() => convert('threads: x\nbackend: pattern'))
    expect(error.message).toContain('(also refused: backend)')
    expect(error.keys?.map(({ outcome }) => outcome)).toEqual(['mapped', 'refused', 'refused'])
  })
})

function invalidOf(run: () => unknown): InvalidConfig {
  try {
    run()
  } catch (error) {
    if (error instanceof InvalidConfig) return error
  }
  throw new Error('it was taken')
}
