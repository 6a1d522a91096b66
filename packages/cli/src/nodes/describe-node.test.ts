// The words for the status of a node: success does not read like a fault.
import { NodeView } from '@muster/protocol'
import { describe, expect, it } from 'vitest'
import { nodeView } from '../../test/scripted-controller.ts'
import { describeNode, nodeColumns, renderNode } from './describe-node.ts'

const now = Date.parse('2030-01-01T00:00:00Z')
const reason = 'approved, but has not reported over the bus yet'
const cellOf = (node: NodeView): string | undefined =>
  nodeColumns({ now: () => now })
    .find(({ heading }) => heading === 'STATUS')
    ?.cell(node)
const fieldOf = (node: NodeView): string | undefined => /^Status +(.*)$/m.exec(renderNode(node, now))?.[1]

describe('the status of a node', () => {
  it.each<[string, Partial<NodeView>, string, string]>([
    [
      'that was just approved',
      { status: 'unhealthy', liveness: 'new', status_reason: reason },
      'approved',
      'it gets work after its first report, which is due within seconds of the approval',
    ],
    [
      'that was just approved and is drained',
      { status: 'unhealthy', liveness: 'new', status_reason: reason, draining: true },
      'approved',
      'it is drained, and waits for its first report, which is due within seconds of the approval',
    ],
    ['that fell silent', { status: 'unhealthy', liveness: 'silent', status_reason: 'no heartbeat' }, 'unhealthy', 'no heartbeat'],
    ['of an older controller', { status: 'unhealthy', status_reason: 'no heartbeat' }, 'unhealthy', 'no heartbeat'],
    ['that reports', { status: 'healthy', liveness: 'present', status_reason: 'receiving heartbeats' }, 'healthy', 'receiving heartbeats'],
    ['that waits for its approval', { status: 'pending', liveness: 'new', status_reason: 'waiting' }, 'pending', 'waiting'],
  ])('%s', (_, changes, word, why) => {
    const node = nodeView(changes)
    expect(cellOf(node)).toBe(word)
    expect(fieldOf(node)).toBe(`${word}: ${why}`)
    expect(describeNode(node)).toBe(`${node.name} (${node.id}) is ${word}: ${why}`)
  })
})

const nodeWith = (resources: object): NodeView =>
  NodeView.parse({
    ...{ id: 'n-1', name: 'gpu-1', node_type: 'backend', status: 'healthy', status_reason: '', draining: false, labels: {}, resources },
    ...{ vram_budget: null, version: '1', os: 'linux', arch: 'amd64', capability: 'nvidia', features: [], gateway_url: '' },
    ...{ public_key: '', created_at: '', approved_at: null, last_seen_at: null, in_flight: 0, models: [], backends: [], pending_ops: 0 },
  })

it('shows each GPU with its memory and the processes that use it, and no line without any', () => {
  const card = { index: 1, uuid: 'GPU-b', name: 'L4', vendor: 'nvidia', total: 24e9, free: 20e9 }
  const processes = [{ pid: 101, bytes: 4e9, name: 'python3', replica_id: 'r-1' }]
  const text = renderNode(nodeWith({ gpus: [{ ...card, processes }] }), 0)
  expect(text).toMatch(/^GPU 1 +L4, 20 GB free of 24 GB \(GPU-b\)\n +4 GB replica r-1 \(python3, PID 101\)$/m)
  expect(renderNode(nodeWith({}), 0)).not.toMatch(/^GPU \d/m)
})
