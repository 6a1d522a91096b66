// Which nodes keep which model files, as their inventories say.
import { Secret } from '@muster/host'
import { NodeId } from '@muster/protocol'
import { sql, type Kysely } from 'kysely'
import { nodeIsHere } from './pulses.ts'
import type { Database } from './tables.ts'

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

  /** Those that can be asked for any of these; in no order, so that not all ask the same one. */
  async list(digests: readonly string[]): Promise<FileHolder[]> {
    const { rows } = await sql<Row>`
      select n.id, n.gateway_url, n.gateway_secret, jsonb_object_agg(f ->> 'digest', f -> 'size') as files
      from nodes n join node_pulses p on p.node_id = n.id, jsonb_array_elements(n.files) f
      where ${nodeIsHere()} and f ->> 'digest' = any(${digests}::text[])
      group by n.id order by random()`.execute(this.#db)
    return rows.map((row) => ({
      id: NodeId.parse(row.id),
      gatewayUrl: row.gateway_url,
      gatewaySecret: new Secret(row.gateway_secret),
      files: new Map(Object.entries(row.files)),
    }))
  }

  /** Nodes that can take a file of this size now, those with the most room first. */
  async uploadTargets({ limit, sizeBytes }: { limit: number; sizeBytes: number }): Promise<UploadTarget[]> {
    const { rows } = await sql<Omit<Row, 'files'> & { name: string }>`
      select n.id, n.name, n.gateway_url, n.gateway_secret from nodes n join node_pulses p on p.node_id = n.id
      where ${nodeIsHere()} and not n.draining and n.node_type = 'backend'
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
