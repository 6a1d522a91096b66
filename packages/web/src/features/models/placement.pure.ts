// Compares two placements of a model: the current one, and that of another scheduling.
import type { PlacementView } from '@muster/protocol'
import { listNames } from '../../format.ts'

export interface NodeChange {
  readonly id: string
  readonly name: string
  readonly change: 'becomes' | 'ceases' | 'stays' | 'stays_out'
  /** Why the node is excluded. */
  readonly reason: string
}

/** Sorted by name, so that rows stay in place while the user types. */
export function comparePlacement(now: PlacementView, then: PlacementView): readonly NodeChange[] {
  const before = new Map(now.nodes.map((node) => [node.node_id, node.eligible]))
  return then.nodes
    .map(({ node_id: id, node_name: name, eligible, reason }) => {
      const was = before.get(id) ?? false
      const change = eligible ? (was ? 'stays' : 'becomes') : was ? 'ceases' : 'stays_out'
      return { id, name, change, reason } as const
    })
    .toSorted((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0))
}

export function changeSentence(changes: readonly NodeChange[]): string {
  const names = (kind: NodeChange['change']): string[] => changes.filter(({ change }) => change === kind).map(({ name }) => name)
  const [gained, lost] = [names('becomes'), names('ceases')]
  const eligible = gained.length + names('stays').length
  const parts = [
    ...(gained.length === 0 ? [] : [`${listNames(gained)} ${gained.length === 1 ? 'becomes' : 'become'} eligible`]),
    ...(lost.length === 0 ? [] : [`${listNames(lost)} ${lost.length === 1 ? 'is' : 'are'} no longer eligible`]),
  ]
  if (parts.length === 0) return eligible === 0 ? 'No eligible nodes, as before.' : 'The same nodes are eligible.'
  return `${parts.join('; ')}${eligible === 0 ? '; no eligible nodes remain' : ''}.`
}
