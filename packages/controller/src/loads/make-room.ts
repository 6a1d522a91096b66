// Where a load could go, and how room is made for it: by an old replica of its own model, or by those of others. What may end is
// decided for all loads of the model together, and written only if they still are as they were.
import { FleetError, type Failure, type Load, type ReplicaId } from '@muster/protocol'
import type { Log } from '@muster/host'
import type { Placer, ReplicaSnapshot, PlacementRequest } from '../placement/candidates.ts'
import type { Placement } from '../placement/placement.pure.ts'
import type { Read } from '../store/intents.ts'
import type { ListedLoad } from '../store/load-rows.ts'
import type { LoadStore, WantedModel } from '../store/loads.ts'
import type { Advance } from './advance.ts'
import type { Decision, Old } from './loads.pure.ts'
import { endableFor, type Endable } from './replica-set.pure.ts'

type Placed = Readonly<{ placement: Placement | Failure | null; seen: ReplicaSnapshot }>
export const unplaced: Placed = { placement: null, seen: new Map() }

export async function placeOf(load: Load, { config }: WantedModel, place: Placer): Promise<Placed> {
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

interface Short {
  readonly load: Load
  readonly model: WantedModel
  readonly placement: Placement | Failure | null
}
/** `set`: the loads of the model that it was decided with. */
export type FoundOld = Readonly<{ old: Old | null; set: Read<ListedLoad> }>
export const alone: FoundOld = { old: null, set: { now: 0, rows: [] } }

/** One whose place it could take. Looked for only when there is no room for both, and none comes by itself. */
export async function findOld({ load, model, placement }: Short, { loads, place }: { loads: LoadStore; place: Placer }): Promise<FoundOld> {
  if (load.purpose !== 'serve' || placement === null || 'code' in placement) return alone
  if (placement.eviction?.victims.length === 0 || placement.nodes.some(({ eligible }) => eligible)) return alone
  const set = await loads.listSets(model.name)
  const { olds, when } = endableFor(load, model, set.rows)
  // Another node has nothing that a load could take that has to be on this one.
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
 * The first without which there would be room, on the best node. One of each node is tried at a time: nodes are judged by what
 * is on themselves, so that it takes as many looks as one node has of them. (Disk is not room: the files of an old revision stay
 * for a day, in case it comes back.)
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

/** False: it, or another one that it was decided with, is not as it was. */
export async function endFirst({ ordinal }: Old, { now, rows }: Read<ListedLoad>, { advance }: { advance: Advance }): Promise<boolean> {
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

/** Exactly the replicas that were chosen, and only if all of them may still go. What is to be noted of it. */
export async function evictFor(
  { model, note }: Load,
  { victims, nodeName }: Extract<Decision, { do: 'evict' }>,
  { loads, onEvicted, log }: EvictDeps,
): Promise<string> {
  const whose = await loads.evict(victims)
  if (whose === null) return note
  onEvicted(victims.length)
  log.info('replicas make room for another model', { model, node: nodeName, of: whose, replicas: victims })
  return `room was made on ${nodeName}: ${whose.join(', ')} had to go`.slice(0, 1024)
}
