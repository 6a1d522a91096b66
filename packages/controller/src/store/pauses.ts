// Pauses, resumes and dismisses operations. protocol/states/operation-control.ts decides, paused-work.ts derives the consequences.
import {
  type ControlVerdict,
  decideControl,
  type OperationControl,
  type OperationId,
  type OperationKind,
  unreachable,
} from '@muster/protocol'
import { sql, type Kysely, type RawBuilder, type Transaction } from 'kysely'
import { retryConflicts } from './errors.ts'
import { lockModel } from './models.ts'
import { type Subject, updatePaused } from './paused-work.ts'
import { lockBackend } from './submissions.ts'
import type { Database } from './tables.ts'

type Tx = Transaction<Database>
export type ControlResult = ControlVerdict | 'unknown'

interface ControlRow {
  readonly kind: OperationKind
  readonly backend: string | null
  readonly model: string | null
  readonly is_finished: boolean
  readonly is_cancelling: boolean
  readonly is_paused: boolean
  readonly is_dismissed: boolean
}

export class PauseStore {
  readonly #db: Kysely<Database>

  constructor(db: Kysely<Database>) {
    this.#db = db
  }

  /** Writes nothing unless the verdict is `do`. `by`: the administrator, for the history. */
  async control(id: OperationId, control: OperationControl, by: string): Promise<ControlResult> {
    return await retryConflicts(() =>
      this.#db.transaction().execute(async (tx) => {
        const about = await tx.selectFrom('operations').select(['backend', 'model']).where('id', '=', id).executeTakeFirst()
        if (about === undefined) return 'unknown'
        await lockSubject(tx, about)
        const row = await lockOperation(tx, id)
        if (row === null) return 'unknown'
        const verdict = decideControl(control, factsOf(row))
        if (verdict === 'do') await write(tx, { id, control, by, row })
        return verdict
      }),
    )
  }
}

async function lockSubject(tx: Tx, { backend, model }: Subject): Promise<void> {
  if (model !== null) await lockModel(tx, model)
  else await lockBackend(tx, backend ?? '')
}

async function lockOperation(tx: Tx, id: OperationId): Promise<ControlRow | null> {
  const { rows } = await sql<ControlRow>`
    select o.kind, o.backend, o.model, o.finished_at is not null as is_finished, o.paused_at is not null as is_paused,
      o.dismissed_at is not null as is_dismissed,
      case when o.model is not null then o.cancel_requested else o.finished_at is null and not exists (
        select from operation_nodes n join intents i on i.generation in (n.generation, n.proving)
        where n.operation_id = o.id and n.status = 'open' and not i.cancel_requested) end as is_cancelling
    from operations o where o.id = ${id} for update of o`.execute(tx)
  return rows[0] ?? null
}

const factsOf = (row: ControlRow) => ({
  kind: row.kind,
  isFinished: row.is_finished,
  isCancelling: row.is_cancelling,
  isPaused: row.is_paused,
  isDismissed: row.is_dismissed,
})

type Change = Readonly<{ id: OperationId; control: OperationControl; by: string; row: Subject }>

async function write(tx: Tx, { id, control, by, row }: Change): Promise<void> {
  await sql`update operations set ${assignmentOf(control)} where id = ${id}`.execute(tx)
  if (control !== 'dismiss') {
    await updatePaused(tx, row)
    await sql`
      insert into intent_events (node_id, backend, generation, epoch, type, detail)
      select i.node_id, i.backend, i.generation, i.epoch, ${control === 'pause' ? 'paused' : 'resumed'},
        jsonb_build_object('operation', ${id}::text, 'by', ${by}::text)
      from operation_nodes n join intents i on i.generation = n.generation
      where n.operation_id = ${id} and n.status = 'open' order by i.node_id`.execute(tx)
  }
  await sql`select record_change('operation', ${id}, false)`.execute(tx)
}

function assignmentOf(control: OperationControl): RawBuilder<unknown> {
  switch (control) {
    case 'pause':
      return sql`paused_at = now()`
    case 'resume':
      return sql`paused_at = null`
    case 'dismiss':
      return sql`dismissed_at = now()`
    default:
      return unreachable(control)
  }
}
