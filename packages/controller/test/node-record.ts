// A node record of the store, for tests of decisions about nodes.
import { Secret } from '@muster/host'
import { InstalledBackend, NodeId, PublicKey, Resources } from '@muster/protocol'
import type { NodeRecord } from '../src/store/nodes.ts'

export type NodeFacts = Partial<Omit<NodeRecord, 'id' | 'inventory' | 'resources'>> & {
  readonly inventory?: readonly (Partial<InstalledBackend> | { readonly name: string; readonly [field: string]: unknown })[]
  readonly resources?: Partial<Resources>
}

/** Default: healthy, linux/amd64, without a GPU. */
export function nodeRecord(id: string, { inventory = [], resources = {}, ...facts }: NodeFacts = {}): NodeRecord {
  return {
    id: NodeId.parse(id),
    publicKey: PublicKey.parse(`U${'A'.repeat(55)}`),
    name: id,
    nodeType: 'backend',
    version: '1',
    features: ['async', 'progress', 'upgrade'],
    os: 'linux',
    arch: 'x64',
    capability: 'default',
    gatewayUrl: '',
    gatewaySecret: new Secret('of the gateway'),
    reportedLabels: {},
    labelOverrides: {},
    vramBudget: null,
    maxReplicasPerModel: null,
    draining: false,
    incarnation: 'i-1',
    inventoryIncarnation: 'i-1',
    createdAt: '2026-01-01T00:00:00.000Z',
    approvedAt: '2026-01-01T00:00:00.000Z',
    liveness: 'present',
    answering: 'yes',
    lastSeenAt: null,
    inFlight: 0,
    pendingOps: 0,
    models: [],
    unloadedModels: [],
    ...facts,
    inventory: inventory.map((backend) => InstalledBackend.parse(backend)),
    resources: Resources.parse(resources),
  }
}
