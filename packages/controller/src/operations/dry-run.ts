// The operation that a submission would become, for a dry run. Pure.
import { formatBytes, type OperationNode, type OperationView } from '@muster/protocol'
import type { IntentRecord, Plan } from '../store/intent-rows.ts'
import type { NodeRecord } from '../store/nodes.ts'
import type { OperationNodeRecord } from '../store/operations.ts'
import { intentKindOf, upToDateNote, type Submission, type SubmittedNode } from '../store/submissions.ts'
import { statusOf } from '../nodes/view.ts'
import { ringsOf } from '../store/operation-nodes.pure.ts'
import { viewOperation } from './view.ts'

export interface PreviewFacts {
  readonly nodes: readonly NodeRecord[]
  /** Nodes on which replicas of the backend run. */
  readonly using: ReadonlySet<string>
  readonly now: string
}

export function previewOf(submission: Submission, { nodes, using, now }: PreviewFacts): OperationView {
  const rings = ringsIn(submission, { nodes, using })
  const rows = submission.nodes
    .map((node) => {
      const known = nodes.find((each) => each.id === node.nodeId)
      return rowOf(submission, node, { known, now, ring: rings.get(node.nodeId) ?? null })
    })
    .toSorted((a, b) => (a.nodeName === b.nodeName ? compare(a.nodeId, b.nodeId) : compare(a.nodeName, b.nodeName)))
  const view = viewOperation({
    id: submission.id,
    kind: submission.kind,
    backend: submission.backend,
    model: null,
    requestedBy: submission.requestedBy,
    createdAt: now,
    finishedAt: null,
    pausedAt: null,
    dismissedAt: null,
    progress: 0,
    fileName: '',
    job: null,
    nodes: rows,
  })
  const byId = new Map<string, SubmittedNode>(submission.nodes.map((node) => [node.nodeId, node]))
  return { ...view, nodes: view.nodes.map((node) => withNotes(node, byId.get(node.node_id), { submission, nodes })) }
}

type NoteFacts = Readonly<{ submission: Submission; nodes: readonly NodeRecord[] }>

function withNotes(view: OperationNode, node: SubmittedNode | undefined, { submission, nodes }: NoteFacts): OperationNode {
  if (node === undefined || 'skip' in node) return view
  if (node.isCurrent) return { ...view, message: upToDateNote, up_to_date: true }
  const known = nodes.find(({ id }) => id === node.nodeId)
  const note = known === undefined ? null : diskNote(submission, { known, plan: node.plan })
  return note === null ? view : { ...view, message: view.message === '' ? note : `${view.message}; ${note}` }
}

/** A remark only: the free space was reported some time ago, and the worker removes unneeded content first. */
export function diskNote(
  { kind, backend }: Pick<Submission, 'kind' | 'backend'>,
  { known, plan }: { known: NodeRecord; plan: Plan },
): string | null {
  const free = known.resources.available_disk
  const isThere = kind === 'backend.install' && !plan.exact && known.inventory.some(({ name }) => name === backend)
  if (isThere || free === null || plan.sizeBytes === null || plan.sizeBytes <= free) return null
  return `the disk looks too small: ${backend} needs ${formatBytes(plan.sizeBytes)}, and ${formatBytes(free)} are free`
}

function ringsIn(submission: Submission, { nodes, using }: Pick<PreviewFacts, 'nodes' | 'using'>): Map<string, number> {
  const { rollout, backend } = submission
  if (rollout === undefined) return new Map()
  const planned = submission.nodes.flatMap((node) => {
    const known = nodes.find((each) => each.id === node.nodeId)
    if (!('plan' in node) || known === undefined) return []
    const { nodeId, nodeName, plan } = node
    const isChanged = plan.digest === null || !known.inventory.some((each) => each.name === backend && each.digest === plan.digest)
    return [{ nodeId, nodeName, hasReplicas: using.has(nodeId), isReachable: statusOf(known).status === 'healthy', isChanged }]
  })
  return ringsOf(planned, rollout)
}

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0)

type RowFacts = Readonly<{ known: NodeRecord | undefined; now: string; ring: number | null }>

function rowOf(submission: Submission, node: SubmittedNode, { known, now, ring }: RowFacts): OperationNodeRecord {
  const about = { nodeId: node.nodeId, nodeName: node.nodeName, ring }
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
      backend: submission.backend,
      kind: intentKindOf(submission.kind),
      generation: 0,
      epoch: 0,
      opId: submission.id,
      attempts: 0,
      lastFailure: null,
      isOverdue: false,
      mayRecreate: false,
      replaced: [],
      cancelRequested: false,
      state: 'waiting',
      nextAt: Date.parse(now),
      wasSent: false,
    },
    plan: node.plan,
    bytes: { phase: null, fileName: '', current: 0, total: 0, percentage: 0, seq: null },
    triedSince: 0,
    polledAt: null,
    requestedAt: now,
    awaitsRing: ring !== null && ring > 1,
    isPaused: false,
    rowVersion: 0,
  }
  const { approvedAt, draining, liveness, answering, lastSeenAt } = known
  return { ...about, status: 'open', record, node: { approved: approvedAt !== null, draining, liveness, answering, lastSeenAt } }
}
