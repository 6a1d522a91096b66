// What another scheduling would change about where a model may run. Pure.
import type { PlacementView } from '@muster/protocol'
import { listNames } from '../../format.ts'

export interface NodeChange {
  readonly id: string
  readonly name: string
  readonly change: 'becomes' | 'ceases' | 'stays' | 'stays_out'
  /** What would exclude it then. */
  readonly reason: string
}

/** By name: nothing moves while somebody types. */
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
  const names = (wanted: NodeChange['change']): string[] => changes.filter(({ change }) => change === wanted).map(({ name }) => name)
  const [gained, lost] = [names('becomes'), names('ceases')]
  const left = gained.length + names('stays').length
  const told = [
    ...(gained.length === 0 ? [] : [`${listNames(gained)} ${gained.length === 1 ? 'becomes' : 'become'} eligible`]),
    ...(lost.length === 0 ? [] : [`${listNames(lost)} no longer ${lost.length === 1 ? 'is' : 'are'}`]),
  ]
  if (told.length === 0) return left === 0 ? 'No node is eligible, as now.' : 'The same nodes are eligible as now.'
  return `${told.join('; ')}${left === 0 ? ': no node would be left' : ''}.`
}
