import { ReplicaView } from '@muster/protocol'
import { expect, it } from 'vitest'
import { drainEffects, removalEffects } from './node-words.pure.ts'

const replica = (model: string, state = 'ready'): ReplicaView =>
  ReplicaView.parse({
    ...{ id: 'r', model, revision: '', node_id: 'n', node_name: 'n', state, reachable: true, backend_digest: null },
    ...{ in_flight: 0, started_at: '' },
  })
const node = { name: 'gpu-1', status: 'healthy', node_type: 'backend', pending_ops: 0 } as const

it('a drain lists the replicas that move', () => {
  const text = drainEffects(node, [replica('tiny'), replica('big'), replica('tiny'), replica('old', 'exited')]).join('\n')
  expect(text).toContain('3 replicas (big and tiny ×2) move to other nodes')
  expect(text).not.toContain('old')
})
it('a drain without replicas is described as such', () => expect(drainEffects(node, [])[1]).toContain('No replicas to move'))
it('a removal stops replicas and cancels pending operations', () => {
  const text = removalEffects({ ...node, pending_ops: 2 }, [replica('tiny')]).join('\n')
  expect(text).toContain('1 replica (tiny) stops at once')
  expect(text).toContain('2 pending operations are cancelled')
  expect(text).toContain('files stay on its disk')
})
