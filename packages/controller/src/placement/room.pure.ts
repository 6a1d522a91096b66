// Free memory, disk and replica count of a node. Live replicas are booked by their rows, because heartbeats report memory
// only after a load.
import type { Resources, ReplicaId } from '@muster/protocol'

/** The memory that models use on a node: VRAM with a usable GPU, else RAM. */
export type Pool = Readonly<{
  kind: 'vram' | 'ram'
  /** Null: unknown, and then not limited. */ total: number | null
  available: number | null
}>

/** A replica that has not ended, with the facts that decide on its eviction. */
export interface LiveReplica {
  readonly id: ReplicaId
  readonly model: string
  readonly state: 'starting' | 'ready' | 'draining'
  /** Receives requests. */
  readonly isServing: boolean
  readonly need: number
  /** The node's last report of available memory already excludes this replica. */
  readonly isReported: boolean
  /** Has the model's current revision. */
  readonly isCurrent: boolean
  /** A load owns it; replicas without a load are handled elsewhere. */
  readonly hasLoad: boolean
  readonly priority: number
  /** The model's minimum and desired number of replicas. */
  readonly min: number
  readonly desired: number
  /** One per node: never evicted. */
  readonly isSpread: boolean
  readonly readyMs: number
  /** Since the last request for the model. */
  readonly unusedMs: number
  readonly inFlight: number
}

export interface NodeRoom {
  readonly pool: Pool
  /** Null: no limit. */
  readonly maxReplicas: number | null
  readonly availableDisk: number | null
  /** Bytes that starting replicas still have to fetch. */
  readonly awaitedDisk: number
  readonly replicas: readonly LiveReplica[]
  /** Memory of replicas that are treated as ended, not yet part of the available memory. */
  readonly vacatedMemory: number
  /** Memory of ended replicas that the node may not have reported as available yet. */
  readonly pendingMemory: number
}

/** For buffers and context in addition to the weights. */
const overhead = 1.1
const leastOverhead = 64 * 2 ** 20

/** Computed from the known sizes; zero without any. */
export function needOf(sizes: readonly (number | null)[]): number {
  const known = sizes.reduce<number>((sum, size) => sum + (size ?? 0), 0)
  return known === 0 ? 0 : Math.ceil(known * overhead) + leastOverhead
}

export function poolOf(resources: Resources, capability: string): Pool {
  const { total_vram: total, available_vram: available, total_ram, available_ram } = resources
  if (capability !== 'default' && total !== null && total > 0) return { kind: 'vram', total, available }
  return { kind: 'ram', total: total_ram, available: available_ram }
}

/** Delay of a report: its reading may be older by this much. */
const travelMs = 1_000

/** `beforeMs`: how long an event happened before the node's last memory reading, at least. */
export const isReportedFor = (beforeMs: number | null): boolean => beforeMs !== null && beforeMs > travelMs

/**
 * A lower bound: subtracts replicas that the available memory may not reflect yet, and adds no memory that may be freed
 * already. Can be negative when sizes were unknown at placement or the machine has less memory now.
 */
export function freeMemory(room: NodeRoom): number {
  return memoryWithout(room, ({ isReported }) => !isReported)
}

/** Free memory once the node has reported everything. Evictions use it, to wait for memory that is about to be free. */
export function expectedMemory(room: NodeRoom): number {
  return memoryWithout({ ...room, vacatedMemory: room.vacatedMemory + room.pendingMemory }, ({ state }) => state === 'starting')
}

function memoryWithout(
  { pool: { total, available }, replicas, vacatedMemory }: NodeRoom,
  isMissing: (replica: LiveReplica) => boolean,
): number {
  if (total === null) return Infinity
  let [booked, missing] = [0, 0]
  for (const replica of replicas) {
    booked += replica.need
    if (isMissing(replica)) missing += replica.need
  }
  return Math.min(total - booked, available === null ? Infinity : available + vacatedMemory - missing)
}

export const freeReplicaCount = ({ maxReplicas, replicas }: NodeRoom): number =>
  maxReplicas === null ? Infinity : maxReplicas - replicas.length

export const freeDisk = ({ availableDisk, awaitedDisk }: NodeRoom): number =>
  availableDisk === null ? Infinity : availableDisk - awaitedDisk
