// Places a load and makes room for it, by ending an old replica of its own model or by evicting replicas of other models. The old
// replica is chosen for all loads of the model together, and ended only if none of them has changed.
import { FleetError, type Failure, type Load, type ReplicaId } from '@muster/protocol'
import type { Log } from '@muster/host'
import type { Placer, ReplicaSnapshot, PlacementRequest } from '../placement/placer.ts'
import type { Placement } from '../placement/placement.pure.ts'
import type { Read } from '../store/intents.ts'
import type { ListedLoad } from '../store/load-rows.ts'
import type { LoadStore, WantedModel } from '../store/loads.ts'
import type { Advance } from './load-work.ts'
import type { Decision, OldReplica } from './loads.pure.ts'
import { endableFor, type Endable } from './replica-set.pure.ts'

type PlacementResult = Readonly<{ placement: Placement | Failure | null; seen: ReplicaSnapshot }>
export const unplaced: PlacementResult = { placement: null, seen: new Map() }

export async function placeOf(load: Load, { config }: WantedModel, place: Placer): Promise<PlacementResult> {
  try {
    return await place(wantedOf(load, config))
  } catch (error) {
    if (error instanceof FleetError) return { ...unplaced, placement: error.failure }
    throw error
  }
}

const wantedOf = (load: Load, config: PlacementRequest['config']): PlacementRequest => ({
  ...{ config, purpose: load.purpose, avoid: load.state === 'failed' ? load.nodeId : null, pin: load.pin },
})

interface UnplacedLoad {
  readonly load: Load
  readonly model: WantedModel
  readonly placement: Placement | Failure | null
}
/** `set`: the loads of the model that the decision was based on. */
export type Replacement = Readonly<{ old: OldReplica | null; set: Read<ListedLoad> }>
export const noReplacement: Replacement = { old: null, set: { now: 0, rows: [] } }

/** A replica that the load could replace. Looked for only when there is no room for both, and no draining replica makes room. */
export async function findReplaced(
  { load, model, placement }: UnplacedLoad,
  { loads, place }: { loads: LoadStore; place: Placer },
): Promise<Replacement> {
  if (load.purpose !== 'serve' || placement === null || 'code' in placement) return noReplacement
  if (placement.eviction?.victims.length === 0 || placement.nodes.some(({ eligible }) => eligible)) return noReplacement
  const set = await loads.listSets(model.name)
  const { olds, when } = endableFor(load, model, set.rows)
  // A pinned load can only use room on its node.
  const near = load.pin === null ? olds : olds.filter((old) => old.load.nodeId === load.pin)
  const enough = await findEnough(near, wantedOf(load, model.config), place)
  const [any] = load.pin === null ? [] : near
  const found = enough ?? any
  if (found === undefined) return { old: null, set }
  const { ordinal, nodeId } = found.load
  return { old: { ordinal, nodeId, ends: enough === undefined ? 'not' : when }, set }
}

type Olds = Endable['olds']

/**
 * The first replica without which there would be room, on the best node. One per node is tried at a time, since each node is
 * judged by its own replicas. (Disk is not freed: the files of an old revision stay for a day, in case it comes back.)
 */
async function findEnough(olds: Olds, wanted: PlacementRequest, place: Placer): Promise<Olds[number] | undefined> {
  const there = [...Map.groupBy(olds, ({ load }) => load.nodeId).values()]
  const most = Math.max(0, ...there.map(({ length }) => length))
  for (let nth = 0; nth < most; nth += 1) {
    const tried = there.flatMap((each) => each[nth] ?? [])
    const without = tried.flatMap(({ load }): ReplicaId[] => (load.replicaId === null ? [] : [load.replicaId]))
    const { placement } = await place({ ...wanted, without })
    for (const { node_id: id, eligible } of placement.nodes) {
      const old = eligible ? tried.find(({ load }) => load.nodeId === id) : undefined
      if (old !== undefined) return old
    }
  }
  return undefined
}

/** False: this load, or another one of the model, has changed. */
export async function endFirst(
  { ordinal }: OldReplica,
  { now, rows }: Read<ListedLoad>,
  { advance }: { advance: Advance },
): Promise<boolean> {
  const among = rows.filter(({ load }) => load.purpose === 'serve')
  const old = among.filter(({ load }) => load.ordinal === ordinal)
  const ended = await advance({ read: async () => ({ now, rows: old }), eventOf: () => ({ type: 'unwanted' }), among })
  return ended !== null
}

export interface EvictDeps {
  readonly loads: Pick<LoadStore, 'evict'>
  readonly onEvicted: (count: number) => void
  readonly log: Log
}

/** Evicts exactly the chosen replicas, and only if all of them may still end. Returns the note for the load; null: none ended. */
export async function evictFor(
  { model }: Load,
  { victims, nodeName }: Extract<Decision, { do: 'evict' }>,
  { loads, onEvicted, log }: EvictDeps,
): Promise<string | null> {
  const whose = await loads.evict(victims)
  if (whose === null) return null
  onEvicted(victims.length)
  log.info('replicas evicted for another model', { model, node: nodeName, of: whose, replicas: victims })
  return `evicted ${whose.join(', ')} on ${nodeName} to make room`.slice(0, 1024)
}
