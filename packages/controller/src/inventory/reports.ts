// Inventories that nodes publish: the newest of each node is kept until the database has it. Every controller receives them;
// the first to write one settles the intents that it fulfills.
import { type Clock, createLoop, inLanes, type Log } from '@muster/host'
import type { BackendList, NodeId } from '@muster/protocol'
import type { InventoryStore } from '../store/inventory.ts'
import type { EventOf } from '../work/inbound.ts'

export type SettleByInventory = (nodeId: NodeId, list: BackendList) => Promise<void>

export interface InventoryReportsDeps {
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
