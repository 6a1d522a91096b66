import { FleetError } from '@muster/protocol'
import { expect, it } from 'vitest'
import { parseModelGallery } from './parse-gallery.ts'

it('numbers and booleans keep their types', () => {
  const [tiny] = parseModelGallery(`
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
  ['an entry without a name', '- description: x', 'entry 1: name'],
  ['a key twice', '- name: a\n  name: b', 'duplicate key'],
  [
    'a file that leads out of its folder',
    '- { name: a, files: [{ uri: "https://h/f", filename: ../f }] }',
    'entry 1 (a): files.0.filename',
  ],
  [
    'a file of the machine that reads it',
    '- { name: a, files: [{ uri: "file:///etc/passwd", filename: f }] }',
    'not for a gallery from elsewhere',
  ],
  ['more than fits', Array.from({ length: 10_001 }, (_, index) => `- name: m${index}`).join('\n'), 'at most 10000'],
])('%s is refused, with the place', (_, text, reason) => {
  expect(() => parseModelGallery(text, { name: 'the gallery mine' })).toThrow(FleetError)
  expect(() => parseModelGallery(text, { name: 'the gallery mine' })).toThrow(reason)
})

it('a gallery of this machine may name files of workers', () => {
  expect(parseModelGallery('- { name: a, files: [{ uri: "file:///models/f", filename: f }] }', { origin: 'local' })).toHaveLength(1)
})
