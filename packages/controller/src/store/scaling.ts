// Queries of automatic scaling.
import { ModelName, ReplicaId, Scheduling } from '@muster/protocol'
import { sql, type Kysely } from 'kysely'
import { z } from 'zod'
import { retryConflicts } from './errors.ts'
import type { Database } from './tables.ts'

/** A model with automatic scaling, now or until a moment ago. */
export interface ScalableModel {
  readonly name: ModelName
  readonly scheduling: Scheduling
  readonly requestedReplicas: number
  readonly isUnloaded: boolean
  /** Milliseconds by the database's clock. */
  readonly busySince: number | null
  readonly slackSince: number | null
  /** Number of loads, in any state. */
  readonly loads: number
  /** Number of loads that failed and are retried later. */
  readonly failed: number
  /** Its ready replicas. */
  readonly ready: readonly ReplicaId[]
  /** The number of requests that a replica works on at once, as far as its configuration tells; at least 1. */
  readonly slots: number
}

export interface ScaleChange {
  readonly from: Pick<ScalableModel, 'name' | 'requestedReplicas' | 'busySince' | 'slackSince'>
  readonly to: Pick<ScalableModel, 'requestedReplicas' | 'busySince' | 'slackSince'>
}

interface Row {
  readonly name: string
  readonly scheduling: unknown
  readonly requested_replicas: number
  readonly is_unloaded: boolean
  readonly busy_ms: number | null
  readonly slack_ms: number | null
  readonly loads: number
  readonly failed: number
  readonly ready: string[]
  readonly options: unknown
  readonly now_ms: number
}

const msOf = (column: ReturnType<typeof sql>) => sql`round(extract(epoch from ${column}) * 1000)::bigint`

export class ScalingStore {
  readonly #db: Kysely<Database>

  constructor(db: Kysely<Database>) {
    this.#db = db
  }

  /** Models whose number of replicas may change, and those with a streak from when it could. */
  async list(): Promise<{ now: number; models: ScalableModel[] }> {
    const { rows } = await sql<Row>`
      select m.name, m.config -> 'scheduling' as scheduling, m.requested_replicas, m.is_unloaded, ${msOf(sql`m.busy_since`)} as busy_ms,
        ${msOf(sql`m.slack_since`)} as slack_ms, ${msOf(sql`now()`)} as now_ms, l.loads, l.failed, l.ready, m.config -> 'options' as options
      from models m cross join lateral (
        select count(*)::int as loads, count(*) filter (where state = 'failed')::int as failed,
          coalesce(array_agg(replica_id order by ordinal) filter (where state = 'ready'), '{}') as ready
        from loads where model = m.name and purpose = 'serve'
      ) l cross join lateral (
        select (m.config #>> '{scheduling,max_replicas}')::int as max, coalesce((m.config #>> '{scheduling,min_replicas}')::int, 0) as min
      ) s
      where m.busy_since is not null or m.slack_since is not null
        or (not m.is_unloaded and (s.max = 0 or s.max > greatest(s.min, 1)) and greatest(m.requested_replicas, s.min) > 0)
      order by m.name`.execute(this.#db)
    return { now: rows[0]?.now_ms ?? 0, models: rows.map(modelOf) }
  }

  /** Models with loads first. */
  async names(limit: number): Promise<string[]> {
    const { rows } = await sql<{ name: string }>`
      select name from models m order by not exists (select from loads l where l.model = m.name), name limit ${limit}`.execute(this.#db)
    return rows.map((row) => row.name)
  }

  /** Writes changes of models that have not changed since the decision. Returns the models with a new number of replicas. */
  async write(changes: readonly ScaleChange[]): Promise<ModelName[]> {
    if (changes.length === 0) return []
    const numbers = (of: (change: ScaleChange) => number | null) => changes.map(of)
    const write = sql<{ name: string; is_step: boolean }>`
      with change as (
        select name, seen_replicas, to_timestamp(seen_busy / 1000.0) as seen_busy, to_timestamp(seen_slack / 1000.0) as seen_slack,
          replicas, to_timestamp(busy / 1000.0) as busy, to_timestamp(slack / 1000.0) as slack
        from unnest(
          ${changes.map(({ from }) => from.name)}::text[],
          ${numbers(({ from }) => from.requestedReplicas)}::int[], ${numbers(({ from }) => from.busySince)}::bigint[],
          ${numbers(({ from }) => from.slackSince)}::bigint[], ${numbers(({ to }) => to.requestedReplicas)}::int[],
          ${numbers(({ to }) => to.busySince)}::bigint[], ${numbers(({ to }) => to.slackSince)}::bigint[]
        ) as c (name, seen_replicas, seen_busy, seen_slack, replicas, busy, slack)
      ), still as (
        select m.name from models m join change c on c.name = m.name
        where m.requested_replicas = c.seen_replicas
          and m.busy_since is not distinct from c.seen_busy and m.slack_since is not distinct from c.seen_slack
        order by m.name for no key update of m skip locked
      )
      update models m set requested_replicas = c.replicas, busy_since = c.busy, slack_since = c.slack,
        updated_at = case when c.replicas = c.seen_replicas then m.updated_at else now() end
      from change c join still s on s.name = c.name where m.name = c.name
      returning m.name, c.replicas <> c.seen_replicas as is_step`
    const { rows } = await retryConflicts(() => write.execute(this.#db))
    return rows.filter((row) => row.is_step).map((row) => ModelName.parse(row.name))
  }
}

const modelOf = (row: Row): ScalableModel => ({
  name: ModelName.parse(row.name),
  scheduling: Scheduling.parse(row.scheduling),
  requestedReplicas: row.requested_replicas,
  isUnloaded: row.is_unloaded,
  busySince: row.busy_ms,
  slackSince: row.slack_ms,
  loads: row.loads,
  failed: row.failed,
  ready: row.ready.map((id) => ReplicaId.parse(id)),
  slots: slotsOf(row.options),
})

const Slots = z.coerce.number().int().min(1)
const Options = z.object({ parallel: Slots.optional(), sequences: Slots.optional() })

/** Backends call it `parallel` or `sequences`. Without it one request at a time is certain. */
export function slotsOf(options: unknown): number {
  const given = Options.safeParse(Array.isArray(options) ? Object.fromEntries(options.map(splitOption)) : options).data
  return given?.parallel ?? given?.sequences ?? 1
}

/** `parallel:4` of a list. */
const splitOption = (option: unknown): [string, string] => {
  const [, key = '', value = ''] = /^([^:=]*)[:=]?(.*)$/s.exec(String(option)) ?? []
  return [key, value]
}
