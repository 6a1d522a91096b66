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
  /** Of the revision that its model has now. */
  readonly isCurrent: boolean
  /** A load has it; one that nobody has is decided about elsewhere. */
  readonly isHeld: boolean
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
  /** What those used that ended since the node last said what is available. */
  readonly justFreed: number
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

/** May be negative: what lives there was placed when nobody knew its size, or the machine has less now. */
export function freeMemory({ pool: { total, available }, replicas, justFreed }: NodeRoom): number {
  if (total === null) return Infinity
  let [booked, starting] = [0, 0]
  for (const { need, state } of replicas) {
    booked += need
    if (state === 'starting') starting += need
  }
  return Math.min(total - booked, available === null ? Infinity : available + justFreed - starting)
}

export const freePlaces = ({ maxReplicas, replicas }: NodeRoom): number => (maxReplicas === null ? Infinity : maxReplicas - replicas.length)

export const freeDisk = ({ availableDisk, awaitedDisk }: NodeRoom): number =>
  availableDisk === null ? Infinity : availableDisk - awaitedDisk
