import { ModelGalleryEntry } from '@muster/protocol'
import { describe, expect, it } from 'vitest'
import { noBase } from './base-file.ts'
import { type EntryChanges, mergeEntry, noChanges, planModel } from './plan-model.pure.ts'

const file = (filename: string, uri = `https://h/${filename}`) => ({ filename, uri })
const entryOf = (fields: object) => ModelGalleryEntry.parse({ name: 'entry', ...fields })
const foreign = (overrides: object, more: object = {}) =>
  entryOf({ localai: { base: 'https://h/base.yaml', config: {}, overrides }, ...more })
const plan = (entry: ModelGalleryEntry, { base = noBase, changes = {} }: { base?: typeof noBase; changes?: Partial<EntryChanges> } = {}) =>
  planModel(mergeEntry(entry, { base, changes: { ...noChanges, ...changes } }), []).config

describe('the plan of a model', () => {
  it('merges base, overrides and request, in this order', () => {
    const base = { config: { backend: 'a', context_size: 1, parameters: { model: 'm.gguf', top_k: 1 } }, files: [] }
    const entry = foreign({ backend: 'b', parameters: { top_k: 2 } })
    const changes = { overrides: { parameters: { top_p: 0.3 } } }
    expect(plan(entry, { base, changes })).toMatchObject({
      name: 'entry',
      backend: 'b',
      context_size: 1,
      parameters: { model: 'm.gguf', top_k: 2, top_p: 0.3 },
    })
  })

  it('uses the configuration of the entry only without a base file', () => {
    const own = { base: null, config: { backend: 'own' }, overrides: {} }
    expect(plan(entryOf({ localai: own }))).toMatchObject({ backend: 'own' })
    const base = { config: { backend: 'base' }, files: [] }
    expect(plan(entryOf({ localai: { ...own, base: 'https://h/b' } }), { base })).toMatchObject({ backend: 'base' })
  })

  it.each<[string, ModelGalleryEntry, Partial<EntryChanges>, string]>([
    ['of the entry', foreign({ backend: 'b' }), {}, 'entry'],
    ['of its overrides', foreign({ backend: 'b', name: 'GLM' }), {}, 'GLM'],
    ['of the request', foreign({ backend: 'b', name: 'GLM' }), { name: 'mine' }, 'mine'],
    ["of the request, for Muster's format", entryOf({ config: { backend: 'b' } }), { name: 'mine' }, 'mine'],
  ])('has the name %s', (_, entry, changes, name) => {
    expect(plan(entry, { changes })).toMatchObject({ name })
  })

  it('has the files of all, the last of each name', () => {
    const base = { config: { backend: 'b' }, files: [file('a', 'https://h/base-a'), file('b')] }
    const entry = foreign({}, { files: [file('a', 'https://h/entry-a'), file('c', 'https://h/entry-c')] })
    const { files } = plan(entry, { base, changes: { files: [file('c', 'https://h/mine')] } })
    expect(files).toEqual([file('a', 'https://h/entry-a'), file('b'), file('c', 'https://h/mine')])
  })

  it("keeps Muster's own format unchanged, with the files of its configuration", () => {
    const entry = entryOf({ config: { backend: 'b', files: [file('a', 'https://h/config')] }, files: [file('a'), file('b')] })
    expect(plan(entry)).toEqual({ name: 'entry', backend: 'b', files: [file('a', 'https://h/config'), file('b')] })
  })

  it('reports artifacts that are not valid', () => {
    expect(mergeEntry(foreign({ artifacts: 'x' }), { base: noBase, changes: noChanges }).problem).toContain('expected a list')
  })
})
