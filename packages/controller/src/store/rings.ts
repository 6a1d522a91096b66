// In which order the nodes of an upgrade come. Pure.
import { z } from 'zod'

export const RolloutSpec = z.object({
  /** How many nodes come before all others. */
  canary: z.number().int().min(1),
  maxParallel: z.number().int().min(1),
  /** How long all that is under way has to be well. */
  minHealthyMs: z.number().min(0),
})
export type RolloutSpec = z.infer<typeof RolloutSpec>

export type RingNode = Readonly<{
  nodeId: string
  nodeName: string
  /** Processes of the backend live there. */
  hasReplicas: boolean
  isHere: boolean
  /** It is to have another version than it has. */
  isChanged: boolean
}>

/** The ring of each node that is in one. One that is away comes with the last; when nobody is here there are none. */
export function ringsOf(nodes: readonly RingNode[], { canary, maxParallel }: Pick<RolloutSpec, 'canary' | 'maxParallel'>) {
  const concerned = nodes.filter((node) => node.hasReplicas && node.isChanged).toSorted(byName)
  const here = concerned.filter((node) => node.isHere)
  const rings = new Map<string, number>()
  for (const [index, { nodeId }] of here.entries()) {
    rings.set(nodeId, index < canary ? 1 : 2 + Math.floor((index - canary) / maxParallel))
  }
  const last = Math.max(0, ...rings.values())
  if (last > 0) for (const { nodeId, isHere } of concerned) if (!isHere) rings.set(nodeId, last)
  return rings
}

const byName = (a: RingNode, b: RingNode): number => compare(a.nodeName, b.nodeName) || compare(a.nodeId, b.nodeId)
const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0)
