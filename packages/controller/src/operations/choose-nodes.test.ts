import { BackendName, NodeId } from '@muster/protocol'
import { describe, expect, it } from 'vitest'
import { nodeRecord } from '../../test/node-record.ts'
import { chooseNodes, mayHave, type NodeSelection } from './nodes.pure.ts'

const fleet = [
  nodeRecord('healthy', { reportedLabels: { zone: 'a' }, inventory: [{ name: 'llama' }] }),
  nodeRecord('offline', { liveness: 'left', reportedLabels: { zone: 'b' } }),
  nodeRecord('draining', { draining: true, reportedLabels: { zone: 'b' } }),
  nodeRecord('mute', { answering: 'no' }),
  nodeRecord('agent', { nodeType: 'agent', reportedLabels: { zone: 'a' } }),
  nodeRecord('pending', { approvedAt: null, reportedLabels: { zone: 'a' } }),
]
const ids = (...names: string[]): NodeId[] => names.map((name) => NodeId.parse(name))

describe('a submission is about', () => {
  it.each<[string, NodeSelection, string[]]>([
    ['S0.1 S0.3 S0.4 all that can have backends, however they are', {}, ['healthy', 'offline', 'draining', 'mute']],
    ['those that a selector names', { selector: { zone: 'b' } }, ['offline', 'draining']],
    ['S0.36 no agent and nobody pending, also when the selector fits', { selector: { zone: 'a' } }, ['healthy']],
    ['nobody', { selector: { zone: 'nowhere' } }, []],
    ['those that are named', { nodes: ids('mute', 'offline') }, ['mute', 'offline']],
    ['one that is named twice, once', { nodes: ids('mute', 'mute') }, ['mute']],
  ])('%s', (_, wanted, want) => {
    const choice = chooseNodes(fleet, wanted)
    expect(choice.kind === 'chosen' && choice.nodes.map(({ id }) => id)).toEqual(want)
  })

  it.each<[string, string, string]>([
    ['an unknown node', 'stranger', 'unknown_node'],
    ['S0.36 is an agent', 'agent', 'not_eligible'],
    ['S0.36 is pending', 'pending', 'not_eligible'],
  ])('nothing when one is named that %s', (_, name, want) => {
    expect(chooseNodes(fleet, { nodes: ids('healthy', name) }).kind).toBe(want)
  })

  it('S0.19 where it is a deletion: those that have it, have an intent for it, or are away', () => {
    const also = nodeRecord('wishing')
    const found = mayHave([...fleet.slice(0, 4), also, nodeRecord('without')], BackendName.parse('llama'), new Set(['wishing']))
    expect(found.map(({ id }) => id)).toEqual(['healthy', 'offline', 'draining', 'mute', 'wishing'])
  })
})
