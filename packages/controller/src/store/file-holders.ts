// Which nodes keep which model files, as their inventories say.
import { NodeId } from '@muster/protocol'
import { sql, type Kysely } from 'kysely'
import type { Database } from './tables.ts'

export interface FileHolder {
  readonly id: NodeId
  readonly gatewayUrl: string
  readonly gatewaySecret: string
  /** Digest → size. */
  readonly files: ReadonlyMap<string, number>
}

interface Row {
  readonly id: string
  readonly gateway_url: string
  readonly gateway_secret: string
  readonly files: Readonly<Record<string, number>>
}

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
      where n.approved_at is not null and p.liveness = 'present' and p.answering = 'yes' and f ->> 'digest' = any(${digests}::text[])
      group by n.id order by random()`.execute(this.#db)
    return rows.map((row) => ({
      id: NodeId.parse(row.id),
      gatewayUrl: row.gateway_url,
      gatewaySecret: row.gateway_secret,
      files: new Map(Object.entries(row.files)),
    }))
  }
}
