// Free memory, disk and replica count of a node, and the replicas to evict for a model that fits on no node. Live replicas are
// booked by their rows, because heartbeats report memory only after a load. Pure.
import type { NodeId, ReplicaId, Resources } from '@muster/protocol'
import type { MemoryNeed } from './estimate.pure.ts'

/** Bytes in the memory of the machine and of its GPUs. */
export type Memory = MemoryNeed
export const noMemory: Memory = { ram: 0, vram: 0 }
/** Where a model computes on a node. */
export type Device = 'cpu' | 'gpu'
/** The need of a model on each device. */
export type MemoryByDevice = Readonly<Record<Device, Memory>>
type PoolName = keyof Memory

/** The memory of a node of one kind. */
type Pool = Readonly<{ /** Null: unknown, and then not limited. */ total: number | null; available: number | null }>

/** A replica that has not ended, with the facts that decide on its eviction. */
export interface LiveReplica {
  readonly id: ReplicaId
  readonly model: string
  readonly state: 'starting' | 'ready' | 'draining'
  /** Receives requests. */
  readonly isServing: boolean
  readonly need: Memory
  /** The card that holds all of its GPU memory; null: several, or unknown. */
  readonly card: string | null
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
  readonly ram: Pool
  /** The sum of all usable GPUs. */
  readonly vram: Pool
  /** GPUs use the memory of the machine, so that GPU memory counts in both pools. */
  readonly hasSharedMemory: boolean
  /** Null: no limit. */
  readonly maxReplicas: number | null
  /** For replicas of one model; null: no limit. */
  readonly maxReplicasPerModel: number | null
  readonly availableDisk: number | null
  /** Bytes that starting replicas still have to fetch. */
  readonly awaitedDisk: number
  readonly replicas: readonly LiveReplica[]
  /** Memory of replicas that are treated as ended, not yet part of the available memory. */
  readonly vacatedMemory: Memory
  /** Memory of ended replicas that the node may not have reported as available yet. */
  readonly pendingMemory: Memory
}

export function poolsOf(resources: Resources): Pick<NodeRoom, 'ram' | 'vram' | 'hasSharedMemory'> {
  const { total_vram, available_vram, total_ram, available_ram, unified_memory: isUnified } = resources
  return {
    ram: { total: total_ram, available: available_ram },
    vram: { total: total_vram, available: available_vram },
    hasSharedMemory: isUnified,
  }
}

/** Delay of a report: its reading may be older by this much. */
const travelMs = 1_000

/** `beforeMs`: how long an event happened before the node's last memory reading, at least. */
export const isReportedFor = (beforeMs: number | null): boolean => beforeMs !== null && beforeMs > travelMs

/**
 * A lower bound: subtracts replicas that the available memory may not reflect yet, and adds no memory that may be freed
 * already. Can be negative when sizes were unknown at placement or the machine has less memory now.
 */
export function freeMemory(room: NodeRoom, pool: PoolName): number {
  return memoryWithout(room, pool, { isMissing: isUnreported, pending: 0 })
}

/** Free memory once the node has reported everything. Evictions use it, to wait for memory that is about to be free. */
function expectedMemory(room: NodeRoom, pool: PoolName): number {
  return memoryWithout(room, pool, { isMissing: isStarting, pending: amountIn(room, pool, room.pendingMemory) })
}

const isUnreported = ({ isReported }: LiveReplica): boolean => !isReported
const isStarting = ({ state }: LiveReplica): boolean => state === 'starting'

/** The part of an amount that counts in a pool. */
export const amountIn = ({ hasSharedMemory }: Pick<NodeRoom, 'hasSharedMemory'>, pool: PoolName, { ram, vram }: Memory): number =>
  pool === 'vram' ? vram : hasSharedMemory ? ram + vram : ram

type Counting = Readonly<{ isMissing: (replica: LiveReplica) => boolean; pending: number }>

function memoryWithout(room: NodeRoom, pool: PoolName, { isMissing, pending }: Counting): number {
  const { total, available } = room[pool]
  if (total === null) return Infinity
  let [booked, missing] = [0, 0]
  for (const replica of room.replicas) {
    const amount = amountIn(room, pool, replica.need)
    booked += amount
    if (isMissing(replica)) missing += amount
  }
  const unbooked = total - booked
  return available === null ? unbooked : Math.min(unbooked, available + amountIn(room, pool, room.vacatedMemory) + pending - missing)
}

export const freeReplicaCount = ({ maxReplicas, replicas }: NodeRoom): number =>
  maxReplicas === null ? Infinity : maxReplicas - replicas.length

export const freeDisk = ({ availableDisk, awaitedDisk }: NodeRoom): number =>
  availableDisk === null ? Infinity : availableDisk - awaitedDisk

// Evictions. Only replicas above their model's minimum qualify: those of lower priority, or of equal priority and idle for a
// while, so that two models do not evict each other in turns. The lowest priority goes first, and as few replicas as possible.

/** On one node. No victims: replicas that are already ending there free enough. */
export type Eviction = Readonly<{ nodeId: NodeId; victims: readonly ReplicaId[] }>

export interface EvictionRequest {
  readonly name: string
  readonly priority: number
  readonly memory: MemoryByDevice
}
/** A node that is excluded only by memory or the replica limit. Better nodes come first. */
export type FullNode = NodeRoom & Readonly<{ id: NodeId; device: Device }>

const idleMs = 30_000

export function chooseEviction(request: EvictionRequest, full: readonly FullNode[], everywhere: readonly NodeRoom[]): Eviction | null {
  if (full.length === 0) return null
  const spare = countSpare(everywhere)
  let best: Best | null = null
  for (const node of full) {
    const victims = victimsOn(node, { request, spare, best })
    if (victims === null) continue
    best = {
      nodeId: node.id,
      victims: victims.map(({ id }) => id),
      highest: Math.max(-Infinity, ...victims.map(({ priority }) => priority)),
    }
    if (victims.length === 0) break
  }
  return best === null ? null : { nodeId: best.nodeId, victims: best.victims }
}

type Best = Eviction & Readonly<{ /** Highest priority among the victims. */ highest: number }>

/** Replicas of each model that can be spared. Replicas that do not serve are not counted. */
function countSpare(nodes: readonly NodeRoom[]): Map<string, number> {
  const serving = new Map<string, { count: number; min: number; desired: number }>()
  for (const { replicas } of nodes) {
    for (const { model, isServing, hasLoad, min, desired } of replicas) {
      if (!isServing || !hasLoad) continue
      const counted = serving.get(model)
      if (counted === undefined) serving.set(model, { count: 1, min, desired })
      else counted.count += 1
    }
  }
  // During a replacement there are more replicas than desired; the surplus does not count as spare.
  return new Map([...serving].map(([model, { count, min, desired }]) => [model, Math.min(count, desired) - min]))
}

type Search = Readonly<{ request: EvictionRequest; spare: ReadonlyMap<string, number>; best: Best | null }>

/** Null: no eviction helps on this node, or it is no better than the best. */
function victimsOn(node: FullNode, { request, spare, best }: Search): LiveReplica[] | null {
  const need = request.memory[node.device]
  const short: Shortage = { ram: shortIn(node, 'ram', need), vram: shortIn(node, 'vram', need), replicas: 1 - freeReplicaCount(node) }
  let lowest = Infinity
  for (const replica of node.replicas) {
    if (replica.state === 'draining') subtract(short, replica, node)
    else if (replica.priority < lowest && isEvictable(replica, request)) lowest = replica.priority
  }
  if (isCovered(short)) return []
  // At least one has to go here, and at least of that priority: with thousands of nodes that spares most of the search.
  if (lowest === Infinity || (best !== null && !isBetter(best, { highest: lowest, count: 1 }))) return null
  const allowed = node.replicas.filter((replica) => isEvictable(replica, request))
  for (const highest of [...new Set(allowed.map(({ priority }) => priority))].toSorted((a, b) => a - b)) {
    const lower = allowed.filter(({ priority }) => priority <= highest)
    const victims = fewest(lower, { short, spare, node })
    if (victims !== null) return best === null || isBetter(best, { highest, count: victims.length }) ? victims : null
  }
  return null
}

const isBetter = (best: Best, { highest, count }: { highest: number; count: number }): boolean =>
  highest < best.highest || (highest === best.highest && count < best.victims.length)

function isEvictable(replica: LiveReplica, request: EvictionRequest): boolean {
  const { model, isServing, hasLoad, isSpread, priority, readyMs, unusedMs, inFlight } = replica
  if (model === request.name || !isServing || !hasLoad || isSpread) return false
  if (priority !== request.priority) return priority < request.priority
  return inFlight === 0 && readyMs >= idleMs && unusedMs >= idleMs
}

type Shortage = { ram: number; vram: number; replicas: number }

const isCovered = ({ ram, vram, replicas }: Shortage): boolean => ram <= 0 && vram <= 0 && replicas <= 0

/** Zero in a pool that the model does not use. */
function shortIn(node: NodeRoom, pool: PoolName, need: Memory): number {
  const amount = amountIn(node, pool, need)
  return amount === 0 ? 0 : amount - expectedMemory(node, pool)
}

function subtract(short: Shortage, { need }: LiveReplica, node: NodeRoom): void {
  short.ram -= amountIn(node, 'ram', need)
  short.vram -= amountIn(node, 'vram', need)
  short.replicas -= 1
}

type Choice = Readonly<{ short: Shortage; spare: ReadonlyMap<string, number>; node: NodeRoom }>

/** Takes the largest until one is enough, then the lowest-priority, longest-unused one that suffices. Null: all together are not enough. */
function fewest(allowed: readonly LiveReplica[], { short, spare, node }: Choice): LiveReplica[] | null {
  const victims: LiveReplica[] = []
  const still = { ...short }
  while (!isCovered(still)) {
    const left = allowed.filter((each) => !victims.includes(each) && countOf(victims, each.model) < (spare.get(each.model) ?? 0))
    const enough = left.filter((each) => coversShortage([each], still, node))
    const victim = enough.length > 0 ? first(enough, leastUsed) : first(left, largestIn(still, node))
    if (victim === undefined) return null
    victims.push(victim)
    subtract(still, victim, node)
  }
  // With two pools, a later victim can make an earlier one unnecessary.
  return victims.reduceRight<LiveReplica[]>(
    (kept, victim) => (kept.length > 1 && coversShortage(without(kept, victim), short, node) ? without(kept, victim) : kept),
    victims,
  )
}

const without = (victims: readonly LiveReplica[], victim: LiveReplica): LiveReplica[] => victims.filter((each) => each !== victim)

function coversShortage(victims: readonly LiveReplica[], short: Shortage, node: NodeRoom): boolean {
  const left = { ...short }
  for (const victim of victims) subtract(left, victim, node)
  return isCovered(left)
}

const countOf = (victims: readonly LiveReplica[], name: string): number => victims.filter(({ model }) => model === name).length

type Order = (a: LiveReplica, b: LiveReplica) => number
const byId: Order = (a, b) => (a.id < b.id ? -1 : 1)
const leastUsed: Order = (a, b) => a.priority - b.priority || b.unusedMs - a.unusedMs || sumOf(a.need) - sumOf(b.need) || byId(a, b)
/** By the memory that is short. */
const largestIn = (short: Shortage, node: NodeRoom): Order => {
  const helpOf = ({ need }: LiveReplica): number =>
    (short.ram > 0 ? amountIn(node, 'ram', need) : 0) + (short.vram > 0 ? amountIn(node, 'vram', need) : 0)
  return (a, b) => helpOf(b) - helpOf(a) || leastUsed(a, b)
}
const sumOf = ({ ram, vram }: Memory): number => ram + vram
const first = (replicas: readonly LiveReplica[], order: Order): LiveReplica | undefined =>
  replicas.reduce<LiveReplica | undefined>((best, each) => (best === undefined || order(each, best) < 0 ? each : best), undefined)
