import { NodeView } from '@muster/protocol'
import { expect, it } from 'vitest'
import { renderNode } from './describe-node.ts'

const node = (resources: object): NodeView =>
  NodeView.parse({
    ...{ id: 'n-1', name: 'gpu-1', node_type: 'backend', status: 'healthy', status_reason: '', draining: false, labels: {}, resources },
    ...{ vram_budget: null, version: '1', os: 'linux', arch: 'amd64', capability: 'nvidia', features: [], gateway_url: '' },
    ...{ public_key: '', created_at: '', approved_at: null, last_seen_at: null, in_flight: 0, models: [], backends: [], pending_ops: 0 },
  })

it('shows each GPU with its memory and the processes that use it, and no line without any', () => {
  const card = { index: 1, uuid: 'GPU-b', name: 'L4', vendor: 'nvidia', total: 24e9, free: 20e9 }
  const processes = [{ pid: 101, bytes: 4e9, name: 'python3', replica_id: 'r-1' }]
  const text = renderNode(node({ gpus: [{ ...card, processes }] }), 0)
  expect(text).toMatch(/^GPU 1 +L4, 20 GB free of 24 GB \(GPU-b\)\n +4 GB replica r-1 \(python3, PID 101\)$/m)
  expect(renderNode(node({}), 0)).not.toMatch(/^GPU \d/m)
})
