import { ModelView, ReplicaView } from '@muster/protocol'
import { expect, it } from 'vitest'
import { deleteEffects, unloadEffects } from './model-words.pure.ts'

const model = (config: object = {}): ModelView =>
  ModelView.parse({
    ...{ name: 'tiny', backend: 'llama', revision: 'r', config: { name: 'tiny', backend: 'llama', ...config }, state: 'ready' },
    ...{ replicas_ready: 1, replicas_desired: 1, failure: null },
  })
const replica = (node: string, inFlight: number, state = 'ready'): ReplicaView =>
  ReplicaView.parse({
    ...{ id: `r-${node}`, model: 'tiny', revision: 'r', node_id: node, node_name: node, state, reachable: true },
    ...{ backend_digest: null, in_flight: inFlight, started_at: '' },
  })

it('unloading lists the nodes, the requests in flight and the ignored minimum', () => {
  expect(unloadEffects(model({ scheduling: { min_replicas: 1 } }), [replica('b', 2), replica('a', 1), replica('c', 0, 'exited')])).toEqual([
    'Stops 2 replicas on a and b after finishing 3 requests in flight.',
    'It stays unloaded despite its minimum of 1, also across restarts, until the next load, request or scheduling change.',
    'Its configuration and files are kept.',
  ])
})

it('deleting lists what is deleted', () => {
  expect(deleteEffects(model(), [])).toEqual([
    'Its configuration is deleted at once; requests for tiny are then rejected as unknown.',
    'No replicas are running.',
    'This cannot be undone.',
  ])
  expect(deleteEffects(model({ files: [{ uri: 'https://h/a', filename: 'a' }] }), [replica('a', 0)])).toMatchObject({
    1: 'Stops 1 replica on a; no requests in flight.',
    2: expect.stringContaining('1 file is deleted from every node') as string,
  })
})
