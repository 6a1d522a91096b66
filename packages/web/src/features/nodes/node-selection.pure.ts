// The selected nodes of the list, as the address has them: `all`, which follows the filters, or IDs separated by dots. `all` keeps
// the address short with hundreds of nodes.
import type { NodeActionResult, NodeAction, NodeView } from '@muster/protocol'
import { plural } from '../../format.ts'

/** The selected nodes among those that are shown: a node that a filter hides is not acted on. */
export function pickNodes<N extends Pick<NodeView, 'id'>>(picked: string | undefined, shown: readonly N[]): readonly N[] {
  if (picked === undefined || picked === '') return []
  if (picked === 'all') return shown
  const ids = new Set(picked.split('.'))
  return shown.filter(({ id }) => ids.has(id))
}

/** `shown`: the IDs of the list, separated by dots. Undefined removes the parameter. */
export function togglePick(picked: string | undefined, id: string, shown: string): string | undefined {
  const all = shown.split('.')
  const before = picked === 'all' ? all : (picked?.split('.').filter((each) => all.includes(each)) ?? [])
  const after = before.includes(id) ? before.filter((each) => each !== id) : [...before, id]
  if (after.length === 0) return undefined
  return after.length === all.length ? 'all' : after.join('.')
}

export const bulkActions = ['approve', 'drain', 'resume', 'label', 'remove'] as const satisfies readonly NodeAction[]

export const isBulkAction = (act: string | undefined): act is NodeAction => bulkActions.some((each) => each === act)

export const bulkVerbs: Readonly<Record<NodeAction, string>> = {
  ...{ approve: 'Approve', drain: 'Drain', resume: 'Resume', label: 'Label', remove: 'Remove' },
}

export const bulkTitle = (act: NodeAction, count: number): string => `${bulkVerbs[act]} ${plural(count, 'node')}`

const effects: Readonly<Record<NodeAction, string>> = {
  approve: 'They get work after their first report.',
  drain: 'They get no new work until they are resumed. Replicas move to other nodes; each keeps serving until its replacement is ready.',
  resume: 'They get work again.',
  label: 'Models whose selector names the label may move.',
  remove:
    'Their replicas stop at once, their pending operations are cancelled, and their keys, labels and budgets are deleted. Backends and model files stay on their disks.',
}
export const bulkEffect = (act: NodeAction): string => effects[act]

/** Failures first, so that they are seen. */
export function sortResults(results: readonly NodeActionResult[]): NodeActionResult[] {
  const rank = { failed: 0, done: 1, unchanged: 2 } as const
  return results.toSorted((a, b) => rank[a.outcome] - rank[b.outcome])
}

/** `48 done, 2 unchanged.` */
export function describeResults(results: readonly NodeActionResult[]): string {
  const count = (wanted: NodeActionResult['outcome']): number => results.filter(({ outcome }) => outcome === wanted).length
  const parts = (['failed', 'done', 'unchanged'] as const).filter((outcome) => count(outcome) > 0)
  return `${parts.map((outcome) => `${count(outcome)} ${outcome}`).join(', ') || 'Nothing done'}.`
}
