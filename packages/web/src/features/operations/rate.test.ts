import { describe, expect, it } from 'vitest'
import { addSample, msLeft, rateOf, roundEstimate, type Sample } from './operation-words.pure.ts'

const samples = (...pairs: [at: number, bytes: number][]): readonly Sample[] =>
  pairs.reduce<readonly Sample[]>((known, [at, bytes]) => addSample(known, { at, bytes }), [])

describe('a rate', () => {
  it.each<[string, [number, number][], number, number | null]>([
    ['without samples is unknown', [], 5_000, null],
    ['of one sample is unknown', [[0, 100]], 5_000, null],
    [
      'within the first second is unknown',
      [
        [0, 0],
        [900, 900],
      ],
      900,
      null,
    ],
    [
      'is bytes per second',
      [
        [0, 0],
        [1_000, 500],
        [2_000, 1_000],
      ],
      2_000,
      500,
    ],
    [
      'covers the last seconds',
      [
        [0, 0],
        [10_000, 10_000],
        [20_000, 10_800],
        [28_000, 11_600],
      ],
      28_000,
      100,
    ],
    [
      'falls while no bytes arrive',
      [
        [0, 0],
        [1_000, 1_000],
      ],
      4_000,
      250,
    ],
    [
      'is unknown when no bytes arrived for long',
      [
        [0, 0],
        [1_000, 1_000],
      ],
      20_000,
      null,
    ],
    [
      'starts again with a new attempt',
      [
        [0, 0],
        [1_000, 1_000],
        [2_000, 10],
      ],
      2_000,
      null,
    ],
    [
      'accepts a clock that is a little behind',
      [
        [0, 0],
        [2_000, 1_000],
      ],
      1_500,
      500,
    ],
  ])('%s', (_, pairs, now, want) => expect(rateOf(samples(...pairs), now)).toBe(want))

  it('keeps only the samples it needs', () => {
    const many = samples(...Array.from({ length: 1_000 }, (_, n): [number, number] => [n * 250, n]))
    expect(many.length).toBeLessThan(40)
  })
})

describe('the time left', () => {
  it.each<[number, number, number | null, number | null]>([
    [0, 1_000, 100, 10_000],
    [0, 1_000, null, null],
    [0, 1_000, 0, null],
    [0, 0, 100, null],
    [1_000, 1_000, 100, null],
  ])('%d of %d at %s: %s', (current, total, rate, want) => expect(msLeft({ current, total }, rate)).toBe(want))

  it.each([
    [300, 1_000],
    [7_400, 7_000],
    [43_000, 45_000],
    [200_000, 210_000],
    [3_610_000, 3_600_000],
  ])('%d ms is rounded to %d', (ms, want) => expect(roundEstimate(ms)).toBe(want))
})
