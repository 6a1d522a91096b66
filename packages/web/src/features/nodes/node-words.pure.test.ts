import { NodeView, type NodeStatus } from '@muster/protocol'
import { expect, it } from 'vitest'
import { countNames, describeNodes, describeNode, nodeMark } from './node-words.pure.ts'

const now = Date.parse('2026-01-01T12:00:00Z')
const silence = 'no heartbeat for longer than the node timeout; last heard 2026-01-01T11:58:00Z'
const seen = '2026-01-01T11:58:00Z'
const node = (name: string, status: NodeStatus = 'healthy', more: Partial<NodeView> = {}): NodeView => ({
  ...NodeView.parse({
    ...{ id: 'n-1', name, node_type: 'backend', status, status_reason: 'receiving heartbeats', draining: false, labels: {}, resources: {} },
    ...{ vram_budget: null, version: '1', os: 'linux', arch: 'x64', capability: 'default', features: [], gateway_url: '', public_key: '' },
    ...{ created_at: '', approved_at: null, last_seen_at: seen, in_flight: 0, models: [], backends: [], pending_ops: 0 },
  }),
  ...more,
})
const silent = (name: string): NodeView => node(name, 'unhealthy', { status_reason: silence, liveness: 'silent' })

it.each([
  ['none', [], 'No nodes yet.'],
  ['one', [node('a')], '1 node, healthy.'],
  ['all well', [node('a'), node('b')], '2 nodes, all healthy.'],
  ['one silent', [node('a'), silent('gpu-3')], '2 nodes, 1 healthy. gpu-3 has sent no heartbeat for 2m.'],
  [
    'worst first',
    [node('a', 'pending'), node('b', 'draining', { models: ['m'] }), node('c', 'offline'), silent('d'), node('e')],
    '5 nodes, 1 healthy. d has sent no heartbeat for 2m. c is offline, last seen 2m ago. a is waiting for approval. b is draining.',
  ],
  [
    'another reason than a missing heartbeat',
    [node('a', 'unhealthy', { status_reason: 'reporting, but has not answered a command yet' })],
    '1 node, 0 healthy. a is unhealthy: reporting, but has not answered a command yet.',
  ],
  [
    'drained and just approved ones, which are no problem',
    [
      node('a', 'draining', { models: ['m'] }),
      node('b', 'draining'),
      node('c', 'unhealthy', { liveness: 'new', status_reason: 'approved, but has not reported over the bus yet' }),
      silent('d'),
    ],
    '4 nodes, 0 healthy. d has sent no heartbeat for 2m. c is approved and has not reported yet. a is draining. b is drained and safe to switch off.',
  ],
  ['several of a kind', [silent('a'), silent('b'), silent('c'), silent('d')], '4 nodes, 0 healthy. a, b and 2 more are unhealthy.'],
] as const)('describes nodes: %s', (_, nodes, want) => expect(describeNodes(nodes, now)).toBe(want))

it.each([
  ['idle', node('a'), 'Healthy, runs no models.'],
  ['busy', node('a', 'healthy', { models: ['m', 'n', 'm'], in_flight: 3 }), 'Healthy, runs m ×2 and n, 3 requests in flight.'],
  ['with pending operations', node('a', 'healthy', { pending_ops: 1 }), 'Healthy, runs no models. 1 pending operation.'],
  ['silent', silent('a'), 'Unhealthy: no heartbeat for longer than the node timeout; last seen 2m ago.'],
  [
    'just approved',
    node('a', 'unhealthy', { status_reason: 'approved, but has not reported over the bus yet', liveness: 'new' }),
    'Approved. It gets work after its first report, which is due within seconds.',
  ],
  [
    'drained to the last replica',
    node('a', 'draining', { status_reason: 'drained by an administrator: gets no new work', pending_ops: 2 }),
    'Drained: it runs no models, gets no new work and is safe to switch off. 2 pending operations.',
  ],
  [
    'drained',
    node('a', 'draining', { status_reason: 'an administrator drained it', models: ['m'] }),
    'Draining: an administrator drained it. It still runs m.',
  ],
] as const)('describes a node: %s', (_, given, want) => expect(describeNode(given, now)).toBe(want))

it.each([
  ['a healthy node', node('a'), { tone: 'good', word: 'healthy' }],
  ['a silent one', silent('a'), { tone: 'bad', word: 'unhealthy' }],
  ['one that was just approved', node('a', 'unhealthy', { liveness: 'new' }), { tone: 'wait', word: 'approved' }],
  ['one that drains', node('a', 'draining', { models: ['m'] }), { tone: 'wait', word: 'draining' }],
  ['one that is drained', node('a', 'draining'), { tone: 'idle', word: 'drained' }],
] as const)('marks %s', (_, given, want) => expect(nodeMark(given)).toMatchObject(want))

it('counts each name', () =>
  expect(countNames(['b', 'a', 'b'])).toEqual([
    { name: 'a', count: 1 },
    { name: 'b', count: 2 },
  ]))
