import { silentLog } from '@muster/host'
import { NodeId, type Registration } from '@muster/protocol'
import { expect, it } from 'vitest'
import type { ChangeFeed } from '../events/feed.ts'
import type { AccessStore } from '../store/access.ts'
import type { NodeStore } from '../store/nodes.ts'
import { noCredentials } from './bus-credentials.ts'
import { createMembership } from './membership.ts'

const id = NodeId.parse('n-1')

it.each<[string, Partial<NodeStore>]>([
  ['while it came back', { refresh: async () => ({ outcome: 'refreshed', id }), find: async () => null }],
  ['while it joined', { refresh: async () => ({ outcome: 'unknown' }), insert: async () => id, find: async () => null }],
  ['again and again', { refresh: async () => ({ outcome: 'unknown' }), insert: async () => null }],
])('a node that is deleted %s is told to try again', async (_, nodes) => {
  const membership = createMembership({
    nodes: nodes as unknown as NodeStore,
    access: {} as unknown as AccessStore,
    feed: {} as unknown as ChangeFeed,
    log: silentLog,
    autoApprove: false,
    isOwnWorker: () => true,
    bus: { kind: 'local', url: 'local:', ca: null, credentials: noCredentials },
    workerSettings: () => Promise.reject(new Error('not asked for')),
  })
  expect(await membership.register({ name: 'x' } as unknown as Registration, new Date(0))).toEqual({ outcome: 'deleted_meanwhile' })
})
