import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { boundOf, chooseReplica, mix, type ReplicaChoice } from './replica-choice.pure.ts'

const among = (counts: readonly number[], { tried = [], turn = 0 }: { tried?: readonly number[]; turn?: number } = {}) =>
  chooseReplica({
    ...{ candidates: counts.map((_, i) => i), inFlight: (i: number) => counts[i] ?? 0, isExcluded: (i: number) => tried.includes(i), turn },
    ...{ key: null, markOf: (i: number) => i },
  })?.candidate ?? null

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

  it('takes one with the fewest requests of the candidates, whatever the turn', () => {
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

/** Replicas by number; those not named have no open requests. */
interface Keyed {
  readonly replicas: readonly number[]
  readonly counts?: ReadonlyMap<number, number>
  readonly leftOut?: readonly number[]
}
const byKey = (key: number, { replicas, counts = new Map(), leftOut = [] }: Keyed): ReplicaChoice<number> | null =>
  chooseReplica({
    ...{ candidates: replicas, inFlight: (id: number) => counts.get(id) ?? 0, isExcluded: (id: number) => leftOut.includes(id), turn: 0 },
    ...{ key, markOf: mix },
  })
const orderOf = (key: number, replicas: readonly number[]): number[] => {
  const order: number[] = []
  while (order.length < replicas.length) order.push(byKey(key, { replicas, leftOut: order })?.candidate ?? -1)
  return order
}

describe('a request with a prefix key', () => {
  const replicas = [1, 2, 3, 4]
  const [first = 0, second = 0, third = 0] = orderOf(7, replicas)
  it.each<[string, Keyed, ReplicaChoice<number> | null]>([
    ['no candidates', { replicas: [] }, null],
    ['all are left out', { replicas, leftOut: replicas }, null],
    ['its first choice', { replicas }, { candidate: first, because: 'prefix' }],
    [
      'though others have less',
      {
        replicas,
        counts: new Map([
          [first, 1],
          [second, 1],
          [third, 1],
        ]),
      },
      { candidate: first, because: 'prefix' },
    ],
    ['its second when the first is full', { replicas, counts: new Map([[first, 2]]) }, { candidate: second, because: 'prefix_full' }],
    [
      'its third when two are',
      {
        replicas,
        counts: new Map([
          [first, 3],
          [second, 3],
        ]),
      },
      { candidate: third, because: 'prefix_full' },
    ],
    ['its second when the first is in trouble', { replicas, leftOut: [first] }, { candidate: second, because: 'prefix_absent' }],
    ['the only one, whatever it has', { replicas: [9], counts: new Map([[9, 100]]) }, { candidate: 9, because: 'prefix' }],
  ])('%s', (_, world, want) => {
    expect(byKey(7, world)).toEqual(want)
  })

  const keys = fc.integer({ min: 0, max: 2 ** 32 - 1 })
  const someReplicas = fc.uniqueArray(fc.nat(), { minLength: 1, maxLength: 12 })

  it('W20 goes to the same replica on every controller, in any order of candidates', () => {
    fc.assert(
      fc.property(keys, someReplicas, fc.array(fc.nat(5)), (key, ids, loads) => {
        const counts = new Map(ids.map((id, i) => [id, loads[i] ?? 0]))
        expect(byKey(key, { replicas: ids.toReversed(), counts })).toEqual(byKey(key, { replicas: ids, counts }))
      }),
    )
  })

  it('moves only when its own replica goes, or to one that came', () => {
    fc.assert(
      fc.property(keys, someReplicas, fc.nat(), (key, ids, gone) => {
        const left = ids.filter((_, i) => i !== gone % ids.length)
        const [before, after] = [byKey(key, { replicas: ids }), byKey(key, { replicas: left })]
        if (before !== null && left.includes(before.candidate)) expect(after).toEqual(before)
      }),
    )
  })

  it('aibrix #842 never makes a replica have more than its share and a quarter, when the counts are right', () => {
    const steps = fc.array(fc.record({ key: fc.nat(3), ends: fc.option(fc.nat()) }), { maxLength: 200 })
    fc.assert(
      fc.property(someReplicas, steps, (ids, asked) => {
        const counts = new Map(ids.map((id) => [id, 0]))
        const open: number[] = []
        for (const { key, ends } of asked) {
          const [ended] = ends === null ? [] : open.splice(ends % Math.max(open.length, 1), 1)
          if (ended !== undefined) counts.set(ended, (counts.get(ended) ?? 0) - 1)
          const bound = boundOf(open.length, ids.length)
          const { candidate = -1 } = byKey(mix(key), { replicas: ids, counts }) ?? {}
          counts.set(candidate, (counts.get(candidate) ?? Number.NaN) + 1)
          open.push(candidate)
          expect(counts.get(candidate)).toBeLessThanOrEqual(bound)
        }
      }),
    )
  })

  it('is spread with others like it: of 10,000 conversations each of 8 replicas has its eighth, give or take a tenth', () => {
    const served = new Map<number, number>()
    const all = Array.from({ length: 8 }, (_, i) => i)
    for (let i = 0; i < 10_000; i += 1) {
      const { candidate = -1 } = byKey(mix(i), { replicas: all }) ?? {}
      served.set(candidate, (served.get(candidate) ?? 0) + 1)
    }
    for (const count of served.values()) expect(Math.abs(count - 1_250)).toBeLessThan(125)
    expect(served.size).toBe(8)
  })
})
