import { BackendName, ModelConfig } from '@muster/protocol'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { revisionOf } from './config.ts'

const word = fc.string({ minLength: 1, maxLength: 8 })
const json = fc.dictionary(
  word,
  fc.oneof(word, fc.integer(), fc.boolean(), fc.array(word, { maxLength: 3 }), fc.dictionary(word, fc.integer(), { maxKeys: 3 })),
  { maxKeys: 4, noNullPrototype: true },
)
const files = fc.uniqueArray(
  fc.record({ uri: fc.constantFrom('https://h/a', 'hf://o/r/b'), filename: fc.stringMatching(/^[a-z]{1,6}$/) }),
  { selector: (file) => file.filename, maxLength: 5 },
)
const config = fc
  .record({
    backend: fc.constantFrom('llama', 'echo'),
    parameters: json,
    files,
    options: json,
    contextSize: fc.option(fc.integer({ min: 1, max: 9 }), { nil: undefined }),
  })
  .map(({ contextSize, ...rest }) =>
    ModelConfig.parse({ name: 'm', ...rest, ...(contextSize === undefined ? {} : { context_size: contextSize }) }),
  )

const reversed = <T extends object>(value: T): T => Object.fromEntries(Object.entries(value).toReversed()) as T

it('#11566 depends on the meaning: the order of keys and files, scheduling and descriptions do not change it', () => {
  fc.assert(
    fc.property(config, (given) => {
      const written = {
        ...reversed(given),
        parameters: reversed(given.parameters),
        options: reversed(given.options),
        files: given.files.toReversed().map(reversed),
        description: 'another',
        known_usecases: ['chat'],
        scheduling: { min_replicas: 1 },
      }
      expect(revisionOf(JSON.parse(JSON.stringify(written)) as ModelConfig)).toBe(revisionOf(given))
    }),
  )
})

it('#11566 every part of the meaning changes it', () => {
  const base = ModelConfig.parse({
    name: 'm',
    backend: 'llama',
    parameters: { model: 'f' },
    context_size: 512,
    files: [{ uri: 'https://h/f', filename: 'f' }],
    options: { a: [1, 2] },
  })
  const file = base.files[0]
  if (file === undefined) throw new Error('it has a file')
  const others: ModelConfig[] = [
    { ...base, backend: BackendName.parse('echo') },
    { ...base, parameters: { model: 'f', temperature: 0 } },
    { ...base, context_size: 1024 },
    { ...base, context_size: undefined },
    { ...base, files: [] },
    { ...base, files: [{ ...file, sha256: 'a'.repeat(64) }] },
    { ...base, files: [{ ...file, uri: 'https://h/g' }] },
    { ...base, options: { a: [2, 1] } },
    { ...base, options: { a: ['1', '2'] } },
    { ...base, options: ['a:1', 'a:2'] },
    { ...base, options: ['a:2', 'a:1'] },
    { ...base, template: { chat: '{{.Input}}' } },
    { ...base, roles: { user: 'U:' } },
    { ...base, function: { response_regex: ['x'] } },
  ]
  const revisions = [base, ...others].map(revisionOf)
  expect(new Set(revisions).size).toBe(revisions.length)
  expect(revisions[0]).toMatch(/^sha256-[0-9a-f]{64}$/)
  expect(revisionOf({ ...base, template: {}, roles: {}, function: {} })).toBe(revisions[0])
})

it('configurations of earlier versions keep their revision', () => {
  const full = { parameters: { model: 'f', temperature: 0.2 }, context_size: 512, files: [{ uri: 'https://h/f', filename: 'f' }] }
  const revisions = [{}, { ...full, options: { a: [1, 2] } }].map((more) =>
    revisionOf(ModelConfig.parse({ name: 'm', backend: 'llama', ...more })),
  )
  expect(revisions).toEqual([
    'sha256-2c6624fcd628b3d2cf5fa8189177cc442e8d0be1e861d933c5cde691608f482c',
    'sha256-2413233247069e7710dedb6cef8631f086b34f2ef9203534169646983738186c',
  ])
})
