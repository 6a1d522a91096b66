import { NodeId, type Scheduling } from '@muster/protocol'
import { describe, expect, it } from 'vitest'
import { nodeRecord } from '../../test/node-record.ts'
import type { NodeLoadDecision, NodeLoadFacts } from '../store/node-models.ts'
import { choosePrefetchNodes, decideNodeLoad } from './on-nodes.pure.ts'

const [a, b] = [NodeId.parse('a'), NodeId.parse('b')]
type FactLoad = NodeLoadFacts['loads'][number]
const load = (fields: Partial<FactLoad> = {}): FactLoad => ({
  purpose: 'serve',
  ordinal: 0,
  state: 'ready',
  nodeId: b,
  pin: null,
  ...fields,
})
const facts = (fields: Partial<NodeLoadFacts> = {}): NodeLoadFacts => ({
  ...{ scheduling: { max_replicas: 2 }, requestedReplicas: 1, isUnloaded: false, loads: [] },
  ...fields,
})

describe('a load on node a', () => {
  const waiting = load({ state: 'waiting', nodeId: null })
  const rows: [string, Partial<NodeLoadFacts>, NodeLoadDecision][] = [
    ['is the first', {}, { do: 'add', requestedReplicas: 1 }],
    ['adds a replica beside others', { loads: [load()] }, { do: 'add', requestedReplicas: 2 }],
    ['adds nothing where one runs', { loads: [load({ nodeId: a })] }, { do: 'hurry' }],
    ['adds nothing where one starts', { loads: [load({ nodeId: a, state: 'starting' })] }, { do: 'hurry' }],
    ['hurries one that waits for it', { loads: [{ ...waiting, pin: a }] }, { do: 'hurry' }],
    ['takes one that failed, also there', { loads: [load({ nodeId: a, state: 'failed', ordinal: 2 })] }, { do: 'repin', ordinal: 2 }],
    ['adds one beside a load that waits for any node', { loads: [waiting] }, { do: 'add', requestedReplicas: 2 }],
    ['is refused at the maximum', { scheduling: {}, loads: [load()] }, { do: 'refuse', max: 1 }],
    ['takes one without a node at the maximum', { scheduling: {}, loads: [{ ...waiting, ordinal: 3 }] }, { do: 'repin', ordinal: 3 }],
    [
      'does not count replacements',
      { loads: [load(), load({ ordinal: 1, state: 'starting', pin: b })] },
      { do: 'add', requestedReplicas: 2 },
    ],
    [
      'has no maximum with all nodes',
      { scheduling: { replicas: 'all' }, loads: [load(), load({ ordinal: 1 })] },
      { do: 'add', requestedReplicas: 3 },
    ],
    [
      'does not count loads of an unloaded model',
      { scheduling: {}, isUnloaded: true, loads: [load()] },
      { do: 'add', requestedReplicas: 1 },
    ],
    [
      'does not count staged files',
      { scheduling: {}, loads: [load({ purpose: 'stage', nodeId: a })] },
      { do: 'add', requestedReplicas: 1 },
    ],
  ]
  it.each(rows)('%s', (_, fields, wanted) => expect(decideNodeLoad(facts(fields), a)).toEqual(wanted))
})

describe('the nodes of a prefetch', () => {
  const fleet = [
    nodeRecord('a', { reportedLabels: { gpu: 'x', rack: '1' } }),
    nodeRecord('b', { reportedLabels: { rack: '1' } }),
    nodeRecord('agent', { nodeType: 'agent' }),
    nodeRecord('new', { approvedAt: null }),
    nodeRecord('old', { features: [] }),
  ]
  const gpuOnly: Scheduling = { node_selector: { gpu: '*' } }
  const chosen = (selection: Parameters<typeof choosePrefetchNodes>[1], scheduling: Scheduling = {}) => {
    const choice = choosePrefetchNodes(fleet, selection, scheduling)
    return choice.kind === 'chosen' ? choice.nodes.map(({ id, skip }) => (skip === null ? id : `${id}: skipped`)) : choice.kind
  }
  it('are all that may run the model', () => {
    expect(chosen({})).toEqual(['a', 'b'])
    expect(chosen({}, gpuOnly)).toEqual(['a'])
  })
  it('are the named or selected ones, and one that the model may not run on is skipped', () => {
    expect(chosen({ nodes: [b, a, b] }, gpuOnly)).toEqual(['b: skipped', 'a'])
    expect(chosen({ selector: { rack: '1' } }, gpuOnly)).toEqual(['a', 'b: skipped'])
  })
  it('are refused when none can take the files', () => {
    expect(chosen({ nodes: [b] }, gpuOnly)).toBe('none')
    expect(chosen({ selector: { rack: '2' } })).toBe('none')
    expect(choosePrefetchNodes(fleet, { nodes: [b] }, gpuOnly)).toMatchObject({
      message: expect.stringContaining('b: its label gpu') as string,
    })
  })
  it.each([
    ['agent', 'agent node'],
    ['new', 'approval'],
    ['old', 'too old'],
  ])('cannot be %s', (id, reason) => {
    expect(choosePrefetchNodes(fleet, { nodes: [NodeId.parse(id)] }, {})).toMatchObject({
      ...{ kind: 'not_eligible', reason: expect.stringContaining(reason) as string },
    })
  })
  it('cannot be unknown', () => {
    expect(choosePrefetchNodes(fleet, { nodes: [NodeId.parse('zz')] }, {})).toEqual({ kind: 'unknown_node', id: 'zz' })
  })
})
