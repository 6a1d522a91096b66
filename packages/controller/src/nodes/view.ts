// A node as the API shows it. Pure.
import { nodeStatus, type NodeView } from '@muster/protocol'
import type { NodeRecord } from '../store/nodes.ts'
import { effectiveLabels } from './labels.ts'
import { applyVramBudget } from './vram-budget.ts'

export function statusOf(node: NodeRecord): ReturnType<typeof nodeStatus> {
  return nodeStatus({ ...node, approved: node.approvedAt !== null })
}

export function viewOf(node: NodeRecord): NodeView {
  const { status, reason } = statusOf(node)
  return {
    id: node.id,
    name: node.name,
    node_type: node.nodeType,
    status,
    status_reason: reason,
    draining: node.draining,
    labels: effectiveLabels(node),
    resources: applyVramBudget(node.resources, node.vramBudget),
    vram_budget: node.vramBudget,
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
    backends: node.nodeType === 'agent' ? [] : node.inventory.map((backend) => backend.name),
    pending_ops: node.pendingOps,
  }
}
