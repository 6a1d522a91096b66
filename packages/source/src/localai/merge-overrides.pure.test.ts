import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { mergeOverrides } from './merge-overrides.pure.ts'

describe('mergeOverrides', () => {
  it.each<[string, object, object, object]>([
    ['adds keys', { a: 1 }, { b: 2 }, { a: 1, b: 2 }],
    ['merges mappings at any depth', { a: { b: { c: 1, d: 2 } } }, { a: { b: { c: 3 } } }, { a: { b: { c: 3, d: 2 } } }],
    ['replaces a list by a list', { options: ['a', 'b'] }, { options: ['c'] }, { options: ['c'] }],
    ['replaces a list by an empty one', { options: ['a'] }, { options: [] }, { options: [] }],
    ['replaces by zero', { min_p: 0.1 }, { min_p: 0 }, { min_p: 0 }],
    ['replaces by false', { f16: true }, { f16: false }, { f16: false }],
    ['replaces by an empty text', { a: 'b' }, { a: '' }, { a: '' }],
    ['replaces by null', { a: { b: 1 } }, { a: null }, { a: null }],
    ['replaces a mapping by a scalar', { a: { b: 1 } }, { a: 2 }, { a: 2 }],
    ['replaces a scalar by a mapping', { a: 2 }, { a: { b: 1 } }, { a: { b: 1 } }],
  ])('%s', (_, base, overrides, merged) => {
    expect(mergeOverrides(base as Record<string, unknown>, overrides as Record<string, unknown>)).toEqual(merged)
  })

  const tree = fc.dictionary(fc.constantFrom('a', 'b', 'c'), fc.oneof(fc.integer(), fc.dictionary(fc.constantFrom('a', 'b'), fc.integer())))
  it('is idempotent, and nothing changes its inputs', () => {
    fc.assert(
      fc.property(tree, tree, (base, overrides) => {
        const before = JSON.stringify([base, overrides])
        const merged = mergeOverrides(base, overrides)
        expect(mergeOverrides(merged, overrides)).toEqual(merged)
        expect(JSON.stringify([base, overrides])).toBe(before)
      }),
    )
  })
})
