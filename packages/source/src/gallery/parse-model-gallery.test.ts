import { FleetError } from '@muster/protocol'
import { expect, it } from 'vitest'
import { parseModelGallery } from './parse-gallery.ts'

it('numbers and booleans keep their types', () => {
  const {
    entries: [tiny],
  } = parseModelGallery(`
- name: tiny
  description: small
  tags: [test]
  files: [{ uri: "https://h/f", filename: f }]
  config: { backend: llama, context_size: 512, options: { fast: true, version: "1.10", nothing: null } }
`)
  expect(tiny).toMatchObject({
    ...{ name: 'tiny', description: 'small', license: '', tags: ['test'], files: [{ uri: 'https://h/f', filename: 'f' }] },
    config: { backend: 'llama', context_size: 512, options: { fast: true, version: '1.10', nothing: null } },
  })
})

it.each<[string, string, string]>([
  ['what is no list', 'name: tiny', 'a gallery is a list of models'],
  ['what is no YAML', '- name: [', 'cannot read'],
  ['more than fits', Array.from({ length: 10_001 }, (_, index) => `- name: m${index}`).join('\n'), 'at most 10000'],
])('%s is refused, with the place', (_, text, reason) => {
  expect(() => parseModelGallery(text, { name: 'the gallery mine' })).toThrow(FleetError)
  expect(() => parseModelGallery(text, { name: 'the gallery mine' })).toThrow(reason)
})

it.each<[string, string, string]>([
  ['an entry without a name', '- description: x', 'name'],
  ['a key twice', '- name: a\n  name: b', 'duplicate key'],
  ['a file that leads out of its folder', '- { name: a, files: [{ uri: "https://h/f", filename: ../f }] }', 'files.0.filename'],
  [
    'a file of the machine that reads it',
    '- { name: a, files: [{ uri: "file:///etc/passwd", filename: f }] }',
    'only a gallery on the machine',
  ],
  ['both formats in one entry', '- { name: a, config: { backend: b }, overrides: { backend: b } }', "Muster's format"],
  ['a file without an address', '- { name: a, files: [{ filename: f }], overrides: {} }', 'files.0: a file has a filename and a uri'],
  ['a file of an unknown scheme', '- { name: a, files: [{ filename: f, uri: "gopher://h" }] }', 'unsupported file URI "gopher://h"'],
  ['an archive that nobody unpacks', '- { name: a, files: [{ filename: f.rar, uri: "https://h/f" }] }', 'not unpacked'],
  ['a wrong hash', '- { name: a, files: [{ filename: f, uri: "https://h/f", sha256: abc }] }', '64 lower-case hex digits'],
  ['overrides that are a list', '- { name: a, overrides: [b] }', 'overrides: expected a mapping'],
  ['a config_file that is not YAML', '- { name: a, config_file: "[" }', 'config_file'],
])('%s is left out, with the reason', (_, text, reason) => {
  const { entries, leftOut, leftOutCount } = parseModelGallery(`${text}\n- { name: sound, config: { backend: b } }`)
  expect(entries.map(({ name }) => name)).toEqual(['sound'])
  expect(leftOutCount).toBe(1)
  expect(leftOut[0]?.message).toContain(reason)
})

it('a gallery of this machine may name files of workers', () => {
  const text = '- { name: a, config: {}, files: [{ uri: "file:///models/f", filename: f }] }'
  expect(parseModelGallery(text, { origin: 'local' }).entries).toHaveLength(1)
})

it("reads an entry in LocalAI's format", () => {
  const { entries, leftOut } = parseModelGallery(`
- &base
  name: "voice-tug\u00e3o"
  url: github:owner/repo/gallery/virtual.yaml@master
  description: |
    Two
    lines.
  icon: https://example.com/icon.png
  tags: [tts, 7]
  Base Model: something
  size: 1.5GB
  variants: [{ model: other }]
  overrides: { backend: piper, parameters: { model: m.onnx, temperature: 0 } }
  files:
    - { filename: a.tar.gz, uri: huggingface://owner/repo/a.tar.gz, sha256: "" }
    - { filename: b.gguf, uri: https://huggingface.co/o/r/resolve/main/b.gguf, sha256: ${'A'.repeat(64)} }
- !!merge <<: *base
  name: other
  variants: []
`)
  expect(leftOut.map(({ message }) => message)).toEqual(leftOut.map(() => expect.stringContaining('model name') as string))
  expect(entries.at(-1)).toMatchObject({
    name: 'other',
    tags: ['tts'],
    size_bytes: 1_500_000_000,
    variants: [],
    localai: { base: 'github:owner/repo/gallery/virtual.yaml@master', overrides: { backend: 'piper', parameters: { temperature: 0 } } },
    files: [
      { filename: 'a.tar.gz', uri: 'hf://owner/repo/a.tar.gz', unpack: true },
      { filename: 'b.gguf', uri: 'hf://o/r/b.gguf', sha256: 'a'.repeat(64) },
    ],
  })
  expect(entries.at(-1)?.files[0]).not.toHaveProperty('sha256')
})
