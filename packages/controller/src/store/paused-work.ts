// Derives which work is paused. An intent, or the load that fetches the files of a model, is paused while every open operation that
// waits for it is: that is derived again whenever an operation joins, leaves, pauses or resumes. A rollback is never paused: its
// node would keep a version that failed.
import type { OperationId } from '@muster/protocol'
import { sql, type Transaction } from 'kysely'
import type { Database } from './tables.ts'

type Tx = Transaction<Database>
/** An operation is about one of the two. */
export type Subject = Readonly<{ backend: string | null; model: string | null }>

/** Under the lock of the backend or the model. */
export async function updatePaused(tx: Tx, { backend, model }: Subject): Promise<void> {
  if (model !== null) await updatePausedStage(tx, model)
  else await updatePausedIntents(tx, backend ?? '')
}

/** Operations whose nodes show another state because of it are recorded as changed. */
async function updatePausedIntents(tx: Tx, backend: string): Promise<void> {
  await sql`
    with derived as (
      select i.node_id, i.generation, not i.plan ? 'rollback' and coalesce((
        select bool_and(o.paused_at is not null) from operation_nodes n join operations o on o.id = n.operation_id
        where n.generation = i.generation and n.status = 'open'), false) as is_paused
      from intents i where i.backend = ${backend} and i.state in ('waiting', 'sending', 'working') order by i.node_id for no key update of i
    ), changed as (
      update intents i set is_paused = d.is_paused from derived d
      where i.backend = ${backend} and i.node_id = d.node_id and i.is_paused <> d.is_paused returning i.generation
    )
    select record_change('operation', c.operation_id, false) from (
      select distinct n.operation_id from operation_nodes n join changed on changed.generation = n.generation where n.status = 'open' order by 1
    ) c`.execute(tx)
}

/** For a change of the operations that wait for intents of the backend. Without a paused operation there is nothing to derive. */
export async function deriveIntentPauses(tx: Tx, backend: string): Promise<void> {
  const { rows } = await sql`select from operations where backend = ${backend} and paused_at is not null limit 1`.execute(tx)
  if (rows.length > 0) await updatePausedIntents(tx, backend)
}

/** For a change of the operations that wait for the files of the model on any node. Locks them: some changes do not hold the model's lock. */
export async function updatePausedStage(tx: Tx, model: string): Promise<void> {
  await sql`
    with waiting as (
      select o.paused_at from operations o where o.model = ${model} and o.kind = 'model.install' and o.finished_at is null
      order by o.id for no key update
    )
    update loads l set is_paused = p.is_paused from (
      select coalesce(bool_and(paused_at is not null), false) as is_paused from waiting
    ) p where l.model = ${model} and l.purpose = 'stage' and l.pinned_node_id is null and l.is_paused <> p.is_paused`.execute(tx)
}

/** An operation that is being cancelled is not paused any more. */
export async function endPause(tx: Tx, id: OperationId, subject: Subject): Promise<void> {
  const { numAffectedRows = 0n } = await sql`update operations set paused_at = null where id = ${id} and paused_at is not null`.execute(tx)
  if (numAffectedRows > 0n) await updatePaused(tx, subject)
  else if (subject.backend !== null) await deriveIntentPauses(tx, subject.backend)
}

export async function isPaused(tx: Tx, id: OperationId): Promise<boolean> {
  const { rows } = await sql`select from operations where id = ${id} and paused_at is not null`.execute(tx)
  return rows.length > 0
}
