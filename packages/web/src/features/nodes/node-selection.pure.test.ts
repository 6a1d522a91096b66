import { NodeId, type NodeActionResult } from '@muster/protocol'
import { describe, expect, it } from 'vitest'
import { describeResults, isBulkAction, pickNodes, sortResults, togglePick } from './node-selection.pure.ts'

const shown = ['a', 'b', 'c'].map((id) => ({ id: NodeId.parse(id) }))

describe('the selected nodes', () => {
  const rows: [string, string | undefined, string[]][] = [
    ['are none without the parameter', undefined, []],
    ['are all that are shown', 'all', ['a', 'b', 'c']],
    ['are the named ones', 'c.a', ['a', 'c']],
    ['do not include nodes that are not shown', 'a.zz', ['a']],
  ]
  it.each(rows)('%s', (_, picked, wanted) => expect(pickNodes(picked, shown).map(({ id }) => id)).toEqual(wanted))
})

describe('a click on the checkbox of a node', () => {
  const rows: [string, string | undefined, string | undefined][] = [
    ['selects it', undefined, 'b'],
    ['adds it', 'a', 'a.b'],
    ['removes it', 'a.b', 'a'],
    ['removes the last one', 'b', undefined],
    ['removes it from all', 'all', 'a.c'],
    ['selects all with the last one', 'a.c', 'all'],
    ['forgets nodes that are not shown', 'zz', 'b'],
  ]
  it.each(rows)('%s', (_, picked, wanted) => expect(togglePick(picked, 'b', 'a.b.c')).toBe(wanted))
})

describe('the results', () => {
  const result = (outcome: NodeActionResult['outcome']): NodeActionResult => ({
    ...{ node_id: NodeId.parse('a'), node_name: 'a', outcome, message: '' },
  })
  it('show failures first, and are counted', () => {
    const results = [result('done'), result('unchanged'), result('failed'), result('done')]
    expect(sortResults(results).map(({ outcome }) => outcome)).toEqual(['failed', 'done', 'done', 'unchanged'])
    expect(describeResults(results)).toBe('1 failed, 2 done, 1 unchanged.')
    expect(describeResults([])).toBe('Nothing done.')
  })
  it('are of known actions', () => {
    expect(['drain', 'reboot', undefined].map(isBulkAction)).toEqual([true, false, false])
  })
})
