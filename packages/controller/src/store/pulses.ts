// Queries about the liveness of nodes. protocol/states/node.ts defines the states; the statements here are its transitions for
// many nodes at once. Times are the database's.
import type { Heartbeat, NodeId } from '@muster/protocol'
import { sql, type Kysely } from 'kysely'
import { retryConflicts } from './errors.ts'
import type { Database } from './tables.ts'

export interface Beat {
  readonly via: 'bus' | 'http'
  /** How long ago it arrived, so that waiting in a batch does not make it younger. */
  readonly ageMs: number
  readonly heartbeat: Pick<Heartbeat, 'node_id' | 'incarnation' | 'in_flight'> & {
    readonly seq: number | null
    readonly resources: string | null
  }
}

export interface SilenceLimits {
  readonly nodeTimeoutMs: number
  readonly offlineAfterMs: number
  readonly maxClockJumpMs: number
}

/** A node that was sent a command, and its process at that time. The outcome is not recorded for a later process. */
export interface ProbedNode {
  readonly id: NodeId
  readonly incarnation: string | null
}

export class PulseStore {
  readonly #db: Kysely<Database>

  constructor(db: Kysely<Database>) {
    this.#db = db
  }

  /**
   * Records a batch of heartbeats in one statement. Ignores heartbeats of a process that is not the registered one, and
   * heartbeats that are not newer than the recorded ones (every controller receives every heartbeat). Rows are locked in the
   * order of their IDs, because batches of two controllers overlap and must not deadlock. Returns the number of rows written.
   */
  async recordBeats(beats: readonly Beat[]): Promise<number> {
    const result = await retryConflicts(() =>
      sql`
      with beat as (
        select * from unnest(
          ${beats.map((b) => b.heartbeat.node_id)}::text[], ${beats.map((b) => b.heartbeat.incarnation)}::text[],
          ${beats.map((b) => b.heartbeat.seq)}::bigint[], ${beats.map((b) => b.ageMs / 1000)}::float8[],
          ${beats.map((b) => b.heartbeat.resources)}::text[], ${beats.map((b) => b.heartbeat.in_flight)}::int[],
          ${beats.map((b) => b.via === 'http')}::boolean[]
        ) as b (node_id, incarnation, seq, age, resources, in_flight, by_http)
      ), fresh as (
        select p.node_id, b.incarnation, p.answering, p.incarnation is distinct from b.incarnation as restarted,
          n.node_type <> 'agent' and (b.by_http and p.liveness <> 'present' or p.incarnation is distinct from b.incarnation and p.answering = 'no') as owes_proof
        from node_pulses p join beat b on b.node_id = p.node_id join nodes n on n.id = p.node_id
        where n.incarnation = b.incarnation
          and (p.incarnation is distinct from b.incarnation or b.seq is null or p.seq is null or b.seq > p.seq)
        order by p.node_id for no key update of p
      )
      update node_pulses p set
        liveness = 'present',
        answering = case when f.owes_proof then 'unproven' else f.answering end,
        probed_at = case when f.owes_proof then null else p.probed_at end,
        last_seen_at = greatest(p.last_seen_at, now() - make_interval(secs => b.age)),
        incarnation = b.incarnation,
        seq = coalesce(b.seq, case when f.restarted then null else p.seq end),
        resources = coalesce(b.resources::jsonb, p.resources),
        -- The time of the memory figures. A worker that does not report it reads its GPUs every 20 seconds, which can take long.
        reported_at = case when b.resources is null then p.reported_at else greatest(p.reported_at,
          now() - make_interval(secs => b.age + coalesce((b.resources::jsonb ->> 'memory_age_ms')::float8 / 1000, 30))) end,
        in_flight = b.in_flight
      from fresh f join beat b on b.node_id = f.node_id and b.incarnation = f.incarnation
      where p.node_id = f.node_id`.execute(this.#db),
    )
    return Number(result.numAffectedRows ?? 0n)
  }

  /** The database's time, in milliseconds since the epoch. */
  async databaseNow(): Promise<number> {
    const { rows } = await sql<{ now_ms: number }>`select extract(epoch from clock_timestamp())::float8 * 1000 as now_ms`.execute(this.#db)
    return Number(rows[0]?.now_ms)
  }

  /**
   * Marks nodes as silent that have not reported for too long. Only for a controller that has received heartbeats all the time,
   * and only while the database's clock is near `expectedNowMs`: a clock set forward would make every node silent. Rows are
   * locked in the order of their IDs; a row locked by a heartbeat is skipped.
   */
  async sweep(limits: SilenceLimits, expectedNowMs: number): Promise<{ id: string; liveness: 'silent' | 'gone' }[]> {
    const { rows } = await sql<{ id: string; liveness: 'silent' | 'gone' }>`
      with due as (
        select p.node_id, coalesce(p.last_seen_at, n.approved_at) < now() - make_interval(secs => ${limits.offlineAfterMs / 1000}) as is_gone
        from node_pulses p join nodes n on n.id = p.node_id
        where n.approved_at is not null
          and abs(extract(epoch from now())::float8 * 1000 - ${expectedNowMs}) < ${limits.maxClockJumpMs}
          and ((p.liveness = 'present' and p.last_seen_at < now() - make_interval(secs => ${limits.nodeTimeoutMs / 1000}))
            or (p.liveness in ('new', 'silent')
              and coalesce(p.last_seen_at, n.approved_at) < now() - make_interval(secs => ${limits.offlineAfterMs / 1000})))
        order by p.node_id for no key update of p skip locked
      )
      update node_pulses p set liveness = case when due.is_gone then 'gone' else 'silent' end
      from due where p.node_id = due.node_id returning p.node_id as id, p.liveness`.execute(this.#db)
    return rows
  }

  /** The process answered a command, which proves that the node is alive. */
  async recordAnswered({ id, incarnation }: ProbedNode): Promise<void> {
    await sql`
      update node_pulses p set answering = 'yes', liveness = 'present', last_seen_at = now()
      from nodes n where n.id = p.node_id and p.node_id = ${id} and n.approved_at is not null
        and p.incarnation is not distinct from ${incarnation} and p.liveness <> 'left'
        and (p.answering <> 'yes' or p.liveness <> 'present')`.execute(this.#db)
  }

  async recordNoResponders({ id, incarnation }: ProbedNode): Promise<void> {
    await sql`
      update node_pulses p set answering = 'no', probed_at = now() from nodes n
      where n.id = p.node_id and p.node_id = ${id} and p.incarnation is not distinct from ${incarnation} and n.node_type <> 'agent'`.execute(
      this.#db,
    )
  }

  /**
   * Only the registered process may report that the node leaves. Its sequence number is stored, so that an older heartbeat in
   * another controller's batch does not bring the node back.
   */
  async recordLeaving(id: NodeId, goodbye: { incarnation: string; seq: number }): Promise<void> {
    await sql`
      update node_pulses p set liveness = 'left', incarnation = ${goodbye.incarnation}, seq = ${goodbye.seq} from nodes n
      where n.id = p.node_id and p.node_id = ${id} and n.incarnation = ${goodbye.incarnation} and p.liveness <> 'left'`.execute(this.#db)
  }

  /**
   * Takes present nodes that have to answer a command before they count as healthy. Stamps them, so that one of several
   * controllers probes, and not too often.
   */
  async takeUnproven(pace: { unprovenMs: number; unansweredMs: number; limit: number }): Promise<(ProbedNode & { requestedAt: string })[]> {
    const result = await sql<ProbedNode & { requestedAt: string }>`
      with due as (
        select p.node_id from node_pulses p join nodes n on n.id = p.node_id
        where n.approved_at is not null and p.liveness = 'present' and p.answering <> 'yes'
          and (p.probed_at is null or p.probed_at < now() - make_interval(
            secs => case p.answering when 'unproven' then ${pace.unprovenMs / 1000}::float8 else ${pace.unansweredMs / 1000}::float8 end))
        order by p.node_id limit ${pace.limit} for no key update of p skip locked
      )
      update node_pulses p set probed_at = now() from due where p.node_id = due.node_id returning p.node_id as id, p.incarnation, p.probed_at as "requestedAt"`.execute(
      this.#db,
    )
    return result.rows
  }
}
