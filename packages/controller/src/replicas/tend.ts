// Decides about replicas that no load holds, and tells workers which processes are to end: each by its own id, again and
// again until it is gone.
import type { Bus } from '@muster/bus'
import { inLanes, type Log } from '@muster/host'
import { modelUnload, type NodeId, type ReplicaId } from '@muster/protocol'
import type { Advance } from '../loads/advance.ts'
import type { LoadStore } from '../store/loads.ts'
import type { ReplicaRecord, ReplicaStore } from '../store/replicas.ts'
import { fateOf, returnOf } from './surplus.pure.ts'

export interface TendDeps {
  readonly bus: Bus
  readonly loads: LoadStore
  readonly replicas: ReplicaStore
  readonly advance: Advance
  readonly log: Log
}

const tellEveryMs = 5_000
/** A controller that is cut off holds up nobody for longer: the worker refuses what it sends, and it asks another one. */
const patienceMs = 10_000
const answerWithinMs = 2_000
const batch = 64
const tellAtOnce = 16

export type Unload = (replica: { id: ReplicaId; nodeId: NodeId }, signal: AbortSignal) => Promise<void>

/** Never rejects: who did not hear it is told again. */
export function createUnload({ bus, log }: Pick<TendDeps, 'bus' | 'log'>): Unload {
  return async ({ id, nodeId: node }, signal) => {
    try {
      const reply = await bus.request(modelUnload, { node }, { replica_id: id }, { timeoutMs: answerWithinMs, signal })
      if ('accepted' in reply && !reply.accepted)
        log.warn('a worker does not end a replica', { node, replica: id, error: reply.failure.message })
    } catch (error) {
      if (!signal.aborted) log.debug('a worker could not be told to end a replica', { node, replica: id, error })
    }
  }
}

export function createTendReplicas(deps: TendDeps & { readonly unload: Unload }) {
  const { loads, replicas, unload } = deps
  /** True: some wait for what wakes nobody. */
  return async (signal: AbortSignal): Promise<boolean> => {
    const surplus = await replicas.findSurplus(batch)
    if (surplus.length > 0) {
      const { rows } = await loads.listOfModels([...new Set(surplus.map(({ model }) => model))])
      const byModel = Map.groupBy(rows, ({ load }) => load.model as string)
      for (const replica of surplus)
        await settle(
          replica,
          (byModel.get(replica.model) ?? []).map(({ load }) => load),
          deps,
        )
    }
    const { told, areSomeAsked } = await replicas.takeDrains({ everyMs: tellEveryMs, patienceMs, limit: batch })
    await inLanes(told, { atOnce: tellAtOnce }, (drain) => unload(drain, signal))
    return areSomeAsked
  }
}

async function settle(
  replica: ReplicaRecord,
  ofModel: Parameters<typeof fateOf>[1],
  { loads, replicas, advance, log }: TendDeps,
): Promise<void> {
  const fate = fateOf(replica, ofModel)
  const { id, nodeId: node, model, ordinal } = replica
  if (fate.do === 'wait') return
  if (fate.do === 'drain') {
    if (await replicas.change({ id, do: 'drain_surplus', ordinal }))
      log.info('a replica is not needed any more', { model, replica: id, node })
    return
  }
  const event = returnOf(replica)
  // What may have taken the slot meanwhile keeps it.
  await advance({ read: () => loads.find(fate.to), eventOf: (load) => (load.revision === replica.revision ? event : null) })
}
