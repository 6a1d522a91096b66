// A load as shown with its model, and with the operations that wait for it.
import { Failure, NodeId, OperationId, Phase } from '@muster/protocol'
import { sql, type RawBuilder } from 'kysely'
import { z } from 'zod'

/** Times inside JSON come as PostgreSQL writes them. */
const Time = z.string().transform((text) => new Date(text).toISOString())

export const LoadBriefs = z.array(
  z
    .object({
      purpose: z.enum(['serve', 'stage']),
      ordinal: z.number(),
      state: z.enum(['waiting', 'installing', 'starting', 'ready', 'failed']),
      phase: Phase.nullable(),
      node_id: NodeId.nullable(),
      node_name: z.string().nullable(),
      op_id: OperationId.nullable(),
      file_name: z.string(),
      current_bytes: z.number(),
      total_bytes: z.number(),
      attempts: z.number(),
      failure: Failure.nullable(),
      failed_at: Time.nullable(),
      next_at: Time.nullable(),
    })
    .transform((row) => ({
      ...{ purpose: row.purpose, ordinal: row.ordinal, state: row.state, phase: row.phase, opId: row.op_id },
      ...{ nodeId: row.node_id, nodeName: row.node_name, fileName: row.file_name, attempts: row.attempts },
      ...{ currentBytes: row.current_bytes, totalBytes: row.total_bytes },
      ...{ failure: row.failure, failedAt: row.failed_at, nextAt: row.next_at },
    })),
)
export type LoadBrief = Readonly<z.infer<typeof LoadBriefs>[number]>

/** The loads of a model, as JSON that the schema reads. */
export const loadsOf = (model: RawBuilder<unknown>) => sql`
  select coalesce(jsonb_agg(to_jsonb(l) || jsonb_build_object('node_name', n.name) order by l.purpose, l.ordinal), '[]')
  from loads l left join nodes n on n.id = l.node_id where l.model = ${model}`
