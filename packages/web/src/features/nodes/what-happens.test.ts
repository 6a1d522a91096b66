import { ReplicaView } from '@muster/protocol'
import { expect, it } from 'vitest'
import { whatDrainDoes, whatRemovalDoes } from './node-words.pure.ts'

const replica = (model: string, state = 'ready'): ReplicaView =>
  ReplicaView.parse({
    ...{ id: 'r', model, revision: '', node_id: 'n', node_name: 'n', state, reachable: true, backend_digest: null },
    ...{ in_flight: 0, started_at: '' },
  })
const node = { name: 'gpu-1', status: 'healthy', node_type: 'backend', pending_ops: 0 } as const

it('a drain moves what runs, and says which', () => {
  const said = whatDrainDoes(node, [replica('tiny'), replica('big'), replica('tiny'), replica('old', 'exited')]).join('\n')
  expect(said).toContain('3 replicas (big and tiny ×2) move to other nodes')
  expect(said).not.toContain('old')
})
it('a drain of what runs nothing says so', () => expect(whatDrainDoes(node, [])[1]).toContain('No replicas run here'))
it('a removal ends what runs, and cancels what is open', () => {
  const said = whatRemovalDoes({ ...node, pending_ops: 2 }, [replica('tiny')]).join('\n')
  expect(said).toContain('1 replica (tiny) stops at once')
  expect(said).toContain('2 open wishes are cancelled')
  expect(said).toContain('files stay on its disk')
})
