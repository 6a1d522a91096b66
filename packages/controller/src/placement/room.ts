// How much room a node has: memory, places and disk. What is booked is what live replicas need, by their rows, and not what
// heartbeats say: those are late by as long as a load takes. Pure.
import type { Resources, ReplicaId } from '@muster/protocol'

/** Where models live on a node: in its GPU's memory if it has one to use, else in its own. */
export type Pool = Readonly<{
  kind: 'vram' | 'ram'
  /** Null: unknown, and then nothing speaks against it. */ total: number | null
  available: number | null
}>

/** A replica that has not ended, with all that decides whether another model may have its room. */
export interface LiveReplica {
  readonly id: ReplicaId
  readonly model: string
  readonly state: 'starting' | 'ready' | 'draining'
  /** It gets requests. */
  readonly isServing: boolean
  readonly need: number
  /** What its node last said to be available is without what it uses. */
  readonly isReported: boolean
  /** Of the revision that its model has now. */
  readonly isCurrent: boolean
  /** A load has it; one that nobody has is decided about elsewhere. */
  readonly hasLoad: boolean
  readonly priority: number
  /** How many its model keeps in any case, and how many it wants. */
  readonly min: number
  readonly desired: number
  /** One on every node: none of them makes room for others. */
  readonly isSpread: boolean
  readonly readyMs: number
  /** Since its model was last asked for. */
  readonly unusedMs: number
  readonly inFlight: number
}

export interface NodeRoom {
  readonly pool: Pool
  /** Null: no limit. */
  readonly maxReplicas: number | null
  readonly availableDisk: number | null
  /** What replicas that are starting there have yet to fetch. */
  readonly awaitedDisk: number
  readonly replicas: readonly LiveReplica[]
  /** What those use that are taken for gone; what is available has it not. */
  readonly vacated: number
  /** What those used that ended and may still be missing from what is available: room to come. */
  readonly toCome: number
}

/** For what a backend adds to the weights: buffers, and the context. */
const overhead = 1.1
const leastOverhead = 64 * 2 ** 20

/** Of the sizes that are known; without any, nothing can be said. */
export function needOf(sizes: readonly (number | null)[]): number {
  const known = sizes.reduce<number>((sum, size) => sum + (size ?? 0), 0)
  return known === 0 ? 0 : Math.ceil(known * overhead) + leastOverhead
}

export function poolOf(resources: Resources, capability: string): Pool {
  const { total_vram: total, available_vram: available, total_ram, available_ram } = resources
  if (capability !== 'default' && total !== null && total > 0) return { kind: 'vram', total, available }
  return { kind: 'ram', total: total_ram, available: available_ram }
}

/** What a report may take on its way: by so much its reading may be older than it seems. */
const travelMs = 1_000

/** `beforeMs`: how long before its node's memory was last looked at something happened, as far as controllers know: it was never later. */
export const isSurelyReported = (beforeMs: number | null): boolean => beforeMs !== null && beforeMs > travelMs

/**
 * What is there in any case: what may not be missing yet from what is available is taken off, and what may be back in it is
 * not added. May be negative: what lives there was placed when nobody knew its size, or the machine has less now.
 */
export function freeMemory(room: NodeRoom): number {
  return memoryWithout(room, ({ isReported }) => !isReported)
}

/** What is there when the node has told all that happened. For who would end others: what comes by itself is waited for. */
export function memoryToCome(room: NodeRoom): number {
  return memoryWithout({ ...room, vacated: room.vacated + room.toCome }, ({ state }) => state === 'starting')
}

function memoryWithout({ pool: { total, available }, replicas, vacated }: NodeRoom, isMissing: (replica: LiveReplica) => boolean): number {
  if (total === null) return Infinity
  let [booked, missing] = [0, 0]
  for (const replica of replicas) {
    booked += replica.need
    if (isMissing(replica)) missing += replica.need
  }
  return Math.min(total - booked, available === null ? Infinity : available + vacated - missing)
}

export const freePlaces = ({ maxReplicas, replicas }: NodeRoom): number => (maxReplicas === null ? Infinity : maxReplicas - replicas.length)

export const freeDisk = ({ availableDisk, awaitedDisk }: NodeRoom): number =>
  availableDisk === null ? Infinity : availableDisk - awaitedDisk
