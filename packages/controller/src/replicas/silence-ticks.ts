// Sends the replicas of a node to the pages when the node falls silent, and when it reports again: their state is unknown in
// between, and no stored change says so.
import type { Clock } from '@muster/host'
import type { NodeId } from '@muster/protocol'
import type { ReplicaStore } from '../store/replicas.ts'

export interface SilenceTicksDeps {
  readonly replicas: Pick<ReplicaStore, 'listOfNode'>
  readonly tick: (replicaIds: readonly string[]) => void
  readonly unknownAfterMs: number
  readonly clock: Pick<Clock, 'monotonic'>
}

export function createSilenceTicks({ replicas, tick, unknownAfterMs, clock }: SilenceTicksDeps) {
  const heardAt = new Map<NodeId, number>()
  /** A removed node stays here; there are few. */
  const silent = new Set<NodeId>()

  async function send(node: NodeId): Promise<void> {
    tick((await replicas.listOfNode(node)).map(({ id }) => id))
  }

  return {
    /** Called once a second with the nodes whose heartbeats arrived since. A missed tick is harmless. */
    note(reported: readonly NodeId[]): void {
      const now = clock.monotonic()
      const changed = reported.filter((node) => silent.delete(node))
      for (const node of reported) heardAt.set(node, now)
      for (const [node, at] of heardAt) {
        if (now - at <= unknownAfterMs) continue
        heardAt.delete(node)
        silent.add(node)
        changed.push(node)
      }
      for (const node of changed) send(node).catch(() => undefined)
    },
  }
}
