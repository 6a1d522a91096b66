// What a wish would look like, without making it. Pure.
import type { OperationView } from '@muster/protocol'
import type { IntentRecord } from '../store/intent-rows.ts'
import type { NodeRecord } from '../store/nodes.ts'
import type { OperationNodeRecord } from '../store/operations.ts'
import { type Wish, wishKindOf, type WishedNode } from '../store/wishes.ts'
import { viewOperation } from './view.ts'

export function previewOf(wish: Wish, { nodes, now }: { nodes: readonly NodeRecord[]; now: string }): OperationView {
  const rows = wish.nodes
    .map((node) => rowOf(wish, node, { known: nodes.find((each) => each.id === node.nodeId), now }))
    .toSorted((a, b) => (a.nodeName === b.nodeName ? compare(a.nodeId, b.nodeId) : compare(a.nodeName, b.nodeName)))
  return viewOperation({
    id: wish.id,
    kind: wish.kind,
    backend: wish.backend,
    model: null,
    requestedBy: wish.requestedBy,
    createdAt: now,
    finishedAt: null,
    progress: 0,
    fileName: '',
    job: null,
    nodes: rows,
  })
}

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0)

function rowOf(wish: Wish, node: WishedNode, { known, now }: { known: NodeRecord | undefined; now: string }): OperationNodeRecord {
  const about = { nodeId: node.nodeId, nodeName: node.nodeName, ring: null }
  if ('skip' in node || known === undefined) {
    const message = 'skip' in node ? node.skip : ''
    return {
      ...about,
      status: 'skipped',
      message,
      error: null,
      errorCode: null,
      attempts: 0,
      dead: false,
      current: 0,
      total: 0,
      percentage: 0,
    }
  }
  const record: IntentRecord = {
    intent: {
      nodeId: node.nodeId,
      backend: wish.backend,
      kind: wishKindOf(wish.kind),
      generation: 0,
      epoch: 0,
      opId: wish.id,
      attempts: 0,
      lastFailure: null,
      isOverdue: false,
      cancelAsked: false,
      state: 'waiting',
      nextAt: Date.parse(now),
      wasSent: false,
    },
    plan: node.plan,
    bytes: { phase: null, fileName: '', current: 0, total: 0, percentage: 0, seq: null },
    triedSince: 0,
    askedAt: null,
    wishedAt: now,
    revision: 0,
  }
  const { approvedAt, draining, liveness, answering, lastSeenAt } = known
  return { ...about, status: 'open', record, node: { approved: approvedAt !== null, draining, liveness, answering, lastSeenAt } }
}
