// Orders the nodes of an upgrade into rings. Pure.
import { z } from 'zod'

export const RolloutSpec = z.object({
  /** Number of nodes in the first ring. */
  canary: z.number().int().min(1),
  maxParallel: z.number().int().min(1),
  /** How long all upgraded nodes have to be healthy before the next ring. */
  minHealthyMs: z.number().min(0),
})
export type RolloutSpec = z.infer<typeof RolloutSpec>

export type RingNode = Readonly<{
  nodeId: string
  nodeName: string
  /** Replicas of the backend run there. */
  hasReplicas: boolean
  isReachable: boolean
  /** The upgrade changes the version on this node. */
  isChanged: boolean
}>

/** The ring of each node that runs the backend. Absent nodes join the last ring; if all are absent, there are no rings. */
export function ringsOf(nodes: readonly RingNode[], { canary, maxParallel }: Pick<RolloutSpec, 'canary' | 'maxParallel'>) {
  const concerned = nodes.filter((node) => node.hasReplicas && node.isChanged).toSorted(byName)
  const here = concerned.filter((node) => node.isReachable)
  const rings = new Map<string, number>()
  for (const [index, { nodeId }] of here.entries()) {
    rings.set(nodeId, index < canary ? 1 : 2 + Math.floor((index - canary) / maxParallel))
  }
  const last = Math.max(0, ...rings.values())
  if (last > 0) for (const { nodeId, isReachable } of concerned) if (!isReachable) rings.set(nodeId, last)
  return rings
}

const byName = (a: RingNode, b: RingNode): number => compare(a.nodeName, b.nodeName) || compare(a.nodeId, b.nodeId)
const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0)
