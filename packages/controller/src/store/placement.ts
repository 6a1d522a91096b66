// What decides where a model can go, besides what nodes.ts knows of the nodes.
import { ReplicaId, StoredFile } from '@muster/protocol'
import { sql, type Kysely } from 'kysely'
import { z } from 'zod'
import type { Database } from './tables.ts'

export interface PlacementFacts {
  readonly nodes: ReadonlyMap<string, Readonly<{ files: ReadonlySet<string>; live: readonly ReplicaId[]; replicasOfModel: number }>>
  /** Of every content that some node keeps, or that was uploaded. */
  readonly sizes: ReadonlyMap<string, number>
}

const Files = z.array(StoredFile)

export class PlacementStore {
  readonly #db: Kysely<Database>

  constructor(db: Kysely<Database>) {
    this.#db = db
  }

  async facts(model: string): Promise<PlacementFacts> {
    const { rows } = await sql<{ id: string; files: unknown; live: string[]; of_model: number }>`
      select n.id, n.files, coalesce(array_agg(r.id) filter (where r.id is not null), '{}') as live, count(r.id) filter (where r.model = ${model})::int as of_model
      from nodes n left join replicas r on r.node_id = n.id and r.state <> 'exited' group by n.id`.execute(this.#db)
    const uploads = await this.#db.selectFrom('model_uploads').select(['digest', 'size_bytes']).where('model', '=', model).execute()
    const sizes = new Map<string, number>(uploads.map((row) => [row.digest, row.size_bytes]))
    const nodes = new Map<string, { files: Set<string>; live: ReplicaId[]; replicasOfModel: number }>()
    for (const row of rows) {
      const files = Files.parse(row.files)
      for (const { digest, size } of files) sizes.set(digest, size)
      const { id, of_model: replicasOfModel } = row
      const live = row.live.map((replica) => ReplicaId.parse(replica))
      nodes.set(id, { files: new Set(files.map(({ digest }) => digest)), live, replicasOfModel })
    }
    return { nodes, sizes }
  }
}
