// Free memory, disk and replica count of a node, and the replicas to evict for a model that fits on no node. Live replicas are
// booked by their rows, because heartbeats report memory only after a load. Pure.
import type { NodeId, ReplicaId, Resources } from '@muster/protocol'

/** The memory that models use on a node: VRAM with a usable GPU, else RAM. */
type Pool = Readonly<{
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
  /** For replicas of one model; null: no limit. */
  readonly maxReplicasPerModel: number | null
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
function expectedMemory(room: NodeRoom): number {
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

// Evictions. Only replicas above their model's minimum qualify: those of lower priority, or of equal priority and idle for a
// while, so that two models do not evict each other in turns. The lowest priority goes first, and as few replicas as possible.

/** On one node. No victims: replicas that are already ending there free enough. */
export type Eviction = Readonly<{ nodeId: NodeId; victims: readonly ReplicaId[] }>

export interface EvictionRequest {
  readonly name: string
  readonly priority: number
  readonly need: number
}
/** A node that is excluded only by memory or the replica limit. Better nodes come first. */
export type FullNode = NodeRoom & Readonly<{ id: NodeId }>

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
  const short = { memory: request.need - expectedMemory(node), replicas: 1 - freeReplicaCount(node) }
  let lowest = Infinity
  for (const replica of node.replicas) {
    if (replica.state === 'draining') {
      short.memory -= replica.need
      short.replicas -= 1
    } else if (replica.priority < lowest && isEvictable(replica, request)) lowest = replica.priority
  }
  if (short.memory <= 0 && short.replicas <= 0) return []
  // At least one has to go here, and at least of that priority: with thousands of nodes that spares most of the search.
  if (lowest === Infinity || (best !== null && !isBetter(best, { highest: lowest, count: 1 }))) return null
  const allowed = node.replicas.filter((replica) => isEvictable(replica, request))
  for (const highest of [...new Set(allowed.map(({ priority }) => priority))].toSorted((a, b) => a - b)) {
    const lower = allowed.filter(({ priority }) => priority <= highest)
    const victims = fewest(lower, { ...short }, spare)
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

/** Takes the largest until one is enough, then the lowest-priority, longest-unused one that suffices. Null: all together are not enough. */
function fewest(allowed: readonly LiveReplica[], short: { memory: number; replicas: number }, spare: ReadonlyMap<string, number>) {
  const victims: LiveReplica[] = []
  while (short.memory > 0 || short.replicas > 0) {
    const left = allowed.filter((each) => !victims.includes(each) && countOf(victims, each.model) < (spare.get(each.model) ?? 0))
    const enough = short.replicas <= 1 ? left.filter(({ need }) => need >= short.memory) : []
    const victim = enough.length > 0 ? first(enough, leastUsed) : first(left, largest)
    if (victim === undefined) return null
    victims.push(victim)
    short.memory -= victim.need
    short.replicas -= 1
  }
  return victims
}

const countOf = (victims: readonly LiveReplica[], name: string): number => victims.filter(({ model }) => model === name).length

type Order = (a: LiveReplica, b: LiveReplica) => number
const byId: Order = (a, b) => (a.id < b.id ? -1 : 1)
const leastUsed: Order = (a, b) => a.priority - b.priority || b.unusedMs - a.unusedMs || a.need - b.need || byId(a, b)
const largest: Order = (a, b) => b.need - a.need || leastUsed(a, b)
const first = (replicas: readonly LiveReplica[], order: Order): LiveReplica | undefined =>
  replicas.reduce<LiveReplica | undefined>((best, each) => (best === undefined || order(each, best) < 0 ? each : best), undefined)
