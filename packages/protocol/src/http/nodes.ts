// /api/nodes: the nodes of the fleet, for administrators.
import { z } from 'zod'
import { Failure } from '../failure.ts'
import { BackendName, ModelName, NodeId, NodeStatus, NodeType, OperationId } from '../ids.ts'
import { InstalledBackend } from '../messages/backend.ts'
import { MaxReplicasPerModel, Resources, VramBudget } from '../messages/node.ts'
import { route } from './define.ts'
import { ReplicaView } from './models.ts'
import { LabelPatch, Labels, SettableLabelKey } from './selector.ts'

/** `worker`: set at the start of the worker. `api`: set by an administrator. */
const LimitOrigin = z.enum(['worker', 'api'])
/** The limits in effect: of two, the lower one. Null: no limit. */
export const NodeLimits = z.object({
  vram_budget: z.object({ value: z.string(), from: LimitOrigin }).nullable(),
  max_replicas_per_model: z.object({ value: z.number(), from: LimitOrigin }).nullable(),
})
export type NodeLimits = z.infer<typeof NodeLimits>

export const NodeView = z.object({
  id: NodeId,
  name: z.string(),
  node_type: NodeType,
  status: NodeStatus,
  status_reason: z.string(),
  /** `left`: its worker was stopped. `silent`, then `gone`: no heartbeats. `new`: none since its approval. */
  liveness: z.enum(['new', 'present', 'silent', 'gone', 'left']).optional(),
  draining: z.boolean(),
  labels: z.record(z.string(), z.string()),
  resources: Resources,
  /** Set by an administrator, as is `max_replicas_per_model`; `limits` has the limits in effect. */
  vram_budget: z.string().nullable(),
  max_replicas_per_model: z.number().nullable().optional(),
  limits: NodeLimits.optional(),
  version: z.string(),
  os: z.string(),
  arch: z.string(),
  capability: z.string(),
  features: z.array(z.string()),
  gateway_url: z.string(),
  public_key: z.string(),
  created_at: z.string(),
  approved_at: z.string().nullable(),
  last_seen_at: z.string().nullable(),
  in_flight: z.number(),
  models: z.array(z.string()),
  /** Models that an administrator unloaded on this node alone: they do not start there. */
  unloaded_models: z.array(z.string()).optional(),
  backends: z.array(z.string()),
  pending_ops: z.number(),
})
export type NodeView = z.infer<typeof NodeView>

/** The intent for one backend of a node: the newest, open or ended. */
export const IntentView = z.object({
  backend: BackendName,
  kind: z.enum(['install', 'upgrade', 'delete']),
  state: z.enum(['waiting', 'sending', 'working', 'applied', 'failed', 'dead', 'cancelled']),
  generation: z.number(),
  operation_id: OperationId,
  attempts: z.number(),
  next_retry_at: z.string().nullable(),
  failure: Failure.nullable(),
  requested_at: z.string(),
  finished_at: z.string().nullable(),
  /** Why the intent is not applied yet, or its outcome. */
  message: z.string(),
})
export type IntentView = z.infer<typeof IntentView>

/** A sample of a node's resources; null: not reported. */
export const NodeSample = z.object({
  at: z.string(),
  available_ram: z.number().nullable(),
  available_vram: z.number().nullable(),
  available_disk: z.number().nullable(),
  in_flight: z.number().nullable(),
})
export type NodeSample = z.infer<typeof NodeSample>

const params = z.object({ id: NodeId })
const labels = z.object({ labels: z.record(z.string(), z.string()) })

export const nodeRoutes = {
  list: route({
    method: 'GET',
    path: '/api/nodes',
    access: 'read',
    summary: 'List nodes',
    response: z.object({ nodes: z.array(NodeView) }),
  }),
  get: route({ method: 'GET', path: '/api/nodes/:id', access: 'read', summary: 'Get a node', params, response: NodeView }),
  approve: route({
    method: 'POST',
    path: '/api/nodes/:id/approve',
    access: 'admin',
    summary: 'Approve a pending node',
    params,
    response: NodeView,
  }),
  drain: route({
    method: 'POST',
    path: '/api/nodes/:id/drain',
    access: 'admin',
    summary: 'Drain a node: it gets no new work',
    params,
    response: NodeView,
  }),
  resume: route({ method: 'POST', path: '/api/nodes/:id/resume', access: 'admin', summary: 'End a drain', params, response: NodeView }),
  remove: route({ method: 'DELETE', path: '/api/nodes/:id', access: 'admin', summary: 'Remove a node and its key', params, status: 204 }),
  labels: route({
    method: 'GET',
    path: '/api/nodes/:id/labels',
    access: 'read',
    summary: 'List the labels of a node, including automatic ones',
    params,
    response: labels,
  }),
  putLabels: route({
    method: 'PUT',
    path: '/api/nodes/:id/labels',
    access: 'admin',
    summary: 'Replace all labels except automatic ones',
    params,
    body: Labels,
    response: labels,
  }),
  patchLabels: route({
    method: 'PATCH',
    path: '/api/nodes/:id/labels',
    access: 'admin',
    summary: 'Change some labels; null removes one',
    params,
    body: LabelPatch,
    response: labels,
  }),
  deleteLabel: route({
    method: 'DELETE',
    path: '/api/nodes/:id/labels/:key',
    access: 'admin',
    summary: 'Remove one label',
    params: z.object({ id: NodeId, key: SettableLabelKey }),
    response: labels,
  }),
  putVramBudget: route({
    method: 'PUT',
    path: '/api/nodes/:id/vram-budget',
    access: 'admin',
    summary: 'Limit the GPU memory that Muster may use: a percentage or a size',
    params,
    body: z.strictObject({ value: VramBudget }),
    response: NodeView,
  }),
  deleteVramBudget: route({
    method: 'DELETE',
    path: '/api/nodes/:id/vram-budget',
    access: 'admin',
    summary: 'Remove the GPU memory limit',
    params,
    response: NodeView,
  }),
  putMaxReplicasPerModel: route({
    method: 'PUT',
    path: '/api/nodes/:id/max-replicas-per-model',
    access: 'admin',
    summary: 'Limit the replicas of one model on the node; a lower limit of its worker stays',
    params,
    body: z.strictObject({ value: MaxReplicasPerModel }),
    response: NodeView,
  }),
  deleteMaxReplicasPerModel: route({
    method: 'DELETE',
    path: '/api/nodes/:id/max-replicas-per-model',
    access: 'admin',
    summary: 'Remove the limit of replicas of one model',
    params,
    response: NodeView,
  }),
  backends: route({
    method: 'GET',
    path: '/api/nodes/:id/backends',
    access: 'read',
    summary: 'List the backends of its last inventory',
    params,
    response: z.object({ backends: z.array(InstalledBackend) }),
  }),
  intents: route({
    method: 'GET',
    path: '/api/nodes/:id/intents',
    access: 'read',
    summary: 'List the intents of its backends, with their state',
    params,
    response: z.object({ intents: z.array(IntentView) }),
  }),
  models: route({
    method: 'GET',
    path: '/api/nodes/:id/models',
    access: 'read',
    summary: 'List the replicas of a node',
    params,
    response: z.object({ replicas: z.array(ReplicaView) }),
  }),
  logs: route({
    method: 'GET',
    path: '/api/nodes/:id/logs',
    access: 'read',
    summary: 'Get the logs of its model processes; follow=true streams them as events',
    params,
    query: z.object({ model: ModelName.optional(), follow: z.enum(['true', 'false']).default('false') }),
    produces: 'text/plain',
  }),
  history: route({
    method: 'GET',
    path: '/api/nodes/:id/history',
    access: 'read',
    summary: 'Get its resources over the last hour, as received by this controller; intervals without heartbeats are left out',
    params,
    response: z.object({ interval_seconds: z.number(), samples: z.array(NodeSample) }),
  }),
}

export const joinTokenRoutes = {
  create: route({
    method: 'POST',
    path: '/api/join-tokens',
    access: 'admin',
    summary: 'Create a join token for one hour; it is shown once',
    response: z.object({ token: z.string(), expires_at: z.string(), url: z.string() }),
    status: 201,
  }),
}
