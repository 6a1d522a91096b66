// Drains replicas to make room for others. Deletes their loads and lowers the demand of their models accordingly, so that they
// come back only on request.
import type { ReplicaId } from '@muster/protocol'
import { sql, type Transaction } from 'kysely'
import { lockModel } from './models.ts'
import { changeReplica } from './replicas.ts'
import type { Database } from './tables.ts'

type Tx = Transaction<Database>

/** Null: a replica is gone or draining, or its model is at its minimum. Nothing was changed then. */
export async function evict(tx: Tx, victims: readonly ReplicaId[]): Promise<string[] | null> {
  const models = await modelsOf(tx, victims)
  for (const { model } of models) await lockModel(tx, model)
  const counted = new Map((await modelsOf(tx, victims)).map(({ model, count }) => [model, count]))
  const isSame = models.every(({ model, count }) => counted.get(model) === count) && counted.size === models.length
  const total = models.reduce((sum, { count }) => sum + count, 0)
  if (!isSame || total === 0 || total !== victims.length) return null
  for (const { model, count } of models) if (!(await mayLose(tx, model, count))) return null
  for (const { model, count } of models) await askForFewer(tx, model, count)
  await sql`delete from loads where replica_id = any(${victims}::text[])`.execute(tx)
  for (const id of victims) await changeReplica(tx, { id, do: 'drain' })
  return models.map(({ model }) => model)
}

async function modelsOf(tx: Tx, victims: readonly ReplicaId[]): Promise<{ model: string; count: number }[]> {
  const { rows } = await sql<{ model: string; count: number }>`
    select l.model, count(*)::int as count from loads l join replicas r on r.id = l.replica_id
    where l.replica_id = any(${victims}::text[]) and l.state = 'ready' and r.state = 'ready'
    group by l.model order by l.model`.execute(tx)
  return rows
}

const minimum = sql`coalesce((config -> 'scheduling' ->> 'min_replicas')::int, 0)`
const maximum = sql`coalesce(nullif((config -> 'scheduling' ->> 'max_replicas')::int, 0), case
  when config -> 'scheduling' ? 'max_replicas' then requested_replicas else greatest(1, ${minimum}) end)`

async function mayLose(tx: Tx, model: string, count: number): Promise<boolean> {
  const { rows } = await sql`
    select from models where name = ${model} and coalesce(config -> 'scheduling' ->> 'replicas', '') <> 'all'
      and least(requested_replicas, ${maximum}) - ${count}::int >= ${minimum}`.execute(tx)
  return rows.length > 0
}

async function askForFewer(tx: Tx, model: string, count: number): Promise<void> {
  await sql`update models set requested_replicas = least(requested_replicas, ${maximum}) - ${count}::int, updated_at = now() where name = ${model}`.execute(
    tx,
  )
}
