// Whose replicas make room for a model that fits nowhere. Pure. Only those above the minimum of their model: of a lower
// priority, or of the same and idle for a while, so that two models do not drive each other out in turns. Of what is
// possible the lowest priority goes, and of that as few as will do.
import type { NodeId, ReplicaId } from '@muster/protocol'
import { freeMemory, freePlaces, type LiveReplica, type NodeRoom } from './room.ts'

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
  const mayGo = countSpare(everywhere)
  let best: (Eviction & { highest: number }) | null = null
  for (const node of full) {
    const victims = victimsOn(node, asker, mayGo)
    if (victims === null) continue
    const highest = Math.max(-Infinity, ...victims.map(({ priority }) => priority))
    const isBetter = best === null || highest < best.highest || (highest === best.highest && victims.length < best.victims.length)
    if (isBetter) best = { nodeId: node.id, victims: victims.map(({ id }) => id), highest }
  }
  return best === null ? null : { nodeId: best.nodeId, victims: best.victims }
}

/** How many of a model can go: of all that live, and of those that serve. */
type Spare = { live: number; serving: number }

function countSpare(nodes: readonly NodeRoom[]): Map<string, Spare> {
  const found = new Map<string, Spare & Pick<LiveReplica, 'min' | 'desired'>>()
  for (const { replicas } of nodes) {
    for (const { model, state, isServing, min, desired } of replicas) {
      if (state === 'draining') continue
      const spare = found.get(model) ?? { live: 0, serving: 0, min, desired }
      spare.live += 1
      if (isServing) spare.serving += 1
      found.set(model, spare)
    }
  }
  // While one takes the place of another there are more than are wanted; that makes none of them spare.
  for (const spare of found.values()) {
    spare.live = Math.min(spare.live, spare.desired) - spare.min
    spare.serving = Math.min(spare.serving, spare.desired) - spare.min
  }
  return found
}

function victimsOn(node: FullNode, asker: Asker, mayGo: ReadonlyMap<string, Spare>): LiveReplica[] | null {
  const leaving = node.replicas.filter(({ state }) => state === 'draining')
  const short = {
    memory: asker.need - freeMemory(node) - leaving.reduce((sum, { need }) => sum + need, 0),
    places: 1 - freePlaces(node) - leaving.length,
  }
  if (short.memory <= 0 && short.places <= 0) return []
  const allowed = node.replicas.filter((replica) => isEvictable(replica, asker))
  for (const ceiling of [...new Set(allowed.map(({ priority }) => priority))].toSorted((a, b) => a - b)) {
    const victims = fewest(
      allowed.filter(({ priority }) => priority <= ceiling),
      { ...short },
      mayGo,
    )
    if (victims !== null) return victims
  }
  return null
}

function isEvictable(replica: LiveReplica, asker: Asker): boolean {
  const { model, state, isServing, isHeld, isSpread, priority, readyMs, unusedMs, inFlight } = replica
  if (model === asker.name || state === 'draining' || !isHeld || isSpread) return false
  if (priority !== asker.priority) return priority < asker.priority
  return isServing && inFlight === 0 && readyMs >= idleMs && unusedMs >= idleMs
}

/** The largest, until one is enough; then the lowest and the longest unused that is. Null: all of them are too little. */
function fewest(allowed: readonly LiveReplica[], short: { memory: number; places: number }, mayGo: ReadonlyMap<string, Spare>) {
  const [left, taken] = [new Set(allowed), new Map<string, Spare>()]
  const victims: LiveReplica[] = []
  while (short.memory > 0 || short.places > 0) {
    for (const replica of left) if (!isSpare(replica, mayGo, taken)) left.delete(replica)
    const enough = short.places <= 1 ? [...left].filter(({ need }) => need >= short.memory) : []
    const victim = enough.length > 0 ? first(enough, leastMissed) : first([...left], largest)
    if (victim === undefined) return null
    left.delete(victim)
    victims.push(victim)
    short.memory -= victim.need
    short.places -= 1
    const count = taken.get(victim.model) ?? { live: 0, serving: 0 }
    taken.set(victim.model, { live: count.live + 1, serving: count.serving + Number(victim.isServing) })
  }
  return victims
}

function isSpare({ model, isServing }: LiveReplica, mayGo: ReadonlyMap<string, Spare>, taken: ReadonlyMap<string, Spare>): boolean {
  const [spare, gone] = [mayGo.get(model) ?? { live: 0, serving: 0 }, taken.get(model) ?? { live: 0, serving: 0 }]
  return spare.live > gone.live && (!isServing || spare.serving > gone.serving)
}

type Order = (a: LiveReplica, b: LiveReplica) => number
const byId: Order = (a, b) => (a.id < b.id ? -1 : 1)
const leastMissed: Order = (a, b) => a.priority - b.priority || b.unusedMs - a.unusedMs || a.need - b.need || byId(a, b)
const largest: Order = (a, b) => b.need - a.need || leastMissed(a, b)
const first = (replicas: readonly LiveReplica[], order: Order): LiveReplica | undefined =>
  replicas.reduce<LiveReplica | undefined>((best, each) => (best === undefined || order(each, best) < 0 ? each : best), undefined)
