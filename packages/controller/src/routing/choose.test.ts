import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { choose } from './choose.ts'

const among = (counts: readonly number[], { tried = [], turn = 0 }: { tried?: readonly number[]; turn?: number } = {}) =>
  choose({ candidates: counts.map((_, i) => i), inFlight: (i) => counts[i] ?? 0, isLeftOut: (i) => tried.includes(i), turn })

describe('#9968 every request is routed across the replicas', () => {
  it.each<[string, readonly number[], { tried?: readonly number[]; turn?: number }, number | null]>([
    ['nothing to choose from', [], {}, null],
    ['the only one', [7], {}, 0],
    ['the one with the fewest requests', [3, 1, 2], {}, 1],
    ['never one that was tried', [3, 1, 2], { tried: [1] }, 2],
    ['none when all were tried', [3, 1], { tried: [0, 1] }, null],
    ['equals take turns: the first', [1, 1, 1], { turn: 0 }, 0],
    ['equals take turns: the second', [1, 1, 1], { turn: 1 }, 1],
    ['equals take turns: over the end', [1, 5, 1], { turn: 2 }, 2],
    ['equals take turns: past one that has more', [1, 5, 1], { turn: 1 }, 2],
  ])('%s', (_, counts, more, want) => {
    expect(among(counts, more)).toBe(want)
  })

  it('takes one with the fewest of those that are left, whatever the turn', () => {
    fc.assert(
      fc.property(fc.array(fc.nat(5), { maxLength: 8 }), fc.array(fc.nat(7)), fc.nat(), (counts, tried, turn) => {
        const left = counts.filter((_, i) => !tried.includes(i))
        const chosen = among(counts, { tried, turn })
        if (left.length === 0) return chosen === null
        return chosen !== null && !tried.includes(chosen) && counts[chosen] === Math.min(...left)
      }),
    )
  })

  it('spreads requests that stay evenly: no two counts differ by more than one', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 8 }), fc.integer({ min: 1, max: 200 }), (replicas, requests) => {
        const counts = Array.from({ length: replicas }, () => 0)
        for (let turn = 0; turn < requests; turn += 1) {
          const chosen = among(counts, { turn })
          if (chosen !== null) counts[chosen] = (counts[chosen] ?? 0) + 1
        }
        return Math.max(...counts) - Math.min(...counts) <= 1
      }),
    )
  })

  it('spreads requests that end at once evenly too', () => {
    const served = [0, 0, 0]
    for (let turn = 0; turn < 300; turn += 1) {
      const chosen = among([0, 0, 0], { turn }) ?? 0
      served[chosen] = (served[chosen] ?? 0) + 1
    }
    expect(served).toEqual([100, 100, 100])
  })
})
