// Asking a node for its inventory, and drawing the conclusion: an answer proves that commands reach
// it, no responders proves the opposite, and a timeout proves nothing.
import { BusError, type Bus } from '@muster/bus'
import type { Log } from '@muster/host'
import { backendList, type BackendList, type NodeId } from '@muster/protocol'
import type { AskedForInventory, InventoryStore } from '../store/inventory.ts'
import type { PulseStore } from '../store/pulses.ts'

const askTimeoutMs = 5_000
/** Proof is asked for soon and again; a node that answers nothing is asked rarely, or its status would flap. */
const pace = { unprovenMs: 5_000, unansweredMs: 60_000, limit: 64 }

export interface ProberDeps {
  readonly bus: Bus
  readonly inventories: InventoryStore
  readonly pulses: PulseStore
  /** Ends what waits for this to be so. */
  readonly settleByInventory: (nodeId: NodeId, list: BackendList) => Promise<void>
  readonly log: Log
}

export function createProber({ bus, inventories, pulses, settleByInventory, log }: ProberDeps) {
  const underway = new Set<Promise<void>>()

  async function ask(asked: AskedForInventory, signal: AbortSignal): Promise<void> {
    const node = asked.id
    try {
      const list = await bus.request(backendList, { node }, {}, { timeoutMs: askTimeoutMs, signal })
      if (list.error !== undefined) log.warn('a node could not list its backends', { node, error: list.error })
      const isNews = list.error === undefined && (await inventories.recordAnswer(asked, list.backends))
      await pulses.recordAnswered(asked)
      if (isNews) await settleByInventory(node, list)
    } catch (error) {
      if (error instanceof BusError && error.code === 'no_responders') await pulses.recordNoResponders(asked)
      else if (!signal.aborted) log.warn('a node did not answer its probe', { node, error })
    }
  }

  return {
    /** Sends the due probes and returns: one node that takes its time holds up nobody. */
    async probeUnproven(signal: AbortSignal): Promise<void> {
      for (const asked of await pulses.takeUnproven(pace)) {
        const probe = ask(asked, signal)
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
