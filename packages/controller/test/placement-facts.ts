// Nodes, models and replicas for placement tests, with plain defaults.
import { ModelName, NodeId, ReplicaId } from '@muster/protocol'
import type { Candidate, PlacementModel } from '../src/placement/placement.pure.ts'
import type { LiveReplica } from '../src/placement/room.pure.ts'

export const modelToPlace = (over: Partial<PlacementModel> = {}): PlacementModel => ({
  ...{ name: ModelName.parse('tiny'), backend: 'llama', selector: null, files: [], priority: 0 },
  ...{ isStaging: false, isSpread: false, avoid: null, pin: null, diskCheck: 'refuse' },
  ...over,
})

export const candidate = (name: string, over: Partial<Candidate> = {}): Candidate => ({
  ...{
    id: NodeId.parse(name),
    name,
    nodeType: 'backend',
    status: 'healthy',
    statusReason: '',
    isArriving: false,
    runsModels: true,
    labels: {},
  },
  ...{ isUnloaded: false },
  ...{ hasBackend: true, installId: null, unfit: null, artifactSize: null, files: new Set<string>(), availableDisk: null, awaitedDisk: 0 },
  ...{
    pool: { kind: 'ram', total: null, available: null },
    maxReplicas: null,
    maxReplicasPerModel: null,
    replicas: [],
    vacatedMemory: 0,
    pendingMemory: 0,
  },
  ...over,
})

let made = 0

/** Ready, idle, above its model's minimum, and of another model than the one to place. */
export function replica(over: Partial<Omit<LiveReplica, 'id'>> & { id?: string } = {}): LiveReplica {
  made += 1
  return {
    ...{
      model: 'other',
      state: 'ready',
      isServing: (over.state ?? 'ready') === 'ready',
      need: 0,
      isReported: (over.state ?? 'ready') !== 'starting',
      isCurrent: true,
      hasLoad: true,
    },
    ...{ priority: 0, min: 0, desired: 1, isSpread: false, readyMs: 60_000, unusedMs: 60_000, inFlight: 0 },
    ...over,
    id: ReplicaId.parse(over.id ?? `r-${made}`),
  }
}
