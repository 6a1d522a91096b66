// Asking nodes what they have, where nobody knows: several at once, each with its own limit, so that one that does not
// answer costs the others nothing. Pending, offline and draining nodes and agents are never asked.
import { type Clock, inLanes } from '@muster/host'
import type { NodeId } from '@muster/protocol'
import { statusOf } from '../nodes/view.ts'
import type { NodeRecord } from '../store/nodes.ts'
import { askNode, type AskNodeDeps } from './ask-node.ts'

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
