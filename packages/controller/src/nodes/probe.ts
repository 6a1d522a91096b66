// Asks nodes of which nobody knows whether commands reach them: their answer is the proof.
import { askNode, type AskNodeDeps } from '../inventory/ask-node.ts'

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
