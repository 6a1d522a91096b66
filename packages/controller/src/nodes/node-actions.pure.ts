// Decides about an action on many nodes: the nodes that it concerns, and the result for each. Pure.
import { matchesSelector, type NodeAction, type NodeActionRequest, type NodeActionResult, type NodeId } from '@muster/protocol'
import type { NodeRecord } from '../store/nodes.ts'
import { checkOverrides, effectiveLabels, type Overrides, patchLabels } from './labels.ts'

/** `node`: null when the request names an ID that no node has. */
export type ActionTarget = Readonly<{ id: NodeId; node: NodeRecord | null }>

export type TargetChoice =
  | Readonly<{ kind: 'chosen'; targets: readonly ActionTarget[] }>
  /** Nothing is done on any node. */
  | Readonly<{ kind: 'refused'; code: 'no_match' | 'not_confirmed'; message: string; count: number }>

/** Named nodes in the order of the request, each once; selected ones in the order of the list. */
export function chooseTargets(all: readonly NodeRecord[], request: NodeActionRequest): TargetChoice {
  const { nodes, selector, action, confirm, dry_run: isDryRun = false } = request
  const targets = nodes === undefined ? selectTargets(all, selector ?? {}) : nameTargets(all, nodes)
  const count = targets.length
  if (count === 0)
    return {
      kind: 'refused',
      code: 'no_match',
      count,
      message: 'the selector matches no node; GET /api/nodes shows the labels of all nodes',
    }
  const needsConfirm = action === 'remove' && nodes === undefined && !isDryRun
  if (needsConfirm && confirm === undefined)
    return {
      kind: 'refused',
      code: 'not_confirmed',
      count,
      message: `the selector matches ${count} ${plural(count)}; repeat with "confirm": ${count} to remove them`,
    }
  if (confirm !== undefined && confirm !== count && !isDryRun)
    return {
      kind: 'refused',
      code: 'not_confirmed',
      count,
      message: `${count} ${plural(count)} match, not ${confirm}; look at them with "dry_run": true, and repeat with "confirm": ${count}`,
    }
  return { kind: 'chosen', targets }
}

const plural = (count: number): string => (count === 1 ? 'node' : 'nodes')

const selectTargets = (all: readonly NodeRecord[], selector: NonNullable<NodeActionRequest['selector']>): ActionTarget[] =>
  all.filter((node) => matchesSelector(selector, effectiveLabels(node))).map((node) => ({ id: node.id, node }))

function nameTargets(all: readonly NodeRecord[], ids: readonly NodeId[]): ActionTarget[] {
  const byId = new Map(all.map((node) => [node.id, node]))
  return [...new Set(ids)].map((id) => ({ id, node: byId.get(id) ?? null }))
}

type Words = Readonly<{ would: string; did: string; already: string }>

const words: Readonly<Record<NodeAction, Words>> = {
  approve: { would: 'would be approved', did: 'approved', already: 'is approved already' },
  drain: { would: 'would be drained', did: 'drains: it gets no new work', already: 'is drained already' },
  resume: { would: 'would be resumed', did: 'gets work again', already: 'is not drained' },
  label: { would: 'would get these labels', did: 'has these labels', already: 'has these labels already' },
  remove: { would: 'would be removed', did: 'removed', already: 'is removed already' },
}

/** The outcome before anything is written: an action that has nothing to do on the node, or fails there, is known. */
export function expectOutcome(request: NodeActionRequest, { id, node }: ActionTarget): NodeActionResult {
  if (node === null) return unknownNode(id)
  const result = (outcome: NodeActionResult['outcome'], message: string): NodeActionResult => ({
    ...{ node_id: id, node_name: node.name, outcome, message },
  })
  const { would, already } = words[request.action]
  if (request.action === 'label') {
    const edit = editLabels(node, request)
    if (edit.outcome === 'refused') return result('failed', edit.message)
    return edit.outcome === 'same' ? result('unchanged', already) : result('done', would)
  }
  return isAlready(request.action, node) ? result('unchanged', already) : result('done', would)
}

function isAlready(action: Exclude<NodeAction, 'label'>, node: NodeRecord): boolean {
  switch (action) {
    case 'approve':
      return node.approvedAt !== null
    case 'drain':
      return node.draining
    case 'resume':
      return !node.draining
    case 'remove':
      return false
  }
}

export type LabelEdit = Readonly<
  { outcome: 'changed'; overrides: Overrides } | { outcome: 'same' } | { outcome: 'refused'; message: string }
>

export function editLabels(node: NodeRecord, { labels = {} }: Pick<NodeActionRequest, 'labels'>): LabelEdit {
  const before = effectiveLabels(node)
  const isSame = Object.entries(labels).every(([key, value]) => (Object.hasOwn(before, key) ? before[key] : null) === value)
  if (isSame) return { outcome: 'same' }
  const edited = checkOverrides(node, patchLabels(node, labels))
  return edited.outcome === 'ok' ? { outcome: 'changed', overrides: edited.overrides } : { outcome: 'refused', message: edited.message }
}

/** The result of an action that was carried out. `isChanged` is false when another request was first. */
export const resultOf = (action: NodeAction, node: Pick<NodeRecord, 'id' | 'name'>, isChanged: boolean): NodeActionResult => ({
  node_id: node.id,
  node_name: node.name,
  outcome: isChanged ? 'done' : 'unchanged',
  message: isChanged ? words[action].did : words[action].already,
})

export const unknownNode = (id: NodeId, name = ''): NodeActionResult => ({
  ...{ node_id: id, node_name: name, outcome: 'failed', message: `node ${id} does not exist; GET /api/nodes lists all nodes` },
})
