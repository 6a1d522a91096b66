import { ModelView, ReplicaView } from '@muster/protocol'
import { expect, it } from 'vitest'
import { deleteConsequences, unloadConsequences } from './model-words.pure.ts'

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

it('unloading names the nodes, what is in flight, and what it is held against', () => {
  expect(
    unloadConsequences(model({ scheduling: { min_replicas: 1 } }), [replica('b', 2), replica('a', 1), replica('c', 0, 'exited')]),
  ).toEqual([
    '2 replicas on a and b end; 3 requests in flight are finished first.',
    'It is held at none, also against its minimum of 1, and over restarts, until the next load, request or change of its scheduling.',
    'Its configuration and its files stay.',
  ])
})

it('deleting names what goes', () => {
  expect(deleteConsequences(model(), [])).toEqual([
    'Its configuration goes at once: from then on requests for tiny are refused as unknown.',
    'Nothing of it runs now.',
    'This can’t be undone.',
  ])
  expect(deleteConsequences(model({ files: [{ uri: 'https://h/a', filename: 'a' }] }), [replica('a', 0)])).toMatchObject({
    1: '1 replica on a ends; nothing is in flight.',
    2: expect.stringContaining('1 file is deleted on every node') as string,
  })
})
