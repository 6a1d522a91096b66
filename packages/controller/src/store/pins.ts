// Pins operations to the content of a source that only workers can read (`file:`). Such a plan has no digest at first; the first
// digest that a worker reports becomes the digest of the operation, so that a late node gets the same content or fails.
import { type BackendName, Digest, type NodeId } from '@muster/protocol'
import { type Kysely, sql } from 'kysely'
import { retryConflicts } from './errors.ts'
import { lockBackend } from './submissions.ts'
import type { Database } from './tables.ts'

export type ReportedContent = Readonly<{ nodeId: NodeId; backend: BackendName; generation: number; digest: Digest }>

export class PinStore {
  readonly #db: Kysely<Database>

  constructor(db: Kysely<Database>) {
    this.#db = db
  }

  /**
   * Resolves with the digest that the intent is pinned to: the reported one, or the one that was pinned first; null when a newer
   * intent has replaced it. Every intent without a digest of the operations that wait for this one is pinned too, also a failed
   * one, for its retry. The lock of the backend decides which of two reports is the first, and keeps submissions and retries from
   * adding an intent without a digest meanwhile.
   */
  async pin({ nodeId, backend, generation, digest }: ReportedContent): Promise<Digest | null> {
    return await retryConflicts(() =>
      this.#db.transaction().execute(async (tx) => {
        await lockBackend(tx, backend)
        const { rows } = await sql<{ digest: string }>`
          with reported as (
            select op_id, generation, plan ->> 'uri' as uri, coalesce(plan ->> 'digest', ${digest}) as digest
            from intents where node_id = ${nodeId} and backend = ${backend} and generation = ${generation}
          ), locked as (
            select i.node_id from intents i cross join reported r
            where i.backend = ${backend} and i.plan ->> 'uri' = r.uri and i.plan ->> 'digest' is null and i.state <> 'applied' and (
              i.op_id = r.op_id or i.op_id in (select n.operation_id from operation_nodes n where n.generation = r.generation))
            order by i.node_id for update of i
          ), pinned as (
            update intents i set plan = jsonb_set(i.plan, '{digest}', to_jsonb(r.digest)), row_version = i.row_version + 1
            from locked l cross join reported r where i.node_id = l.node_id and i.backend = ${backend}
            returning i.node_id, i.backend, i.generation, i.epoch, r.digest
          ), logged as (
            insert into intent_events (node_id, backend, generation, epoch, type, detail)
            select node_id, backend, generation, epoch, 'pinned', jsonb_build_object('digest', digest) from pinned
          )
          select digest from reported`.execute(tx)
        const pinned = rows[0]?.digest
        return pinned === undefined ? null : Digest.parse(pinned)
      }),
    )
  }
}
