// Chooses the nodes of an operation. Pure.
import { matchesSelector, type BackendName, type NodeId, type Selector } from '@muster/protocol'
import { effectiveLabels } from '../nodes/labels.ts'
import { statusOf } from '../nodes/view.ts'
import type { NodeRecord } from '../store/nodes.ts'

export type NodeSelection = Readonly<{ nodes?: readonly NodeId[] | undefined; selector?: Selector | undefined }>

export type Choice =
  | Readonly<{ kind: 'chosen'; nodes: readonly NodeRecord[] }>
  | Readonly<{ kind: 'unknown_node'; id: NodeId }>
  /** Named explicitly, and nothing can be installed there. */
  | Readonly<{ kind: 'not_eligible'; node: NodeRecord; reason: string }>

/** Approved nodes that are not agents. Others are left out silently unless named. */
export function chooseNodes(all: readonly NodeRecord[], { nodes, selector }: NodeSelection): Choice {
  if (nodes !== undefined) return chooseNamed(all, nodes)
  const eligible = all.filter((node) => whyNot(node) === null)
  return {
    kind: 'chosen',
    nodes: selector === undefined ? eligible : eligible.filter((node) => matchesSelector(selector, effectiveLabels(node))),
  }
}

function chooseNamed(all: readonly NodeRecord[], ids: readonly NodeId[]): Choice {
  const chosen: NodeRecord[] = []
  for (const id of new Set(ids)) {
    const node = all.find((each) => each.id === id)
    if (node === undefined) return { kind: 'unknown_node', id }
    const reason = whyNot(node)
    if (reason !== null) return { kind: 'not_eligible', node, reason }
    chosen.push(node)
  }
  return { kind: 'chosen', nodes: chosen }
}

const whyNot = (node: NodeRecord): string | null => {
  if (node.nodeType === 'agent') return 'it is an agent node, which has no backends'
  return node.approvedAt === null ? 'it is waiting for approval' : null
}

export const hasBackend = (node: NodeRecord, backend: BackendName): boolean => node.inventory.some(({ name }) => name === backend)

/**
 * A deletion is for every node that has the backend, has an intent for it, or is away: a node that returns later must not bring
 * it back.
 */
export function mayHave(nodes: readonly NodeRecord[], backend: BackendName, intentNodes: ReadonlySet<string>): NodeRecord[] {
  return nodes.filter((node) => hasBackend(node, backend) || intentNodes.has(node.id) || statusOf(node).status !== 'healthy')
}
