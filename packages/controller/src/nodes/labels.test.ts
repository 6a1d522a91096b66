import { describe, expect, it } from 'vitest'
import { checkOverrides, effectiveLabels, patchLabels, replaceLabels, type LabelSources } from './labels.ts'

const node = (changes: Partial<LabelSources> = {}): LabelSources => ({
  name: 'gpu-1',
  os: 'linux',
  arch: 'x64',
  resources: { gpu_vendor: 'nvidia', total_vram: 80 * 2 ** 30 },
  reportedLabels: { rack: 'a', zone: 'eu' },
  labelOverrides: {},
  ...changes,
})
const automatic = { 'gpu.vendor': 'nvidia', 'gpu.vram': '80GB', 'node.arch': 'x64', 'node.name': 'gpu-1', 'node.os': 'linux' }

describe('labels', () => {
  it('are labels of Muster, over labels of an administrator, over labels of the worker', () => {
    const labels = effectiveLabels(
      node({ reportedLabels: { rack: 'a', 'node.os': 'lie' }, labelOverrides: { rack: 'b', 'node.name': 'lie' } }),
    )
    expect(labels).toEqual({ ...automatic, rack: 'b' })
  })
  it('contain no GPU labels without a GPU', () => {
    expect(Object.keys(effectiveLabels(node({ resources: { gpu_vendor: null, total_vram: null }, reportedLabels: {} })))).toEqual([
      'node.arch',
      'node.name',
      'node.os',
    ])
  })
  it('can be replaced as a whole, also those that the worker brings', () => {
    const labelOverrides = replaceLabels(node(), { team: 'x' })
    expect(effectiveLabels(node({ labelOverrides }))).toEqual({ ...automatic, team: 'x' })
  })
  it('can be changed one by one; null takes away, and leaves no trace where there was nothing', () => {
    const labelOverrides = patchLabels(node({ labelOverrides: { team: 'x' } }), { team: null, rack: null, zone: 'us' })
    expect(labelOverrides).toEqual({ rack: null, zone: 'us' })
    expect(effectiveLabels(node({ labelOverrides }))).toEqual({ ...automatic, zone: 'us' })
  })
  it('are at most 128, and only those that would be too many are refused', () => {
    const overrides = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, i) => [`l${i}`, 'x']))
    expect(checkOverrides(node(), overrides(128 - 7))).toEqual({ outcome: 'ok', overrides: overrides(128 - 7) })
    expect(checkOverrides(node(), overrides(128 - 6))).toMatchObject({
      outcome: 'too_many',
      message: expect.stringContaining('129 labels'),
    })
  })
  it('may have names that every object has', () => {
    const labelOverrides = replaceLabels(node({ reportedLabels: { constructor: 'x', toString: 'y' } }), {})
    expect(labelOverrides).toEqual({ constructor: null, toString: null })
    expect(patchLabels(node(), { constructor: null })).toEqual({})
  })
})
