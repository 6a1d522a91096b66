import { NodeId, type NodeActionResult } from '@muster/protocol'
import { describe, expect, it } from 'vitest'
import { countOutcomes, splitLabelWords } from './act-on-nodes.ts'

describe('the words of `nodes label`', () => {
  const rows: [string, string[], boolean, { nodes: string[]; labels: string[] }][] = [
    ['are one node', ['gpu-1'], false, { nodes: ['gpu-1'], labels: [] }],
    ['are a node and labels', ['gpu-1', 'a=b', 'c-'], false, { nodes: ['gpu-1'], labels: ['a=b', 'c-'] }],
    ['are nodes and labels', ['gpu-1', 'gpu-2', 'a=b'], false, { nodes: ['gpu-1', 'gpu-2'], labels: ['a=b'] }],
    ['begin with a node, whatever its name', ['a=b', 'c=d'], false, { nodes: ['a=b'], labels: ['c=d'] }],
    ['are labels with a selection', ['a=b', 'c-'], true, { nodes: [], labels: ['a=b', 'c-'] }],
    ['are labels from the first label on', ['gpu-1', 'a=b', 'gpu-2'], false, { nodes: ['gpu-1'], labels: ['a=b', 'gpu-2'] }],
  ]
  it.each(rows)('%s', (_, words, isSelection, wanted) => expect(splitLabelWords(words, isSelection)).toEqual(wanted))
})

describe('the summary of an action on nodes', () => {
  const result = (outcome: NodeActionResult['outcome']): NodeActionResult => ({
    ...{ node_id: NodeId.parse('n'), node_name: 'n', message: '', outcome },
  })
  it('counts the outcomes that occurred', () => {
    expect(countOutcomes([result('done'), result('failed'), result('done')])).toBe('2 done, 1 failed')
    expect(countOutcomes([result('unchanged')])).toBe('0 done, 1 unchanged')
  })
})
