// How many nodes have which status, without reading them all.
import { nodeStatus, type NodeStatus } from '@muster/protocol'
import type { NodeStore } from '../store/nodes.ts'

/** Statuses that no node has are left out. */
export async function countByStatus(nodes: NodeStore): Promise<Partial<Record<NodeStatus, number>>> {
  const counts: Partial<Record<NodeStatus, number>> = {}
  for (const { count, ...facts } of await nodes.countByStatusFacts()) {
    const { status } = nodeStatus({ ...facts, lastSeenAt: null })
    counts[status] = (counts[status] ?? 0) + count
  }
  return counts
}
