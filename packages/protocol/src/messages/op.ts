// Queries and cancels one operation on a worker.
import { z } from 'zod'
import { Failure } from '../failure.ts'
import { Digest, NodeId, OperationId } from '../ids.ts'
import { command } from './define.ts'

export const Phase = z.enum(['resolving', 'downloading', 'extracting', 'starting'])
export type Phase = z.infer<typeof Phase>

export const OpStatusReply = z.object({
  op_id: OperationId,
  state: z.enum(['unknown', 'accepted', 'running', 'succeeded', 'failed', 'cancelled']),
  phase: Phase.optional(),
  current: z.number().int().min(0).optional(),
  total: z.number().int().min(0).optional(),
  /**
   * Grows with every sign of life, also when no byte moves: the number of the last progress message, or of the one that would be
   * sent now.
   */
  progress_seq: z.number().int().min(0).optional(),
  generation: z.number().int().min(0).optional(),
  /** The attempt that it belongs to. */
  epoch: z.number().int().min(0).optional(),
  failure: Failure.optional(),
  digest: Digest.optional(),
  version: z.string().max(256).optional(),
})
export type OpStatusReply = z.infer<typeof OpStatusReply>

const params = { node: NodeId }
const request = z.object({ op_id: OperationId })
export const opStatus = command({ subject: 'nodes.{node}.op.status', params, request, reply: OpStatusReply })
export const opCancel = command({ subject: 'nodes.{node}.op.cancel', params, request, reply: OpStatusReply })
