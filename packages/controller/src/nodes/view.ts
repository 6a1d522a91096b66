// Status and view of a node and of its intents.
import {
  type IntentView,
  isHeldBack,
  isOpen,
  matchesSelector,
  nodeStatus,
  type NodeStatus,
  type NodeView,
  pausedMessage,
  presenceOf,
  type Scheduling,
  viewOpenIntent,
} from '@muster/protocol'
import type { IntentRecord } from '../store/intent-rows.ts'
import type { NodeRecord, NodeStore } from '../store/nodes.ts'
import { effectiveLabels } from './labels.ts'
import { applyVramBudget, limitsInEffect } from './limits.ts'

export function statusOf(node: NodeRecord): ReturnType<typeof nodeStatus> {
  return nodeStatus({ ...node, approved: node.approvedAt !== null })
}

/** True when `replicas: all` places a replica of the model on this node. */
export function mayRunOn(node: NodeRecord, { name, scheduling }: { readonly name: string; readonly scheduling: Scheduling }): boolean {
  const { node_selector: selector } = scheduling
  if (node.nodeType === 'agent' || statusOf(node).status !== 'healthy' || node.unloadedModels.includes(name)) return false
  return selector === undefined || matchesSelector(selector, effectiveLabels(node))
}

export function viewOf(node: NodeRecord): NodeView {
  const { status, reason } = statusOf(node)
  return {
    id: node.id,
    name: node.name,
    node_type: node.nodeType,
    status,
    status_reason: reason,
    liveness: node.liveness,
    draining: node.draining,
    labels: effectiveLabels(node),
    resources: applyVramBudget(node.resources, node.vramBudget),
    vram_budget: node.vramBudget,
    max_replicas_per_model: node.maxReplicasPerModel,
    limits: limitsInEffect(node),
    version: node.version,
    os: node.os,
    arch: node.arch,
    capability: node.capability,
    features: [...node.features],
    gateway_url: node.gatewayUrl,
    public_key: node.publicKey,
    created_at: node.createdAt,
    approved_at: node.approvedAt,
    last_seen_at: node.lastSeenAt,
    in_flight: node.inFlight,
    models: [...node.models],
    unloaded_models: [...node.unloadedModels],
    backends: node.nodeType === 'agent' ? [] : node.inventory.map((backend) => backend.name),
    pending_ops: node.pendingOps,
  }
}

/** Counted without reading all nodes. Statuses that no node has are left out. */
export async function countByStatus(nodes: NodeStore): Promise<Partial<Record<NodeStatus, number>>> {
  const counts: Partial<Record<NodeStatus, number>> = {}
  for (const { count, ...facts } of await nodes.countByStatusFacts()) {
    const { status } = nodeStatus({ ...facts, lastSeenAt: null })
    counts[status] = (counts[status] ?? 0) + count
  }
  return counts
}

/** With the reason why it is not applied yet. */
export function viewIntent({ intent, bytes, requestedAt, isPaused }: IntentRecord, node: NodeRecord): IntentView {
  const { backend, kind, state, generation, opId, attempts, lastFailure } = intent
  const about = { backend, kind, state, generation, operation_id: opId, attempts, failure: lastFailure, requested_at: requestedAt }
  if (!isOpen(intent)) {
    const message = intent.state === 'failed' || intent.state === 'dead' ? (lastFailure?.message ?? '') : intent.note
    return { ...about, next_retry_at: null, finished_at: new Date(intent.finishedAt).toISOString(), message }
  }
  if (isHeldBack(intent, isPaused)) return { ...about, next_retry_at: null, finished_at: null, message: pausedMessage(intent) }
  const presence = presenceOf({ ...node, approved: node.approvedAt !== null })
  const { message, nextRetryAt } = viewOpenIntent(intent, presence, bytes.percentage > 0)
  return { ...about, next_retry_at: nextRetryAt === null ? null : new Date(nextRetryAt).toISOString(), finished_at: null, message }
}
