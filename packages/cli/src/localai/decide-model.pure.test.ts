import { ModelConfig } from '@muster/protocol'
import { describe, expect, it } from 'vitest'
import { decideModel, missingUploads, type ModelDecision, unfinishedConfig } from './decide-model.pure.ts'

const upload = (filename: string) => ({ uri: `upload:sha256:${'a'.repeat(64)}`, filename, sha256: 'a'.repeat(64) })
const remote = { uri: 'https://h/r', filename: 'r' }
const config = (some: object = {}): ModelConfig => ModelConfig.parse({ name: 'm', backend: 'echo', ...some })
const wanted = config({
  files: [upload('a'), remote, upload('b')],
  scheduling: { min_replicas: 1 },
  parameters: { model: 'a', x: [1, { y: 2 }] },
})
const without = (some: object): ModelConfig => ({ ...wanted, ...some })

describe('a model of an import', () => {
  it.each<[string, ModelConfig | null, ModelDecision]>([
    ['that does not exist is created', null, 'create'],
    ['that is the same is left alone', wanted, 'unchanged'],
    ['that was killed before its uploads is finished', without({ files: [remote], scheduling: {} }), 'finish'],
    ['that was killed after one upload is finished, in any order', without({ files: [remote, upload('a')], scheduling: {} }), 'finish'],
    ['that was killed before its scheduling is finished', without({ scheduling: {} }), 'finish'],
    ['whose scheduling was changed is kept', without({ scheduling: { min_replicas: 3 } }), 'keep'],
    ['whose backend was changed is kept', without({ backend: config({ backend: 'other' }).backend }), 'keep'],
    ['whose parameters were changed is kept', without({ parameters: { model: 'a', x: [1, { y: 3 }] } }), 'keep'],
    ['with a file more is kept', without({ files: [...wanted.files, { ...remote, filename: 's' }], scheduling: {} }), 'keep'],
    [
      'with another upload is kept',
      without({ files: [{ ...upload('a'), uri: `upload:sha256:${'b'.repeat(64)}` }], scheduling: {} }),
      'keep',
    ],
  ])('%s', (_, stored, want) => {
    expect(decideModel({ stored, wanted, mayReplace: false })).toBe(want)
    expect(decideModel({ stored, wanted, mayReplace: true })).toBe(want === 'keep' ? 'replace' : want)
  })

  it('has no scheduling and no missing upload while it is unfinished', () => {
    const stored = without({ files: [upload('a')], scheduling: {} })
    expect(missingUploads(stored, wanted)).toEqual([upload('b')])
    expect(unfinishedConfig(stored, wanted)).toEqual(without({ files: [upload('a'), remote], scheduling: {} }))
    expect(missingUploads(null, wanted)).toHaveLength(2)
  })
})
