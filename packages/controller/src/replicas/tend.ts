// Tends replicas without a load, and unloads draining ones: each by its own ID, repeatedly until it has exited.
import type { Bus } from '@muster/bus'
import { inLanes, type Log } from '@muster/host'
import { modelUnload, type NodeId, type ReplicaId } from '@muster/protocol'
import type { Advance } from '../loads/advance.ts'
import type { LoadStore } from '../store/loads.ts'
import type { ReplicaRecord, ReplicaStore } from '../store/replicas.ts'
import { fateOf, returnOf } from './replicas.pure.ts'

export interface TendDeps {
  readonly bus: Bus
  readonly loads: LoadStore
  readonly replicas: ReplicaStore
  readonly advance: Advance
  readonly log: Log
}

const unloadEveryMs = 5_000
/**
 * A disconnected controller delays an unload by this at most: the worker then refuses its requests, and it tries another replica.
 */
const patienceMs = 10_000
const answerWithinMs = 2_000
const batch = 64
const unloadAtOnce = 16

export type Unload = (replica: { id: ReplicaId; nodeId: NodeId }, signal: AbortSignal) => Promise<void>

/** Never rejects: the request is repeated until the process has exited. */
export function createUnload({ bus, log }: Pick<TendDeps, 'bus' | 'log'>): Unload {
  return async ({ id, nodeId: node }, signal) => {
    try {
      const reply = await bus.request(modelUnload, { node }, { replica_id: id }, { timeoutMs: answerWithinMs, signal })
      if ('accepted' in reply && !reply.accepted)
        log.warn('worker refused to unload a replica', { node, replica: id, error: reply.failure.message })
    } catch (error) {
      if (!signal.aborted) log.debug('unload request failed', { node, replica: id, error })
    }
  }
}

export function createTendReplicas(deps: TendDeps & { readonly unload: Unload }) {
  const { loads, replicas, unload } = deps
  /** True: some wait until no controller routes to them, and no event wakes the loop for that. */
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
    const { due, areSomeWaiting } = await replicas.takeDrains({ everyMs: unloadEveryMs, patienceMs, limit: batch })
    await inLanes(due, { atOnce: unloadAtOnce }, (drain) => unload(drain, signal))
    return areSomeWaiting
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
    if (await replicas.change({ id, do: 'drain_surplus', ordinal })) log.info('replica is no longer needed', { model, replica: id, node })
    return
  }
  const event = returnOf(replica)
  // A load that has another replica by now keeps that one.
  await advance({ read: () => loads.find(fate.to), eventOf: (load) => (load.revision === replica.revision ? event : null) })
}
