// Queries about inventories: the backends and model files of nodes, from numbered events and from replies without a number. An
// older inventory never replaces a newer one.
import { type Kysely, sql } from 'kysely'
import { Secret } from '@muster/host'
import { type InstalledBackend, type NamedFile, NodeId, type StoredFacts, type StoredFile } from '@muster/protocol'
import { recordContents } from './file-contents.ts'
import { nodeIsReachable } from './nodes.ts'
import type { Database } from './tables.ts'

/** The node, its registered process and the time when an inventory was requested. */
export interface InventoryRequest {
  readonly id: NodeId
  readonly incarnation: string | null
  readonly requestedAt: string
}

type InventoryList = Readonly<{
  backends: readonly InstalledBackend[]
  generations?: Readonly<Record<string, number>> | undefined
  files?: readonly StoredFile[] | undefined
  file_facts?: readonly StoredFacts[] | undefined
  named_files?: readonly NamedFile[] | undefined
}>

export class InventoryStore {
  readonly #db: Kysely<Database>

  constructor(db: Kysely<Database>) {
    this.#db = db
  }

  /** False when the report is stale: from a process that is no longer registered, or older than the stored inventory. */
  async record(id: NodeId, report: InventoryList & { incarnation: string; seq: number }): Promise<boolean> {
    const { incarnation, seq } = report
    await recordContents(this.#db, { id, incarnation }, report)
    const result = await sql`
      update nodes set inventory = ${JSON.stringify(report.backends)}::jsonb, inventory_incarnation = ${incarnation}, inventory_seq = ${seq},
        inventory_at = ${madeAt(id, report)}, files = coalesce(${filesOf(report)}::jsonb, files)
      where id = ${id} and incarnation = ${incarnation} and node_type <> 'agent'
        and (inventory_incarnation is distinct from ${incarnation} or inventory_seq is null or inventory_seq < ${seq})`.execute(this.#db)
    return (result.numAffectedRows ?? 0n) > 0n
  }

  /** The database's time, read before the request. */
  async now(): Promise<string> {
    const { rows } = await sql<{ now: string }>`select clock_timestamp() as now`.execute(this.#db)
    return rows[0]?.now ?? ''
  }

  /**
   * A reply is dated with the time of its request: it is stored unless a newer inventory arrived since. The number of the last
   * event stays, so that older events are still recognized.
   */
  async recordAnswer({ id, incarnation, requestedAt }: InventoryRequest, list: InventoryList): Promise<boolean> {
    await recordContents(this.#db, { id, incarnation }, list)
    const result = await sql`
      update nodes set inventory = ${JSON.stringify(list.backends)}::jsonb, inventory_incarnation = ${incarnation}, inventory_at = ${requestedAt}::timestamptz,
        files = coalesce(${filesOf(list)}::jsonb, files), inventory_seq = case when inventory_incarnation = ${incarnation} then inventory_seq end
      where id = ${id} and incarnation = ${incarnation} and node_type <> 'agent'
        and (inventory_at is null or inventory_incarnation is distinct from ${incarnation} or inventory_at <= ${requestedAt}::timestamptz)`.execute(
      this.#db,
    )
    return (result.numAffectedRows ?? 0n) > 0n
  }
}

/**
 * Reports are stored a moment later. An inventory made before an intent ended, but stored after that, is dated before that end.
 * The first inventory of a process is dated now: the process may have started without the backends of the one before.
 */
const madeAt = (id: NodeId, { incarnation, generations }: InventoryList & { incarnation: string }) =>
  generations === undefined
    ? sql`now()`
    : sql`case when inventory_incarnation is distinct from ${incarnation} then now() else greatest(inventory_at, coalesce((
        select min(i.finished_at) - interval '1 microsecond' from intents i
        where i.node_id = ${id} and i.state = 'applied' and i.finished_at > now() - interval '10 seconds'
          and coalesce((${JSON.stringify(generations)}::jsonb ->> i.backend)::bigint, -1) < i.generation
      ), now())) end`

/** Null when the report lists no files, because the worker stores none or could not read them; the last list stays. */
const filesOf = ({ files }: InventoryList): string | null =>
  files === undefined ? null : JSON.stringify(files.toSorted((a, b) => (a.digest < b.digest ? -1 : 1)))

// Nodes that have a model file, according to their inventories.

export interface FileHolder {
  readonly id: NodeId
  readonly gatewayUrl: string
  readonly gatewaySecret: Secret
  /** Digest → size. */
  readonly files: ReadonlyMap<string, number>
}

interface Row {
  readonly id: string
  readonly gateway_url: string
  readonly gateway_secret: string
  readonly files: Readonly<Record<string, number>>
}

export type UploadTarget = Omit<FileHolder, 'files'> & { readonly name: string }

export class FileHolderStore {
  readonly #db: Kysely<Database>

  constructor(db: Kysely<Database>) {
    this.#db = db
  }

  /** Present nodes that have any of these files, in random order to spread the load. */
  async list(digests: readonly string[]): Promise<FileHolder[]> {
    const { rows } = await sql<Row>`
      select n.id, n.gateway_url, n.gateway_secret, jsonb_object_agg(f ->> 'digest', f -> 'size') as files
      from nodes n join node_pulses p on p.node_id = n.id, jsonb_array_elements(n.files) f
      where ${nodeIsReachable()} and f ->> 'digest' = any(${digests}::text[])
      group by n.id order by random()`.execute(this.#db)
    return rows.map((row) => ({
      id: NodeId.parse(row.id),
      gatewayUrl: row.gateway_url,
      gatewaySecret: new Secret(row.gateway_secret),
      files: new Map(Object.entries(row.files)),
    }))
  }

  /** The files among these that this node has, and no other node lists. */
  async onlyCopies(digests: readonly string[], nodeId: NodeId): Promise<string[]> {
    if (digests.length === 0) return []
    const { rows } = await sql<{ digest: string }>`
      select distinct f ->> 'digest' as digest from nodes n, jsonb_array_elements(n.files) f
      where n.id = ${nodeId} and f ->> 'digest' = any(${digests}::text[]) and not exists (
        select from nodes o where o.id <> n.id and o.files @> jsonb_build_array(jsonb_build_object('digest', f -> 'digest')))`.execute(
      this.#db,
    )
    return rows.map((row) => row.digest)
  }

  /** Nodes with room for a file of this size now, most free space first. */
  async uploadTargets({ limit, sizeBytes }: { limit: number; sizeBytes: number }): Promise<UploadTarget[]> {
    const { rows } = await sql<Omit<Row, 'files'> & { name: string }>`
      select n.id, n.name, n.gateway_url, n.gateway_secret from nodes n join node_pulses p on p.node_id = n.id
      where ${nodeIsReachable()} and not n.draining and n.node_type = 'backend'
        and n.gateway_url <> '' and 'async' = any(n.features) and coalesce((p.resources ->> 'available_disk')::bigint, ${sizeBytes}::bigint) >= ${sizeBytes}::bigint
      order by (p.resources ->> 'available_disk')::bigint desc nulls last, n.id limit ${limit}`.execute(this.#db)
    return rows.map((row) => ({
      id: NodeId.parse(row.id),
      name: row.name,
      gatewayUrl: row.gateway_url,
      gatewaySecret: new Secret(row.gateway_secret),
    }))
  }
}
