// /api/nodes/actions: one action on many nodes, with one result per node.
import { z } from 'zod'
import { NodeId } from '../ids.ts'
import { route } from './define.ts'
import { LabelPatch, Selector } from './selector.ts'

export const NodeAction = z.enum(['approve', 'drain', 'resume', 'label', 'remove'])
export type NodeAction = z.infer<typeof NodeAction>

/** More nodes than any fleet has. */
const maxNodes = 10_000

export const NodeActionRequest = z
  .strictObject({
    action: NodeAction,
    nodes: z.array(NodeId).min(1, 'nodes is a list of node ids').max(maxNodes, `at most ${maxNodes} nodes in one request`).optional(),
    selector: Selector.optional(),
    /** For `label`: null removes a label. */
    labels: LabelPatch.refine(
      (labels) => Object.keys(labels).length > 0,
      'labels names at least one label to set or, with null, to remove',
    ).optional(),
    dry_run: z.boolean().optional(),
    /** The number of nodes that the caller expects; required to remove nodes by a selector. */
    confirm: z.number().int().min(0).max(maxNodes).optional(),
  })
  .refine((body) => (body.nodes === undefined) !== (body.selector === undefined), { message: 'name nodes or a selector: one of the two' })
  .refine((body) => (body.action === 'label') === (body.labels !== undefined), {
    path: ['labels'],
    message: 'the action label needs labels, and the other actions take none',
  })
export type NodeActionRequest = z.infer<typeof NodeActionRequest>

export const NodeActionResult = z.object({
  node_id: NodeId,
  /** Empty when no node has this ID. */
  node_name: z.string(),
  /** With `dry_run`, the outcome that the action would have. */
  outcome: z.enum(['done', 'unchanged', 'failed']),
  message: z.string(),
})
export type NodeActionResult = z.infer<typeof NodeActionResult>

export const nodeActionRoutes = {
  run: route({
    method: 'POST',
    path: '/api/nodes/actions',
    access: 'admin',
    summary: 'Approve, drain, resume, label or remove many nodes; one that fails does not stop the others',
    body: NodeActionRequest,
    response: z.object({ dry_run: z.boolean(), results: z.array(NodeActionResult) }),
  }),
}
