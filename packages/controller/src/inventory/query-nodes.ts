// Queries nodes for their inventory: for listings, when the stored inventory is missing or cannot be trusted, and as the probe of
// nodes that have not answered a command yet. A reply proves that commands reach the node, no responders prove the opposite, a
// timeout proves nothing.
import { type Bus, BusError } from '@muster/bus'
import { type Clock, inLanes, type Log } from '@muster/host'
import { backendList, type BackendList, type NodeId } from '@muster/protocol'
import { statusOf } from '../nodes/view.ts'
import type { InventoryRequest, InventoryStore } from '../store/inventory.ts'
import type { NodeRecord } from '../store/nodes.ts'
import type { PulseStore } from '../store/pulses.ts'
import { isAsyncWorker } from '../intents/legacy.ts'
import type { SettleByInventory } from './reports.ts'

export interface NodeQueriesDeps {
  readonly bus: Bus
  readonly inventories: InventoryStore
  readonly pulses: PulseStore
  /** Settles the intents that the inventory fulfills. */
  readonly settleByInventory: SettleByInventory
  readonly clock: Clock
  readonly log: Log
}

const listing = { timeoutMs: 2_000, atOnce: 64 }
/** A node that did not answer is left out of listings for a while, so that it does not slow them down. */
const skipSilentMs = 10_000
const maxRemembered = 10_000
const probeTimeoutMs = 5_000
/** Unproven nodes are probed soon and often; nodes that do not answer rarely, or their status would flap. */
const probePace = { unprovenMs: 5_000, unansweredMs: 60_000, limit: 64 }

/** The node has not reported its inventory since it started, or is of a kind that reports nothing unless queried. */
export const isDoubtful = (node: NodeRecord): boolean => node.inventoryIncarnation !== node.incarnation || !isAsyncWorker(node.features)

/**
 * Pending, offline and draining nodes and agents are never queried; absent ones are shown from their last inventory. Nor is a
 * node that has not reported since its approval: nothing listens there yet, which would count as not answering.
 */
export function mayBeQueried(node: NodeRecord): boolean {
  const { status } = statusOf(node)
  return node.nodeType !== 'agent' && node.liveness !== 'new' && (status === 'healthy' || status === 'unhealthy')
}

export type NodeQueries = ReturnType<typeof createNodeQueries>

export function createNodeQueries(deps: NodeQueriesDeps) {
  const { inventories, pulses, clock, log } = deps
  const running = new Map<NodeId, Promise<boolean>>()
  const probes = new Set<Promise<unknown>>()
  const silentSince = new Map<NodeId, number>()
  const isSkipped = ({ id }: NodeRecord): boolean => clock.monotonic() - (silentSince.get(id) ?? -Infinity) < skipSilentMs

  const start = ({ id, incarnation }: NodeRecord, requestedAt: string): Promise<boolean> => {
    const query = queryNode(deps, { id, incarnation, requestedAt }, { timeoutMs: listing.timeoutMs }).finally(() => running.delete(id))
    running.set(id, query)
    return query
  }
  const queryForListing = async (node: NodeRecord, requestedAt: string): Promise<boolean> => {
    const hasAnswered = await (running.get(node.id) ?? start(node, requestedAt))
    if (silentSince.size >= maxRemembered) silentSince.clear()
    if (hasAnswered) silentSince.delete(node.id)
    else silentSince.set(node.id, clock.monotonic())
    return hasAnswered
  }
  return {
    /** Stores the inventories of the nodes that answer, and returns their ids. Never throws because of one node. */
    async query(nodes: readonly NodeRecord[]): Promise<NodeId[]> {
      const queried = nodes.filter((node) => mayBeQueried(node) && !isSkipped(node))
      if (queried.length === 0) return []
      const requestedAt = await inventories.now()
      const answers = await inLanes(queried, listing, async (node) => ((await queryForListing(node, requestedAt)) ? [node.id] : []))
      return answers.flat()
    },
    /** Sends the due probes and returns: a slow node delays no other. */
    async probeUnproven(signal: AbortSignal): Promise<void> {
      for (const node of await pulses.takeUnproven(probePace)) {
        const probe = queryNode(deps, node, { timeoutMs: probeTimeoutMs, signal })
          .catch((error: unknown) => log.warn('cannot record the outcome of a probe', { node: node.id, error }))
          .finally(() => probes.delete(probe))
        probes.add(probe)
      }
    },
    /** Resolves when no probe runs. */
    async drained(): Promise<void> {
      await Promise.all(probes)
    },
  }
}

/** True when the node answered with its inventory. Throws only when the answer cannot be recorded. */
async function queryNode(
  { bus, inventories, pulses, settleByInventory, log }: NodeQueriesDeps,
  queried: InventoryRequest,
  limits: { timeoutMs: number; signal?: AbortSignal },
): Promise<boolean> {
  const node = queried.id
  let list: BackendList
  try {
    list = await bus.request(backendList, { node }, {}, limits)
  } catch (error) {
    if (error instanceof BusError && error.code === 'no_responders') await pulses.recordNoResponders(queried)
    else if (limits.signal?.aborted !== true) log.warn('backend.list failed', { node, error })
    return false
  }
  if (list.error !== undefined) log.warn('node cannot list its backends', { node, error: list.error })
  const isNews = list.error === undefined && (await inventories.recordAnswer(queried, list))
  await pulses.recordAnswered(queried)
  if (isNews) await settleByInventory(node, list)
  return list.error === undefined
}
