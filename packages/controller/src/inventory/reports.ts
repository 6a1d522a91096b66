// What nodes say of their own accord about what they have installed: kept until the database has it, the newest of each.
// Every controller hears it; the first to write it draws the conclusions.
import { type Clock, createLoop, inLanes, type Log } from '@muster/host'
import type { BackendList, NodeId } from '@muster/protocol'
import type { InventoryStore } from '../store/inventory.ts'
import type { EventOf } from '../work/inbound.ts'

export type SettleByInventory = (nodeId: NodeId, list: BackendList) => Promise<void>

export interface InventoryListenerDeps {
  readonly inventories: InventoryStore
  /** Ends what waits for this to be so. */
  readonly settleByInventory: SettleByInventory
  readonly clock: Clock
  readonly log: Log
}

type Said = EventOf<'inventory'>
type Waiting = Readonly<{ node: NodeId; said: Said }>

const retryMs = 1_000
const idleMs = 60_000
const writeAtOnce = 4
/** Ids come from the bus, so anybody on it could invent them; what is remembered is bounded. */
const mostWaiting = 10_000

export function createInventoryListener({ inventories, settleByInventory, clock, log }: InventoryListenerDeps) {
  // By node and process: what a wrong process says in a node's name must not push out what the right one said.
  const waiting = new Map<string, Waiting>()
  const loop = createLoop({ what: 'cannot record inventories; retrying', retryMs, clock, log })

  const receive = (said: Said, node: NodeId): void => {
    if (said.error !== undefined) return log.warn('a node could not list its backends', { node, error: said.error })
    const key = `${node} ${said.incarnation}`
    const before = waiting.get(key)
    if (before !== undefined && before.said.seq > said.seq) return
    if (before === undefined && waiting.size >= mostWaiting) return log.warn('an inventory was dropped: too many wait', { node })
    waiting.set(key, { node, said })
    loop.wake()
  }

  const write = async ([key, each]: [string, Waiting]): Promise<void> => {
    const { node, said } = each
    const isNews = await inventories.record(node, said)
    if (isNews) await settleByInventory(node, said)
    // Only what was written is forgotten: what came meanwhile waits on.
    if (waiting.get(key) === each) waiting.delete(key)
  }

  return {
    receive,
    /** Until aborted. */
    async run(signal: AbortSignal): Promise<void> {
      await loop.run(async () => {
        await inLanes([...waiting], { atOnce: writeAtOnce }, write)
        return waiting.size > 0 ? retryMs : idleMs
      }, signal)
    },
  }
}
