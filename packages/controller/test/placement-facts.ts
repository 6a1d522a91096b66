// Nodes, models and replicas for placement tests, with plain defaults.
import { ModelName, NodeId, ReplicaId } from '@muster/protocol'
import type { Candidate, PlacementModel } from '../src/placement/placement.pure.ts'
import { needOf } from '../src/placement/memory.pure.ts'
import type { LiveReplica, Memory } from '../src/placement/room.pure.ts'

export const modelToPlace = (over: Partial<PlacementModel> = {}): PlacementModel => ({
  ...{ name: ModelName.parse('tiny'), backend: 'llama', selector: null, files: [], priority: 0 },
  ...{ isStaging: false, isSpread: false, avoid: null, pin: null, diskCheck: 'refuse' },
  memory: memoryOfFiles(over.files ?? []),
  ...over,
})

/** As of files whose headers are unknown. */
function memoryOfFiles(files: PlacementModel['files']): PlacementModel['memory'] {
  const need = needOf(files.map(({ size }) => size))
  return { basis: 'size', estimate: null, gpuLayers: null, cpu: inRam(need), gpu: { ram: 0, vram: need } }
}

export const inRam = (ram: number): Memory => ({ ram, vram: 0 })
/** A node without GPUs. */
export const ramOf = (total: number | null, available: number | null = null) => ({ ram: { total, available } })
/** A node whose models compute on GPUs. */
export const vramOf = (total: number | null, available: number | null = null) => ({ vram: { total, available }, device: 'gpu' as const })

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
  ...{ ...ramOf(null), vram: { total: null, available: null }, hasSharedMemory: false, device: 'cpu', cards: [] },
  ...{ maxReplicas: null, maxReplicasPerModel: null, replicas: [], vacatedMemory: inRam(0), pendingMemory: inRam(0) },
  ...over,
})

let made = 0

/** Ready, idle, above its model's minimum, and of another model than the one to place. */
export function replica(
  over: Partial<Omit<LiveReplica, 'id' | 'need'>> & { id?: string; /** Bytes of RAM, or of both. */ need?: number | Memory } = {},
): LiveReplica {
  made += 1
  return {
    ...{
      model: 'other',
      state: 'ready',
      isServing: (over.state ?? 'ready') === 'ready',
      card: null,
      isReported: (over.state ?? 'ready') !== 'starting',
      isCurrent: true,
      hasLoad: true,
    },
    ...{ priority: 0, min: 0, desired: 1, isSpread: false, readyMs: 60_000, unusedMs: 60_000, inFlight: 0 },
    ...over,
    need: typeof over.need === 'object' ? over.need : inRam(over.need ?? 0),
    id: ReplicaId.parse(over.id ?? `r-${made}`),
  }
}
