import { expect, it } from 'vitest'
import { SampleRing } from './sample-ring.ts'

const ring = (): SampleRing => new SampleRing({ intervalMs: 10, length: 4, width: 2 })
const seen = (of: SampleRing, now = 0): unknown[] => of.read(now).map(({ at, figures }) => [at, ...figures])

it.each([
  ['is empty at first', [], []],
  [
    'keeps one row per interval, the last that was said',
    [
      [0, 1],
      [5, 2],
      [10, 3],
    ],
    [
      [0, 2],
      [10, 3],
    ],
  ],
  [
    'overwrites the oldest',
    [
      [0, 1],
      [10, 2],
      [20, 3],
      [30, 4],
      [40, 5],
    ],
    [
      [10, 2],
      [20, 3],
      [30, 4],
      [40, 5],
    ],
  ],
  [
    'has gaps where nothing was said, also where there was something a round ago',
    [
      [0, 1],
      [10, 2],
      [20, 3],
      [30, 4],
      [60, 7],
    ],
    [
      [30, 4],
      [60, 7],
    ],
  ],
  [
    'forgets everything after a silence that is longer than itself',
    [
      [0, 1],
      [10, 2],
      [200, 3],
    ],
    [[200, 3]],
  ],
  [
    'takes a late row into its place',
    [
      [0, 1],
      [20, 3],
      [10, 2],
    ],
    [
      [0, 1],
      [10, 2],
      [20, 3],
    ],
  ],
  [
    'begins anew when the clock was set back far',
    [
      [1_000, 1],
      [1_010, 2],
      [20, 3],
    ],
    [[20, 3]],
  ],
] as const)('%s', (_, notes, want) => {
  const samples = ring()
  for (const [at, figure] of notes) samples.note(at, [figure, null])
  expect(seen(samples)).toEqual(want.map((row) => [...row, null]))
})

it('shows nothing older than its length, after any time without samples', () => {
  const samples = ring()
  samples.note(0, [1, 1])
  samples.note(30, [4, 4])
  expect(seen(samples, 39)).toEqual([
    [0, 1, 1],
    [30, 4, 4],
  ])
  expect(seen(samples, 40)).toEqual([[30, 4, 4]])
  expect(seen(samples, 70)).toEqual([])
})

it('leaves out a row of which nothing is known', () => {
  const samples = ring()
  samples.note(0, [null, null])
  samples.note(10, [null, 0])
  expect(seen(samples)).toEqual([[10, null, 0]])
})
