import { NodeView } from '@muster/protocol'
import { expect, it } from 'vitest'
import { filterNodes, isFiltered, labelChoices } from './node-words.pure.ts'

const node = (name: string, more: object = {}): NodeView =>
  NodeView.parse({
    ...{ id: `n-${name}`, name, node_type: 'backend', status: 'healthy', status_reason: '', draining: false, labels: {}, resources: {} },
    ...{ vram_budget: null, version: '1', os: 'linux', arch: 'x64', capability: 'default', features: [], gateway_url: '', public_key: '' },
    ...{ created_at: '', approved_at: null, last_seen_at: null, in_flight: 0, models: [], backends: [], pending_ops: 0, ...more },
  })
const nodes = [
  node('gpu-1', { labels: { rack: 'b2', 'node.name': 'gpu-1' } }),
  node('gpu-2', { labels: { rack: 'b=3', 'node.name': 'gpu-2' }, status: 'offline' }),
  node('agent', { node_type: 'agent' }),
]

it.each([
  ['no filter', {}, ['gpu-1', 'gpu-2', 'agent']],
  ['by type', { type: 'agent' }, ['agent']],
  ['by state', { state: 'offline' }, ['gpu-2']],
  ['by key', { label: 'rack' }, ['gpu-1', 'gpu-2']],
  ['by value', { label: 'rack=b2' }, ['gpu-1']],
  ['by a value with an equals sign', { label: 'rack=b=3' }, ['gpu-2']],
  ['by name, in any case', { q: 'GPU' }, ['gpu-1', 'gpu-2']],
  ['by id', { q: 'n-agent' }, ['agent']],
  ['by label', { q: 'rack=b2' }, ['gpu-1']],
  ['by all words', { q: 'gpu b=3' }, ['gpu-2']],
  ['by an unknown label', { label: 'toString' }, []],
] as const)('%s', (_, filter, want) => expect(filterNodes(nodes, filter).map(({ name }) => name)).toEqual(want))

it('offers all labels except names', () => expect(labelChoices(nodes)).toEqual(['rack', 'rack=b2', 'rack=b=3']))
it('detects whether a filter is set', () =>
  expect([isFiltered({}), isFiltered({ q: '' }), isFiltered({ state: 'x' })]).toEqual([false, false, true]))
