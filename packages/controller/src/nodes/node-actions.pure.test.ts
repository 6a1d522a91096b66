import { NodeActionRequest, type NodeAction } from '@muster/protocol'
import { describe, expect, it } from 'vitest'
import { type NodeFacts, nodeRecord } from '../../test/node-record.ts'
import { chooseTargets, editLabels, expectOutcome, resultOf } from './node-actions.pure.ts'

const fleet = [
  nodeRecord('a', { reportedLabels: { rack: 'b2' } }),
  nodeRecord('b', { reportedLabels: { rack: 'b2' }, nodeType: 'agent' }),
  nodeRecord('c', { approvedAt: null }),
]
const request = (fields: object): NodeActionRequest => NodeActionRequest.parse({ action: 'drain', ...fields })
const idsOf = (fields: object): string[] => {
  const choice = chooseTargets(fleet, request(fields))
  return choice.kind === 'chosen' ? choice.targets.map(({ id, node }) => (node === null ? `${id}?` : id)) : [choice.code]
}

describe('the nodes of an action', () => {
  const rows: [string, object, string[]][] = [
    ['are the named ones, in their order and each once', { nodes: ['b', 'a', 'b'] }, ['b', 'a']],
    ['include a name that no node has, which fails alone', { nodes: ['a', 'zz'] }, ['a', 'zz?']],
    ['are the selected ones, agents included', { selector: { rack: 'b2' } }, ['a', 'b']],
    ['are selected by automatic labels too', { selector: { 'node.name': ['a', 'c'] } }, ['a', 'c']],
    ['are missing when no node matches', { selector: { rack: 'z' } }, ['no_match']],
    ['are not removed by a selector without a number', { action: 'remove', selector: { rack: 'b2' } }, ['not_confirmed']],
    ['are not removed with another number', { action: 'remove', selector: { rack: 'b2' }, confirm: 3 }, ['not_confirmed']],
    ['are removed with their number', { action: 'remove', selector: { rack: 'b2' }, confirm: 2 }, ['a', 'b']],
    ['are shown by a dry run without a number', { action: 'remove', selector: { rack: 'b2' }, dry_run: true }, ['a', 'b']],
    ['are removed by name without a number', { action: 'remove', nodes: ['a'] }, ['a']],
    ['are counted for any action that has a number', { nodes: ['a'], confirm: 2 }, ['not_confirmed']],
  ]
  it.each(rows)('%s', (_, fields, wanted) => expect(idsOf(fields)).toEqual(wanted))

  it('are refused with a sentence that says what to do', () => {
    expect(chooseTargets(fleet, request({ action: 'remove', selector: { rack: 'b2' } }))).toMatchObject({
      message: 'the selector matches 2 nodes; repeat with "confirm": 2 to remove them',
    })
  })
})

describe('the outcome on a node', () => {
  const rows: [NodeAction, NodeFacts, string][] = [
    ['approve', { approvedAt: null }, 'done'],
    ['approve', {}, 'unchanged'],
    ['drain', {}, 'done'],
    ['drain', { draining: true }, 'unchanged'],
    ['resume', { draining: true }, 'done'],
    ['resume', {}, 'unchanged'],
    ['remove', {}, 'done'],
  ]
  it.each(rows)('of %s with %j is %s', (action, facts, outcome) => {
    const node = nodeRecord('a', facts)
    expect(expectOutcome(request({ action, nodes: ['a'] }), { id: node.id, node })).toMatchObject({ node_name: 'a', outcome })
  })

  it('of a node that does not exist is a failure that names it', () => {
    const [{ id } = nodeRecord('a')] = fleet
    expect(expectOutcome(request({ nodes: ['a'] }), { id, node: null })).toMatchObject({
      outcome: 'failed',
      message: expect.stringContaining('node a does not exist') as string,
    })
  })

  it('says what was done, or that there was nothing to do', () => {
    expect(resultOf('drain', nodeRecord('a'), true)).toMatchObject({ outcome: 'done', message: 'drains: it gets no new work' })
    expect(resultOf('drain', nodeRecord('a'), false)).toMatchObject({ outcome: 'unchanged', message: 'is drained already' })
  })
})

describe('labels of many nodes', () => {
  const many = Object.fromEntries(Array.from({ length: 126 }, (_, index) => [`l${index}`, 'x']))
  const rows: [string, NodeFacts, Record<string, string | null>, string][] = [
    ['are set', {}, { tier: 'fast' }, 'changed'],
    ['are the same already', { reportedLabels: { tier: 'fast' } }, { tier: 'fast' }, 'same'],
    ['are removed', { reportedLabels: { tier: 'fast' } }, { tier: null }, 'changed'],
    ['are absent already', {}, { tier: null }, 'same'],
    ['are too many', { reportedLabels: many }, { tier: 'fast' }, 'refused'],
  ]
  it.each(rows)('%s', (_, facts, labels, outcome) => expect(editLabels(nodeRecord('a', facts), { labels })).toMatchObject({ outcome }))
})

describe('a request', () => {
  const rows: [string, object][] = [
    ['without nodes', { action: 'drain' }],
    ['with nodes and a selector', { action: 'drain', nodes: ['a'], selector: { rack: 'b' } }],
    ['with an empty list', { action: 'drain', nodes: [] }],
    ['to label without labels', { action: 'label', nodes: ['a'] }],
    ['to label with no change', { action: 'label', nodes: ['a'], labels: {} }],
    ['with labels for another action', { action: 'drain', nodes: ['a'], labels: { rack: 'b' } }],
    ['with an unknown field', { action: 'drain', nodes: ['a'], force: true }],
    ['with an unknown action', { action: 'reboot', nodes: ['a'] }],
  ]
  it.each(rows)('%s is refused', (_, body) => expect(NodeActionRequest.safeParse(body).success).toBe(false))
})
