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

it('names every node in the order of names, with why not', () => {
  expect(comparePlacement(view('a'), view('b')).map(({ name, change, reason }) => [name, change, reason])).toEqual([
    ['a', 'ceases', 'labels'],
    ['b', 'becomes', ''],
    ['c', 'stays_out', 'labels'],
  ])
})

it.each([
  [view('a'), view('a'), 'The same nodes are eligible as now.'],
  [view(), view(), 'No node is eligible, as now.'],
  [view('a'), view('a', 'b', 'c'), 'b and c become eligible.'],
  [view('a', 'b'), view('b'), 'a no longer is.'],
  [view('a', 'b'), view(), 'a and b no longer are: no node would be left.'],
  [view('a'), view('b'), 'b becomes eligible; a no longer is.'],
])('says it in a sentence %#', (now, then, sentence) => expect(changeSentence(comparePlacement(now, then))).toBe(sentence))
