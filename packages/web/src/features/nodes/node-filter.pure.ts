// Filters of the node list.
import type { NodeView } from '@muster/protocol'
import { searchFor } from '../../format.ts'

export interface NodeFilter {
  readonly q?: string | undefined
  readonly type?: string | undefined
  readonly state?: string | undefined
  /** `key` or `key=value`. */
  readonly label?: string | undefined
}

export function filterNodes(nodes: readonly NodeView[], { q = '', type, state, label }: NodeFilter): readonly NodeView[] {
  const isFound = searchFor(q)
  return nodes.filter(
    (node) =>
      (type === undefined || node.node_type === type) &&
      (state === undefined || node.status === state) &&
      (label === undefined || hasLabel(node, label)) &&
      isFound(node.name, node.id, ...Object.entries(node.labels).map(([key, value]) => `${key}=${value}`)),
  )
}

export const isFiltered = (filter: NodeFilter): boolean =>
  [filter.q, filter.type, filter.state, filter.label].some((value) => value !== undefined && value !== '')

/** `label` is KEY or KEY=VALUE; only values may contain `=`. */
function hasLabel({ labels }: NodeView, label: string): boolean {
  const split = label.indexOf('=')
  return split < 0 ? Object.hasOwn(labels, label) : labels[label.slice(0, split)] === label.slice(split + 1)
}

/** Keys with more values are offered without them. */
const maxValues = 20

export function labelChoices(nodes: readonly NodeView[]): string[] {
  const values = new Map<string, Set<string>>()
  for (const { labels } of nodes)
    for (const [key, value] of Object.entries(labels)) values.set(key, (values.get(key) ?? new Set()).add(value))
  values.delete('node.name')
  return [...values]
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .flatMap(([key, all]) => [key, ...(all.size > maxValues ? [] : [...all].toSorted().map((value) => `${key}=${value}`))])
}
