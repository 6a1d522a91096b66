// Receives the inventories that nodes publish, and queries nodes for them: for listings, when the stored inventory is missing or
// cannot be trusted, and as the probe of nodes that have not answered a command yet. A reply proves that commands reach the
// node, no responders prove the opposite, a timeout proves nothing.
import { type Bus, BusError } from '@muster/bus'
import { type Clock, createLoop, inLanes, type Log } from '@muster/host'
import { backendList, type BackendList, type NodeId } from '@muster/protocol'
import { isAsyncWorker } from '../intents/legacy.ts'
import { statusOf } from '../nodes/view.ts'
import type { InventoryRequest, InventoryStore } from '../store/inventory.ts'
import type { NodeRecord } from '../store/nodes.ts'
import type { PulseStore } from '../store/pulses.ts'
import type { EventOf } from '../work/exchange.ts'

export type SettleByInventory = (nodeId: NodeId, list: BackendList) => Promise<void>

interface InventoryReportsDeps {
  readonly inventories: InventoryStore
  /** Settles the intents that the inventory fulfills. */
  readonly settleByInventory: SettleByInventory
  readonly clock: Clock
  readonly log: Log
}

type InventoryReport = EventOf<'inventory'>
type PendingReport = Readonly<{ node: NodeId; report: InventoryReport }>

const retryMs = 1_000
const idleMs = 60_000
const writeAtOnce = 4
/** IDs come from the bus and cannot be trusted, so memory for them is bounded. */
const maxPending = 10_000

/**
 * The newest published inventory of each node is kept until the database has it. Every controller receives them; the first to
 * write one settles the intents that it fulfills.
 */
export function createInventoryReports({ inventories, settleByInventory, clock, log }: InventoryReportsDeps) {
  // By node and process: a report of a wrong process in a node's name must not replace that of the right one.
  const pending = new Map<string, PendingReport>()
  const loop = createLoop({ what: 'cannot record inventories; retrying', retryMs, clock, log })

  const receive = (report: InventoryReport, node: NodeId): void => {
    if (report.error !== undefined) return log.warn('node cannot list its backends', { node, error: report.error })
    const key = `${node} ${report.incarnation}`
    const before = pending.get(key)
    if (before !== undefined && before.report.seq > report.seq) return
    if (before === undefined && pending.size >= maxPending) return log.warn('inventory dropped: too many are pending', { node })
    pending.set(key, { node, report })
    loop.wake()
  }

  const write = async ([key, each]: [string, PendingReport]): Promise<void> => {
    const { node, report } = each
    const isNews = await inventories.record(node, report)
    if (isNews) await settleByInventory(node, report)
    // A newer report that arrived meanwhile stays pending.
    if (pending.get(key) === each) pending.delete(key)
  }

  return {
    receive,
    /** Runs until aborted. */
    async run(signal: AbortSignal): Promise<void> {
      await loop.run(async () => {
        await inLanes([...pending], { atOnce: writeAtOnce }, write)
        return pending.size > 0 ? retryMs : idleMs
      }, signal)
    },
  }
}

export interface NodeQueriesDeps extends InventoryReportsDeps {
  readonly bus: Bus
  readonly pulses: PulseStore
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
