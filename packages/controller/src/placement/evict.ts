// Whose replicas make room for a model that fits nowhere. Pure. Only those above the minimum of their model: of a lower
// priority, or of the same and idle for a while, so that two models do not drive each other out in turns. Of what is
// possible the lowest priority goes, and of that as few as will do.
import type { NodeId, ReplicaId } from '@muster/protocol'
import { freePlaces, memoryToCome, type LiveReplica, type NodeRoom } from './room.ts'

/** On one node. None: what is on its way out there will do. */
export type Eviction = Readonly<{ nodeId: NodeId; victims: readonly ReplicaId[] }>

export interface Asker {
  readonly name: string
  readonly priority: number
  readonly need: number
}
/** A node that lacks nothing but memory or places. The better one comes first. */
export type FullNode = NodeRoom & Readonly<{ id: NodeId }>

const idleMs = 30_000

export function chooseEviction(asker: Asker, full: readonly FullNode[], everywhere: readonly NodeRoom[]): Eviction | null {
  if (full.length === 0) return null
  const spare = countSpare(everywhere)
  let best: Best | null = null
  for (const node of full) {
    const victims = victimsOn(node, { asker, spare, best })
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

type Best = Eviction & Readonly<{ /** Priority of them. */ highest: number }>

/** How many of each model can go. What does not serve yet, or is out of reach, counts for nothing. */
function countSpare(nodes: readonly NodeRoom[]): Map<string, number> {
  const serving = new Map<string, { count: number; min: number; desired: number }>()
  for (const { replicas } of nodes) {
    for (const { model, isServing, hasLoad, min, desired } of replicas) {
      if (!isServing || !hasLoad) continue
      const known = serving.get(model)
      if (known === undefined) serving.set(model, { count: 1, min, desired })
      else known.count += 1
    }
  }
  // While one takes the place of another there are more than are wanted; that makes none of them spare.
  return new Map([...serving].map(([model, { count, min, desired }]) => [model, Math.min(count, desired) - min]))
}

type Search = Readonly<{ asker: Asker; spare: ReadonlyMap<string, number>; best: Best | null }>

/** Null: nothing helps there, or it is no better than the best. */
function victimsOn(node: FullNode, { asker, spare, best }: Search): LiveReplica[] | null {
  const short = { memory: asker.need - memoryToCome(node), places: 1 - freePlaces(node) }
  let lowest = Infinity
  for (const replica of node.replicas) {
    if (replica.state === 'draining') {
      short.memory -= replica.need
      short.places -= 1
    } else if (replica.priority < lowest && isEvictable(replica, asker)) lowest = replica.priority
  }
  if (short.memory <= 0 && short.places <= 0) return []
  // At least one has to go here, and at least of that priority: with thousands of nodes that spares most of the search.
  if (lowest === Infinity || (best !== null && !isBetter(best, { highest: lowest, count: 1 }))) return null
  const allowed = node.replicas.filter((replica) => isEvictable(replica, asker))
  for (const highest of [...new Set(allowed.map(({ priority }) => priority))].toSorted((a, b) => a - b)) {
    const lower = allowed.filter(({ priority }) => priority <= highest)
    const victims = fewest(lower, { ...short }, spare)
    if (victims !== null) return best === null || isBetter(best, { highest, count: victims.length }) ? victims : null
  }
  return null
}

const isBetter = (best: Best, { highest, count }: { highest: number; count: number }): boolean =>
  highest < best.highest || (highest === best.highest && count < best.victims.length)

function isEvictable(replica: LiveReplica, asker: Asker): boolean {
  const { model, isServing, hasLoad, isSpread, priority, readyMs, unusedMs, inFlight } = replica
  if (model === asker.name || !isServing || !hasLoad || isSpread) return false
  if (priority !== asker.priority) return priority < asker.priority
  return inFlight === 0 && readyMs >= idleMs && unusedMs >= idleMs
}

/** The largest, until one is enough; then the lowest and the longest unused that is. Null: all of them are too little. */
function fewest(allowed: readonly LiveReplica[], short: { memory: number; places: number }, spare: ReadonlyMap<string, number>) {
  const victims: LiveReplica[] = []
  while (short.memory > 0 || short.places > 0) {
    const left = allowed.filter((each) => !victims.includes(each) && countOf(victims, each.model) < (spare.get(each.model) ?? 0))
    const enough = short.places <= 1 ? left.filter(({ need }) => need >= short.memory) : []
    const victim = enough.length > 0 ? first(enough, leastMissed) : first(left, largest)
    if (victim === undefined) return null
    victims.push(victim)
    short.memory -= victim.need
    short.places -= 1
  }
  return victims
}

const countOf = (victims: readonly LiveReplica[], name: string): number => victims.filter(({ model }) => model === name).length

type Order = (a: LiveReplica, b: LiveReplica) => number
const byId: Order = (a, b) => (a.id < b.id ? -1 : 1)
const leastMissed: Order = (a, b) => a.priority - b.priority || b.unusedMs - a.unusedMs || a.need - b.need || byId(a, b)
const largest: Order = (a, b) => b.need - a.need || leastMissed(a, b)
const first = (replicas: readonly LiveReplica[], order: Order): LiveReplica | undefined =>
  replicas.reduce<LiveReplica | undefined>((best, each) => (best === undefined || order(each, best) < 0 ? each : best), undefined)
