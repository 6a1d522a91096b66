// Every query about rollouts. How one stands is read from the wishes of its nodes (intents), from replicas and from loads; what
// is decided is written in the same transaction, under the lock of its backend. So a controller may end at any moment: all of
// a look is there or nothing, and the next look, anybody's, goes on from what is so.
import { Failure, NodeId, OperationId } from '@muster/protocol'
import { sql, type Kysely, type Transaction } from 'kysely'
import { z } from 'zod'
import { applyRollout } from './rollout-writes.ts'
import { rowNameOf } from './intents.ts'
import { retryConflicts } from './retry-conflicts.ts'
import { RolloutSpec } from './rings.ts'
import type { RolloutAction, RolloutFacts, RolloutNode, RolloutStand, Trouble } from './rollout-facts.ts'
import type { Database } from './tables.ts'
import { lockBackend } from './submissions.ts'

type Db = Kysely<Database> | Transaction<Database>
type Decide = (facts: RolloutFacts) => readonly RolloutAction[]
export type Looked = Readonly<{ facts: RolloutFacts; actions: readonly RolloutAction[] }>

export class RolloutStore {
  readonly #db: Kysely<Database>

  constructor(db: Kysely<Database>) {
    this.#db = db
  }

  /** Those that are not over, the oldest first. */
  async open(): Promise<OperationId[]> {
    const rows = await this.#db
      .selectFrom('rollouts')
      .select('operation_id')
      .where('finished_at', 'is', null)
      .orderBy('created_at')
      .execute()
    return rows.map((row) => OperationId.parse(row.operation_id))
  }

  /** Reads how it stands and does what is decided. Mostly that is nothing, which takes no lock. Null: it is over. */
  async advance(id: OperationId, decide: Decide): Promise<Looked | null> {
    const seen = await readFacts(this.#db, id)
    if (seen === null) return null
    const foreseen = decide(seen)
    if (foreseen.length === 0) return { facts: seen, actions: foreseen }
    return await retryConflicts(() =>
      this.#db.transaction().execute(async (tx) => {
        await lockBackend(tx, seen.backend)
        const facts = await readFacts(tx, id)
        if (facts === null) return null
        const actions = decide(facts)
        await applyRollout(tx, { id, backend: facts.backend, actions })
        return { facts, actions }
      }),
    )
  }

  /** How many are open, for the metrics. */
  async countByState(): Promise<{ state: string; count: number }[]> {
    const { rows } = await sql<{ state: string; count: number }>`
      select s.state, count(r.operation_id)::int as count from (values ('running'), ('returning')) s (state)
      left join rollouts r on r.state = s.state and r.finished_at is null group by s.state`.execute(this.#db)
    return rows
  }
}

const Moving = z.object({
  old: z.array(z.string()),
  left: z.array(z.string()),
  notes: z.array(z.string()),
  stuck: z.record(z.string(), z.string()),
  ailing: z.array(z.string()),
  isListed: z.boolean(),
  trouble: z.unknown(),
})
const FoundTrouble = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('load'), model: z.string(), failure: Failure }),
  z.object({ kind: z.literal('check'), model: z.string() }),
  z.object({
    kind: z.literal('exit'),
    model: z.string(),
    exit: z.object({ exit_code: z.number(), signal: z.string(), last_lines: z.array(z.string()) }).partial(),
  }),
])

interface Row {
  readonly backend: string
  readonly spec: unknown
  readonly rollout_ring: number
  readonly rings: number
  readonly well_ms: number | null
  readonly waits_for: number | null
  readonly waits_ms: number | null
  readonly failure: unknown
  readonly node_id: string
  readonly node_name: string
  readonly ring: number | null
  readonly message: string
  readonly is_here: boolean
  readonly can_return: boolean
  readonly state: 'waiting' | 'sending' | 'working' | 'applied' | 'failed' | 'dead' | 'cancelled' | null
  readonly awaits_ring: boolean
  readonly is_returning: boolean
  readonly is_proving: boolean
  readonly is_called_off: boolean
  readonly note: string
  readonly rollback_error: string | null
  readonly last_failure: unknown
  readonly moving: unknown
}

async function readFacts(db: Db, id: OperationId): Promise<RolloutFacts | null> {
  const { rows } = await factsOf(id).execute(db)
  const [first] = rows
  if (first === undefined) return null
  return {
    backend: first.backend,
    spec: RolloutSpec.parse(first.spec),
    ring: first.rollout_ring,
    rings: first.rings,
    wellMs: first.well_ms,
    waits: first.waits_for === null ? null : { left: first.waits_for, ms: first.waits_ms ?? 0 },
    failure: first.failure === null ? null : Failure.parse(first.failure),
    nodes: rows.map(nodeOf),
  }
}

const nodeOf = (row: Row): RolloutNode => ({
  nodeId: NodeId.parse(row.node_id),
  name: row.node_name,
  ring: row.ring,
  isHere: row.is_here,
  canReturn: row.can_return,
  stand: standOf(row),
})

function standOf(row: Row): RolloutStand {
  switch (row.state) {
    case null:
    case 'cancelled':
      return { state: 'settled' }
    case 'waiting':
    case 'sending':
    case 'working':
      if (row.is_returning) return { state: 'returning' }
      if (row.awaits_ring) return { state: 'held' }
      return { state: 'begun', isCalledOff: row.is_called_off }
    case 'applied':
      if (!row.is_proving) return row.is_returning ? { state: 'settled' } : { state: 'upgraded' }
      return row.is_returning ? backOf(row) : provingOf(row)
    case 'failed':
    case 'dead':
      return row.is_returning ? { state: 'settled' } : { state: 'failed', failure: Failure.parse(row.last_failure) }
  }
}

function backOf({ rollback_error: error, moving }: Row): RolloutStand {
  const { old, stuck } = Moving.parse(moving)
  const notes = Object.entries(stuck).map(([model, why]) => `${model} stays on the new version for now: ${why}`)
  return { state: 'back', left: old, notes, error: error ?? '' }
}

function provingOf({ message, note, moving, is_called_off: isCalledOff }: Row): RolloutStand {
  const { left, notes, stuck, ailing, isListed, trouble } = Moving.parse(moving)
  const found: Trouble | null = trouble === null ? null : troubleOf(FoundTrouble.parse(trouble))
  const all = [
    ...(note === '' ? [] : [note]),
    ...notes,
    ...Object.entries(stuck).map(([model, why]) => `${model} stays on the version before for now: ${why}`),
    ...ailing.filter((model) => !(model in stuck)).map((model) => `${model} had trouble before the upgrade and is not waited for`),
    ...(isListed ? [] : ['it has not listed its new version yet']),
  ]
  return { state: 'proving', message, left, notes: all, trouble: found, isCalledOff }
}

function troubleOf(found: z.infer<typeof FoundTrouble>): Trouble {
  if (found.kind !== 'exit') return found
  const { exit_code: code, signal, last_lines: lines } = found.exit
  const exit = {
    ...(code === undefined ? {} : { exit_code: code }),
    ...(signal === undefined ? {} : { signal }),
    ...(lines === undefined ? {} : { last_lines: lines }),
  }
  return { ...found, exit }
}

// One row per node that the operation wished something of. The wish is the rollout's as long as it carries its id: one that a
// newer wish took over is nobody's business here, and one that other operations follow goes on when this one was called off.
// The version that a node is to have is what it lists, unless its list is older than the upgrade.
const factsOf = (id: OperationId) => sql<Row>`
  select r.backend, r.spec, r.ring as rollout_ring, r.rings, r.failure,
    (extract(epoch from now() - r.well_since) * 1000)::float8 as well_ms,
    r.waits_for, (extract(epoch from now() - r.waits_since) * 1000)::float8 as waits_ms,
    n.node_id, n.node_name, n.ring, coalesce(shown.message, '') as message,
    coalesce(d.approved_at is not null and not d.draining and p.liveness = 'present' and p.answering = 'yes', false) as is_here,
    n.previous is not null and n.previous ->> 'digest' is distinct from i.plan ->> 'digest' as can_return,
    i.state, coalesce(i.awaits_ring, false) as awaits_ring, coalesce(i.plan ? 'rollback', false) as is_returning,
    coalesce(i.cancel_requested, false) as is_called_off, coalesce(i.note, '') as note, i.last_failure,
    i.plan -> 'rollback' ->> 'error' as rollback_error,
    v.is_proving, case when v.is_proving then ${moving} end as moving
  from rollouts r
  join operation_nodes n on n.operation_id = r.operation_id and n.status <> 'skipped'
  left join intents i on i.node_id = n.node_id and i.backend = r.backend and i.op_id = r.operation_id
  left join nodes d on d.id = n.node_id
  left join node_pulses p on p.node_id = n.node_id
  left join lateral (
    select o.message from operation_nodes o where o.proving = i.generation and o.status = 'open' and i.state = 'applied' limit 1
  ) shown on true
  cross join lateral (select shown.message is not null as is_proving) v
  left join lateral (
    select b ->> 'digest' as digest from jsonb_array_elements(d.inventory) b where b ->> 'name' = r.backend limit 1
  ) listed on v.is_proving
  left join lateral (
    select case when listed.digest = i.plan ->> 'digest' or d.inventory_at >= i.finished_at then nullif(listed.digest, '')
      else coalesce(i.plan ->> 'digest', listed.digest) end as digest,
      i.plan ->> 'digest' is not null or coalesce(d.inventory_at >= i.finished_at, false) as is_listed
  ) new on v.is_proving
  left join lateral (${stuck}) stuck on v.is_proving
  left join lateral (${ailing}) ailing on v.is_proving
  where r.operation_id = ${id} and r.finished_at is null
  order by n.node_name collate "C", n.node_id`

/** It ended by itself. */
const isUnexpected = (replica: string) => {
  const of = sql.ref(replica)
  return sql`${of}.state = 'exited' and ${of}.drain_since is null and (${of}.exit ? 'exit_code' or ${of}.exit ? 'signal')
    and ${of}.exit ->> 'expected' is distinct from 'true'`
}

/** Replicas of the node that count, and loads that have to be there. Replicas have the name of the row; models may have another one. */
const live = sql`replicas x where x.node_id = n.node_id and x.backend = r.backend and x.state in ('starting', 'ready')`
const pinned = sql`loads l join models m on m.name = l.model
  where l.pinned_node_id = n.node_id and l.purpose = 'serve' and ${rowNameOf(sql`m.backend`)} = r.backend`

// Models of the node that can't move for reasons of their own, and why: what is to take the place of their replicas is to be
// elsewhere, or is another revision, and has no success. That is no fault of the version, so nobody waits for it. What fails on
// another node of the rollout may be one, and on the way back so may all that fails but an edit and want of room.
const stuck = sql`
  select coalesce(jsonb_object_agg(s.model, s.why), '{}') as models from (
    select x.model, min(coalesce(l.failure ->> 'message', 'what takes its place does not come up')) as why
    from replicas x join loads l on l.model = x.model and l.purpose = 'serve'
    where x.node_id = n.node_id and x.backend = r.backend and x.state in ('starting', 'ready')
      and (l.state = 'failed' or l.state <> 'ready' and l.attempts > 1)
      and (not i.plan ? 'rollback' or l.revision <> x.revision or l.failure ->> 'code' = 'no_capacity')
      and (l.pinned_node_id is null or not exists (
        select from operation_nodes q where q.operation_id = r.operation_id and q.node_id = l.pinned_node_id
      ) or exists (
        select from replicas o where o.node_id = n.node_id and o.model = l.model and o.state = 'ready' and o.revision <> l.revision))
      and not exists (
        select from loads p where p.model = x.model and p.purpose = 'serve' and p.pinned_node_id = n.node_id and p.state <> 'ready'
          and p.revision = x.revision)
    group by x.model
  ) s`

// Models that did not come up, or whose processes kept exiting, before the node had the new version: that they still do says
// nothing against it.
const ailing = sql`
  select coalesce(jsonb_agg(a.model order by a.model), '[]') as models from (
    select o.model from replicas o where o.node_id = n.node_id and o.backend = r.backend and ${isUnexpected('o')}
      and o.backend_digest <> new.digest and o.exited_at > i.finished_at - interval '10 minutes' and o.exited_at <= i.finished_at
    group by o.model having count(*) > 1
    union select l.model from loads l where l.purpose = 'serve' and l.state <> 'ready' and l.attempts > 1 and l.requested_at < i.finished_at
      and l.pinned_node_id is distinct from n.node_id
      and exists (select from replicas o where o.node_id = n.node_id and o.backend = r.backend and o.model = l.model)
  ) a`

/** Of a node whose version was changed: what is still to be moved to it, what was done otherwise than usual, and what speaks against it. */
const moving = sql`jsonb_build_object(
  'stuck', stuck.models, 'ailing', ailing.models, 'isListed', new.is_listed,
  'old', coalesce((
    select jsonb_agg(x.model) from ${live} and (x.state = 'starting' or nullif(x.backend_digest, '') <> new.digest) and not stuck.models ? x.model
  ), '[]'),
  'left', coalesce((
    select jsonb_agg(w.model) from (
      select x.model from ${live} and (x.state = 'starting' or x.checked = 'due' or nullif(x.backend_digest, '') <> new.digest or not new.is_listed)
      union all select l.model from ${pinned} and l.state in ('waiting', 'installing', 'failed')
    ) w where not stuck.models ? w.model and not ailing.models ? w.model
  ), '[]'),
  'notes', coalesce((select jsonb_agg(distinct l.note) from ${pinned} and l.note <> ''), '[]'),
  'trouble', coalesce((
    select jsonb_build_object('kind', 'load', 'model', l.model, 'failure', l.failure) from ${pinned} and l.state = 'failed'
      and l.failure ->> 'code' <> 'no_capacity' and l.failed_at > i.finished_at and not stuck.models ? l.model and not ailing.models ? l.model
    order by l.failed_at limit 1
  ), (
    select case when x.checked = 'failed' then jsonb_build_object('kind', 'check', 'model', x.model)
      else jsonb_build_object('kind', 'exit', 'model', x.model, 'exit', x.exit) end
    from replicas x where x.node_id = n.node_id and x.backend = r.backend and x.created_at > i.finished_at
      and (x.checked = 'failed' or ${isUnexpected('x')}) and not stuck.models ? x.model and not ailing.models ? x.model
    order by x.created_at limit 1
  )))`
