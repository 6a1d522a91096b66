// /api/operations: operations of administrators, and their state on each node.
import { z } from 'zod'
import { FailureCode } from '../failure.ts'
import { NodeId, OperationId } from '../ids.ts'
import { Phase } from '../messages/node.ts'
import { route } from './define.ts'

export const OperationKind = z.enum([
  'backend.install',
  'backend.upgrade',
  'backend.delete',
  'model.install',
  'model.load',
  'model.unload',
  'model.delete',
  'model.prefetch',
])
export type OperationKind = z.infer<typeof OperationKind>

export const OperationState = z.enum(['running', 'background', 'succeeded', 'failed', 'cancelled'])
export type OperationState = z.infer<typeof OperationState>

export const OperationNodeStatus = z.enum(['queued', 'downloading', 'running_on_worker', 'success', 'error', 'cancelled', 'skipped'])
export type OperationNodeStatus = z.infer<typeof OperationNodeStatus>

export const OperationNode = z.object({
  node_id: z.string(),
  node_name: z.string(),
  status: OperationNodeStatus,
  phase: Phase.nullable(),
  message: z.string(),
  file_name: z.string(),
  current: z.number(),
  total: z.number(),
  percentage: z.number(),
  attempts: z.number(),
  next_retry_at: z.string().nullable(),
  dead: z.boolean(),
  ring: z.number().nullable(),
  error: z.string().nullable(),
  /** `rolled_back` is set by controllers only, when a rollout was rolled back. */
  error_code: z.union([FailureCode, z.literal('rolled_back')]).nullable(),
  /** The node has this version already, so nothing is done there. */
  up_to_date: z.boolean().optional(),
  /** Cancelled by an administrator, and not ended yet. */
  cancelling: z.boolean().optional(),
  /** Its ring of the rollout has not begun. */
  awaits_ring: z.boolean().optional(),
  /** The rollout failed: the node returns to the previous version. */
  returning: z.boolean().optional(),
  /** The source of the download has delivered nothing since then; the message says why, if the source does. */
  source_silent_since: z.string().optional(),
  /** Its operation is paused, so no attempt begins. */
  paused: z.boolean().optional(),
  /** The last heartbeat of an absent node that the operation waits for. */
  last_seen_at: z.string().optional(),
})
export type OperationNode = z.infer<typeof OperationNode>

export const OperationView = z.object({
  id: OperationId,
  kind: OperationKind,
  backend: z.string().nullable(),
  model: z.string().nullable(),
  state: OperationState,
  message: z.string(),
  /** The chosen build of an installed model, and the keys of its gallery entry that have no effect. */
  note: z.string().optional(),
  progress: z.number(),
  file_name: z.string(),
  current_bytes: z.number(),
  total_bytes: z.number(),
  created_at: z.string(),
  finished_at: z.string().nullable(),
  requested_by: z.string(),
  /** Cancelled by an administrator, and not ended yet. */
  cancelling: z.boolean().optional(),
  /** Since then no further node is begun. */
  paused_at: z.string().optional(),
  /** An administrator has hidden it from the lists. */
  dismissed_at: z.string().optional(),
  nodes: z.array(OperationNode),
})
export type OperationView = z.infer<typeof OperationView>

/** One event of an operation's history: a step of one of its intents. */
export const OperationEvent = z.object({
  at: z.string(),
  node_id: z.string(),
  generation: z.number(),
  /** The number of the attempt, counted over all retries. */
  epoch: z.number(),
  type: z.string(),
  detail: z.record(z.string(), z.unknown()),
})
export type OperationEvent = z.infer<typeof OperationEvent>

const params = z.object({ id: OperationId })
export const OperationFilter = z.enum(['active', 'finished', 'all'])
export type OperationFilter = z.infer<typeof OperationFilter>

const control = (name: 'pause' | 'resume' | 'dismiss', summary: string) =>
  route({
    method: 'POST',
    path: `/api/operations/:id/${name}`,
    access: 'admin',
    summary,
    params,
    body: z.strictObject({}),
    response: OperationView,
  })

export const operationRoutes = {
  list: route({
    method: 'GET',
    path: '/api/operations',
    access: 'read',
    summary: 'List operations, newest first; `active` ones (including background ones) by default; dismissed ones with `dismissed=true`',
    query: z.object({
      state: OperationFilter.default('active'),
      dismissed: z
        .enum(['true', 'false'])
        .optional()
        .transform((value) => value === 'true'),
    }),
    response: z.object({ operations: z.array(OperationView) }),
  }),
  get: route({ method: 'GET', path: '/api/operations/:id', access: 'read', summary: 'Get an operation', params, response: OperationView }),
  history: route({
    method: 'GET',
    path: '/api/operations/:id/history',
    access: 'read',
    summary: 'List every step of its intents, oldest first; empty for operations about models',
    params,
    response: z.object({ events: z.array(OperationEvent) }),
  }),
  cancel: route({
    method: 'POST',
    path: '/api/operations/:id/cancel',
    access: 'admin',
    summary: 'Cancel an operation: stop running work and make no further attempts',
    params,
    body: z.strictObject({}),
    response: OperationView,
    status: 202,
  }),
  retry: route({
    method: 'POST',
    path: '/api/operations/:id/retry',
    access: 'admin',
    summary: 'Retry failed nodes, and try nodes now that wait for their next attempt: one, or all',
    params,
    body: z.strictObject({ node_id: NodeId.optional() }),
    response: OperationView,
    status: 202,
  }),
  pause: control('pause', 'Pause an operation: no further node is begun, running nodes finish their attempt'),
  resume: control('resume', 'Resume a paused operation'),
  dismiss: control('dismiss', 'Dismiss a finished operation: lists leave it out'),
}
