// Asking one node for its inventory, and drawing the conclusions: an answer proves that commands reach it, no responders
// proves the opposite, and a timeout proves nothing.
import { BusError, type Bus } from '@muster/bus'
import type { Log } from '@muster/host'
import { backendList, type BackendList } from '@muster/protocol'
import type { AskedForInventory, InventoryStore } from '../store/inventory.ts'
import type { PulseStore } from '../store/pulses.ts'
import type { SettleByInventory } from './listen.ts'

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
