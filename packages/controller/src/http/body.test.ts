import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { isTooDeep } from './body.ts'

const tooDeep = (text: string, limit: number): boolean => isTooDeep(Buffer.from(text), limit)

describe('G18 nesting depth of JSON', () => {
  it.each<[string, string, number, boolean]>([
    ['as deep as it may be', '[[[1]]]', 3, false],
    ['one level more', '[[[[1]]]]', 3, true],
    ['lists and objects', '{"a":[{"b":[1]}]}', 3, true],
    ['side by side is not deep', '[[1],[2],[3],{"a":[]}]', 3, false],
    ['brackets in strings do not count', '["[[[[[[", "\\"[[[["]', 2, false],
    ['a quoted backslash ends no string', '["\\\\", [["x"]]]', 3, false],
    ['what never ends', '['.repeat(1_000), 500, true],
    ['nothing', '', 1, false],
  ])('%s', (_, text, limit, want) => expect(tooDeep(text, limit)).toBe(want))

  it('agrees with the depth of any JSON value', () => {
    const depthOf = (value: unknown): number =>
      typeof value === 'object' && value !== null ? 1 + Math.max(0, ...Object.values(value).map(depthOf)) : 0
    fc.assert(
      fc.property(fc.json({ maxDepth: 6 }), fc.integer({ min: 0, max: 6 }), (text, limit) => {
        expect(tooDeep(text, limit)).toBe(depthOf(JSON.parse(text)) > limit)
      }),
    )
  })
})
