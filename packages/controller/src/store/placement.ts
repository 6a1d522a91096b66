// The facts for placement: all nodes and live replicas, in three statements whatever their number.
import {
  GgufFacts,
  type ModelName,
  NodeId,
  OperationId,
  ReplicaId,
  Resources,
  Scheduling,
  type Responsiveness,
  type Liveness,
  type NodeType,
  type ReplicaState,
} from '@muster/protocol'
import { sql, type Kysely } from 'kysely'
import { z } from 'zod'
import type { Database } from './tables.ts'

export interface PlacementNodeFacts {
  readonly id: NodeId
  readonly name: string
  readonly nodeType: NodeType
  readonly features: readonly string[]
  readonly os: string
  readonly arch: string
  readonly capability: string
  readonly reportedLabels: Readonly<Record<string, string>>
  readonly labelOverrides: Readonly<Record<string, string | null>>
  readonly vramBudget: string | null
  readonly maxReplicasPerModel: number | null
  readonly approved: boolean
  readonly draining: boolean
  readonly liveness: Liveness
  readonly answering: Responsiveness
  readonly lastSeenAt: string | null
  readonly resources: Resources
  readonly hasBackend: boolean
  /** The source of the installed backend; read for nodes with a GPU only. */
  readonly build: string
  /** The node has the backend, with files missing or changed: an install repairs it. */
  readonly isDamaged: boolean
  /** The operation of an open install of the backend. `isFailing`: it failed and is retried later. */
  readonly install: Readonly<{ id: OperationId; isFailing: boolean }> | null
  /** The download size of the backend on this node; null: unknown. */
  readonly artifactSize: number | null
  /** The requested files that the node has, with their sizes. */
  readonly files: ReadonlyMap<string, number>
  /** An administrator unloaded the model on this node alone. */
  readonly isUnloaded: boolean
}

export interface PlacementReplicaFacts {
  readonly id: ReplicaId
  readonly nodeId: NodeId
  readonly model: string
  /** Includes replicas that exited a moment ago. */
  readonly state: ReplicaState
  /** The replica passed its check, or needs none. */
  readonly isChecked: boolean
  readonly isCurrent: boolean
  readonly hasLoad: boolean
  /** As JSON: equal texts are parsed once. */
  readonly config: string
  readonly files: readonly PlacementFile[]
  readonly booking: Booking | null
  readonly fetchedBytes: number
  readonly scheduling: Scheduling
  readonly requestedReplicas: number
  /** The model was unloaded by hand. */
  readonly isModelUnloaded: boolean
  /** Null: it was never ready. */
  readonly readyMs: number | null
  /** How long before the node's last resource report; negative: after it. Null: never ready, or no report. */
  readonly readyBeforeMs: number | null
  readonly exitedBeforeMs: number | null
  readonly unusedMs: number | null
}
export type PlacementFile = z.infer<typeof File>

/** Where a replica's memory is booked, decided at its placement. Null for replicas of older controllers. */
export const Booking = z.object({ device: z.enum(['cpu', 'gpu']), card: z.string().nullable() })
export type Booking = z.infer<typeof Booking>

/** Null: unknown. */
export type StoredContent = Readonly<{ size: number | null; facts: GgufFacts | null }>
export interface KnownFiles {
  readonly byDigest: ReadonlyMap<string, StoredContent>
  /** By `fileKey`. */
  readonly byName: ReadonlyMap<string, StoredContent & Readonly<{ digest: string | null }>>
}
export const fileKey = (model: string, filename: string): string => `${model}\n${filename}`

type ContentRow = Readonly<{ digest: string; size: number | null; facts: string | null }>
type NamedRow = Omit<ContentRow, 'digest'> & Readonly<{ model: string; filename: string; digest: string | null }>

/** A node, as a place for one of a model's replicas that share another node. */
export interface SpreadFacts {
  /** A replica of the model has not exited there. */
  readonly hasReplica: boolean
  /** Since the node or a replica on it last changed. */
  readonly calmMs: number
  /** Since a replica of the model last failed to start there; null: not in the last hour. */
  readonly failedMs: number | null
}

const File = z.object({ uri: z.string(), filename: z.string().catch(''), sha256: z.string().optional() })
const Labels = z.record(z.string(), z.string())
const Overrides = z.record(z.string(), z.string().nullable())
const Sizes = z.record(z.string(), z.number())
const Configured = z.object({ files: z.array(File).catch([]) })
const Booked = Booking.nullable().catch(null)
const Known = Scheduling.catch({})
const Facts = GgufFacts.nullable().catch(null)

/** Longer than a node takes to report freed memory; until then an exited replica counts as room to come. */
const freedWithin = sql`interval '60 seconds'`

interface ReplicaRow {
  readonly id: string
  readonly node_id: string
  readonly model: string
  readonly state: ReplicaState
  readonly checked: string
  readonly is_current: boolean
  readonly has_load: boolean
  /** As text: thousands of replicas share few values, and each value is parsed once. */
  readonly config: string
  readonly booking: string | null
  readonly fetched: number
  readonly scheduling: string
  readonly requested_replicas: number
  readonly is_model_unloaded: boolean
  readonly ready_ms: number | null
  readonly ready_before_ms: number | null
  readonly exited_before_ms: number | null
  readonly unused_ms: number | null
}

interface NodeRow {
  readonly id: string
  readonly name: string
  readonly node_type: NodeType
  readonly features: string[]
  readonly os: string
  readonly arch: string
  readonly capability: string
  readonly reported_labels: string
  readonly label_overrides: string
  readonly vram_budget: string | null
  readonly max_replicas_per_model: number | null
  readonly approved: boolean
  readonly draining: boolean
  readonly liveness: Liveness
  readonly answering: Responsiveness
  readonly last_seen_at: string | null
  readonly resources: string
  readonly has_backend: boolean
  readonly build: string | null
  readonly is_damaged: boolean
  readonly install_id: string | null
  readonly is_install_failing: boolean
  readonly artifact_size: number | null
  readonly files: string | null
  readonly is_unloaded: boolean
}

export class PlacementStore {
  readonly #db: Kysely<Database>

  constructor(db: Kysely<Database>) {
    this.#db = db
  }

  /** Live replicas, replicas that exited a moment ago, and the sizes of uploaded files. */
  async replicas(): Promise<{ replicas: PlacementReplicaFacts[]; uploads: ReadonlyMap<string, number> }> {
    const [{ rows }, uploads] = await Promise.all([
      sql<ReplicaRow>`
        select r.id, r.node_id, r.model, r.state, r.checked, coalesce(r.revision = m.revision, false) as is_current, l.model is not null as has_load,
          r.config::text as config, r.booking::text, coalesce(l.current_bytes, 0)::float8 as fetched,
          coalesce(m.config ->> 'scheduling', '{}') as scheduling, coalesce(m.requested_replicas, 0) as requested_replicas, coalesce(m.is_unloaded, true) as is_model_unloaded,
          extract(epoch from now() - r.ready_at)::float8 * 1000 as ready_ms,
          extract(epoch from p.reported_at - r.ready_at)::float8 * 1000 as ready_before_ms,
          extract(epoch from p.reported_at - r.exited_at)::float8 * 1000 as exited_before_ms,
          extract(epoch from now() - m.used_at)::float8 * 1000 as unused_ms
        from replicas r join node_pulses p on p.node_id = r.node_id left join models m on m.name = r.model
          left join loads l on l.replica_id = r.id
        where r.state <> 'exited' or (r.state = 'exited' and r.exited_at > now() - ${freedWithin})
        order by r.id`.execute(this.#db),
      this.#db.selectFrom('model_uploads').select(['digest', 'size_bytes']).execute(),
    ])
    const [configOf, schedulingOf, bookingOf] = [readOnce(Configured), readOnce(Known), readOnce(Booked)]
    return {
      replicas: rows.map((row) =>
        replicaOf(row, {
          files: configOf(row.config).files,
          scheduling: schedulingOf(row.scheduling),
          booking: bookingOf(row.booking ?? 'null'),
        }),
      ),
      uploads: new Map(uploads.map((each) => [each.digest, each.size_bytes])),
    }
  }

  /** Facts about the content of files: by digest, and by model and name for files without a hash. */
  async files({ digests, models }: { digests: readonly string[]; models: readonly string[] }): Promise<KnownFiles> {
    const [contents, named] = await Promise.all([
      sql<ContentRow>`select digest, size_bytes as size, facts::text as facts from file_contents where digest = any(${digests}::text[])`.execute(
        this.#db,
      ),
      sql<NamedRow>`
        select f.model, f.filename, f.digest, coalesce(c.size_bytes, f.size_bytes) as size, coalesce(c.facts, f.facts)::text as facts
        from model_files f left join file_contents c on c.digest = f.digest where f.model = any(${models}::text[])`.execute(this.#db),
    ])
    const factsOf = readOnce(Facts)
    const known = ({ size, facts }: Pick<ContentRow, 'size' | 'facts'>): StoredContent => ({ size, facts: factsOf(facts ?? 'null') })
    return {
      byDigest: new Map(contents.rows.map((row) => [row.digest, known(row)])),
      byName: new Map(named.rows.map((row) => [fileKey(row.model, row.filename), { ...known(row), digest: row.digest }])),
    }
  }

  async spreadFacts(model: ModelName): Promise<ReadonlyMap<NodeId, SpreadFacts>> {
    const { rows } = await sql<{ id: string; has_replica: boolean; calm_ms: number | null; failed_ms: number | null }>`
      select n.id, extract(epoch from now() - c.at)::float8 * 1000 as calm_ms, coalesce(r.has_replica, false) as has_replica, r.failed_ms
      from nodes n left join changes c on c.kind = 'node' and c.id = n.id left join (
        select node_id, bool_or(state <> 'exited') as has_replica,
          min(extract(epoch from now() - exited_at)::float8 * 1000) filter (where ready_at is null or checked = 'failed') as failed_ms
        from replicas where model = ${model} group by node_id
      ) r on r.node_id = n.id`.execute(this.#db)
    return new Map(
      rows.map((row) => [NodeId.parse(row.id), { hasReplica: row.has_replica, calmMs: row.calm_ms ?? Infinity, failedMs: row.failed_ms }]),
    )
  }

  /** Sorted, so that of equal nodes the first one is chosen. `digests`: the files to look for. */
  async nodes({ model, backend, digests }: { model: string; backend: string; digests: readonly string[] }): Promise<PlacementNodeFacts[]> {
    const damaged = JSON.stringify([{ name: backend, damaged: true }])
    const { rows } = await sql<NodeRow>`
      select n.id, n.name, n.node_type, n.features, n.os, n.arch, n.capability, n.reported_labels::text, n.label_overrides::text, n.vram_budget,
        n.max_replicas_per_model,
        n.approved_at is not null as approved, n.draining, p.liveness, p.answering, p.last_seen_at, p.resources::text,
        n.inventory @> ${damaged}::jsonb as is_damaged,
        case when n.capability <> 'default' then
          (select e ->> 'uri' from jsonb_array_elements(n.inventory) e where e ->> 'name' = ${backend} limit 1) end as build,
        -- The inventory follows a moment after the result.
        n.inventory @> ${JSON.stringify([{ name: backend }])}::jsonb and not n.inventory @> ${damaged}::jsonb
          or coalesce(i.state = 'applied' and i.kind <> 'delete' and coalesce(n.inventory_at < i.finished_at, true), false) as has_backend,
        case when i.state in ('waiting', 'sending', 'working') and i.kind <> 'delete' and not i.cancel_requested then i.op_id end as install_id,
        coalesce(i.state = 'waiting' and i.last_failure is not null, false) as is_install_failing,
        (i.plan ->> 'sizeBytes')::bigint as artifact_size,
        (select jsonb_object_agg(f.digest, f.size) from jsonb_to_recordset(n.files) as f (digest text, size bigint)
          where f.digest = any(${digests}::text[]))::text as files,
        exists (select from node_unloads u where u.model = ${model} and u.node_id = n.id) as is_unloaded
      from nodes n join node_pulses p on p.node_id = n.id left join intents i on i.node_id = n.id and i.backend = ${backend}
      order by n.name collate "C", n.id collate "C"`.execute(this.#db)
    const once = { labels: readOnce(Labels), overrides: readOnce(Overrides), resources: readOnce(Resources), sizes: readOnce(Sizes) }
    return rows.map((row) => nodeOf(row, once))
  }
}

/** Parses equal texts once. */
function readOnce<T>(schema: z.ZodType<T>): (text: string) => T {
  const known = new Map<string, T>()
  return (text) => {
    const before = known.get(text)
    if (before !== undefined) return before
    const read = schema.parse(JSON.parse(text))
    known.set(text, read)
    return read
  }
}

type Read = Pick<PlacementReplicaFacts, 'files' | 'scheduling' | 'booking'>

const replicaOf = (row: ReplicaRow, { files, scheduling, booking }: Read): PlacementReplicaFacts => ({
  id: ReplicaId.parse(row.id),
  nodeId: NodeId.parse(row.node_id),
  model: row.model,
  state: row.state,
  isChecked: row.checked === 'passed',
  isCurrent: row.is_current,
  hasLoad: row.has_load,
  config: row.config,
  ...{ files, booking },
  fetchedBytes: row.fetched,
  scheduling,
  requestedReplicas: row.requested_replicas,
  isModelUnloaded: row.is_model_unloaded,
  readyMs: row.ready_ms,
  readyBeforeMs: row.ready_before_ms,
  exitedBeforeMs: row.exited_before_ms,
  unusedMs: row.unused_ms,
})

type Once = Readonly<{
  labels: (text: string) => PlacementNodeFacts['reportedLabels']
  overrides: (text: string) => PlacementNodeFacts['labelOverrides']
  resources: (text: string) => Resources
  sizes: (text: string) => Readonly<Record<string, number>>
}>

const nodeOf = (row: NodeRow, once: Once): PlacementNodeFacts => ({
  id: NodeId.parse(row.id),
  name: row.name,
  nodeType: row.node_type,
  features: row.features,
  os: row.os,
  arch: row.arch,
  capability: row.capability,
  reportedLabels: once.labels(row.reported_labels),
  labelOverrides: once.overrides(row.label_overrides),
  vramBudget: row.vram_budget,
  maxReplicasPerModel: row.max_replicas_per_model,
  approved: row.approved,
  draining: row.draining,
  liveness: row.liveness,
  answering: row.answering,
  lastSeenAt: row.last_seen_at,
  resources: once.resources(row.resources),
  hasBackend: row.has_backend,
  build: row.build ?? '',
  isDamaged: row.is_damaged,
  install: row.install_id === null ? null : { id: OperationId.parse(row.install_id), isFailing: row.is_install_failing },
  artifactSize: row.artifact_size,
  files: new Map(Object.entries(once.sizes(row.files ?? '{}'))),
  isUnloaded: row.is_unloaded,
})
