import { PlacementView } from '@muster/protocol'
import { expect, it } from 'vitest'
import { changeSentence, comparePlacement } from './placement.pure.ts'

const view = (...eligible: string[]): PlacementView =>
  PlacementView.parse({
    nodes: ['c', 'b', 'a'].map((name) => ({
      ...{ node_id: name, node_name: name, eligible: eligible.includes(name), score: 0 },
      reason: eligible.includes(name) ? '' : 'labels',
    })),
  })

it('lists every node in the order of names, with the reason', () => {
  expect(comparePlacement(view('a'), view('b')).map(({ name, change, reason }) => [name, change, reason])).toEqual([
    ['a', 'ceases', 'labels'],
    ['b', 'becomes', ''],
    ['c', 'stays_out', 'labels'],
  ])
})

it.each([
  [view('a'), view('a'), 'The same nodes are eligible.'],
  [view(), view(), 'No eligible nodes, as before.'],
  [view('a'), view('a', 'b', 'c'), 'b and c become eligible.'],
  [view('a', 'b'), view('b'), 'a is no longer eligible.'],
  [view('a', 'b'), view(), 'a and b are no longer eligible; no eligible nodes remain.'],
  [view('a'), view('b'), 'b becomes eligible; a is no longer eligible.'],
])('summarizes the change %#', (now, then, sentence) => expect(changeSentence(comparePlacement(now, then))).toBe(sentence))
