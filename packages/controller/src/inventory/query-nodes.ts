// Asking nodes what they have, where nobody knows: several at once, each with its own limit, so that one that does not
// answer costs the others nothing. Pending, offline and draining nodes and agents are never asked.
import { type Bus, BusError } from '@muster/bus'
import { type Clock, inLanes, type Log } from '@muster/host'
import { backendList, type BackendList, type NodeId } from '@muster/protocol'
import { statusOf } from '../nodes/view.ts'
import type { AskedForInventory, InventoryStore } from '../store/inventory.ts'
import type { NodeRecord } from '../store/nodes.ts'
import type { PulseStore } from '../store/pulses.ts'
import type { SettleByInventory } from './reports.ts'

export interface InventoryAskerDeps extends AskNodeDeps {
  readonly clock: Clock
}

const answerWithinMs = 2_000
const askAtOnce = 64
/** A node that did not answer is not asked again at once: a listing must not become slow because of it. */
const leaveAloneMs = 10_000
const mostRemembered = 10_000

/** It never said what it has, or is of a kind that says nothing unless asked. */
export const isDoubtful = (node: NodeRecord): boolean => node.inventoryIncarnation !== node.incarnation || !node.features.includes('async')

/** Absent nodes are shown from what they said last. */
function mayBeAsked(node: NodeRecord): boolean {
  const { status } = statusOf(node)
  return node.nodeType !== 'agent' && (status === 'healthy' || status === 'unhealthy')
}

export type InventoryAsker = ReturnType<typeof createInventoryAsker>

export function createInventoryAsker(deps: InventoryAskerDeps) {
  const { inventories, clock } = deps
  const underway = new Map<NodeId, Promise<boolean>>()
  const silentSince = new Map<NodeId, number>()
  const isLeftAlone = ({ id }: NodeRecord): boolean => clock.monotonic() - (silentSince.get(id) ?? -Infinity) < leaveAloneMs

  const ask = (node: NodeRecord, askedAt: string): Promise<boolean> => {
    const asked = { id: node.id, incarnation: node.incarnation, askedAt }
    const asking = askNode(deps, asked, { timeoutMs: answerWithinMs }).finally(() => underway.delete(node.id))
    underway.set(node.id, asking)
    return asking
  }
  const askAndRemember = async (node: NodeRecord, askedAt: string): Promise<boolean> => {
    const hasAnswered = await (underway.get(node.id) ?? ask(node, askedAt))
    if (silentSince.size >= mostRemembered) silentSince.clear()
    if (hasAnswered) silentSince.delete(node.id)
    else silentSince.set(node.id, clock.monotonic())
    return hasAnswered
  }
  return {
    /** Of these nodes, those that answered. Their inventories are stored; never throws because of one node. */
    async ask(nodes: readonly NodeRecord[]): Promise<NodeId[]> {
      const asked = nodes.filter((node) => mayBeAsked(node) && !isLeftAlone(node))
      if (asked.length === 0) return []
      const askedAt = await inventories.now()
      const answers = await inLanes(asked, { atOnce: askAtOnce }, async (node) => ((await askAndRemember(node, askedAt)) ? [node.id] : []))
      return answers.flat()
    },
  }
}

// Asking one node for its inventory, and drawing the conclusions: an answer proves that commands reach it, no responders
// proves the opposite, and a timeout proves nothing.

export interface AskNodeDeps {
  readonly bus: Bus
  readonly inventories: InventoryStore
  readonly pulses: PulseStore
  /** Ends what waits for this to be so. */
  readonly settleByInventory: SettleByInventory
  readonly log: Log
}

/** Whether it said what it has. Throws only when its answer can't be recorded. */
export async function askNode(
  { bus, inventories, pulses, settleByInventory, log }: AskNodeDeps,
  asked: AskedForInventory,
  limits: { timeoutMs: number; signal?: AbortSignal },
): Promise<boolean> {
  const node = asked.id
  let list: BackendList
  try {
    list = await bus.request(backendList, { node }, {}, limits)
  } catch (error) {
    if (error instanceof BusError && error.code === 'no_responders') await pulses.recordNoResponders(asked)
    else if (limits.signal?.aborted !== true) log.warn('a node did not say what backends it has', { node, error })
    return false
  }
  if (list.error !== undefined) log.warn('a node could not list its backends', { node, error: list.error })
  const isNews = list.error === undefined && (await inventories.recordAnswer(asked, list))
  await pulses.recordAnswered(asked)
  if (isNews) await settleByInventory(node, list)
  return list.error === undefined
}

// Asks nodes of which nobody knows whether commands reach them: their answer is the proof.

const askTimeoutMs = 5_000
/** Proof is asked for soon and again; a node that answers nothing is asked rarely, or its status would flap. */
const pace = { unprovenMs: 5_000, unansweredMs: 60_000, limit: 64 }

export function createProber(deps: AskNodeDeps) {
  const { pulses, log } = deps
  const underway = new Set<Promise<unknown>>()

  return {
    /** Sends the due probes and returns: one node that takes its time holds up nobody. */
    async probeUnproven(signal: AbortSignal): Promise<void> {
      for (const asked of await pulses.takeUnproven(pace)) {
        const probe = askNode(deps, asked, { timeoutMs: askTimeoutMs, signal })
          .catch((error: unknown) => log.warn('the outcome of a probe could not be recorded', { node: asked.id, error }))
          .finally(() => underway.delete(probe))
        underway.add(probe)
      }
    },

    async settle(): Promise<void> {
      await Promise.all(underway)
    },
  }
}
