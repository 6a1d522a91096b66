// The words for the status of a node: success does not read like a fault.
import type { NodeView } from '@muster/protocol'
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
