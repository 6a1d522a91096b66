// Queries about the content of model files: headers by digest, and the content of files that a configuration names without a
// hash. Facts of a worker, which read them from verified content, are never replaced by those that a controller read from a
// source; rows are written in the order of their keys, because reports of two nodes overlap and must not deadlock.
import { type Kysely, sql } from 'kysely'
import type { Digest, GgufFacts, ModelName, NamedFile, NodeId, StoredFacts, StoredFile } from '@muster/protocol'
import { retryConflicts } from './errors.ts'
import type { Database } from './tables.ts'

type ContentReport = Readonly<{
  files?: readonly StoredFile[] | undefined
  file_facts?: readonly StoredFacts[] | undefined
  named_files?: readonly NamedFile[] | undefined
}>
type Reporter = Readonly<{ id: NodeId; incarnation: string | null }>

/** Only of the registered process of an approved node. Writes nothing that is known already. */
export async function recordContents(db: Kysely<Database>, node: Reporter, report: ContentReport): Promise<void> {
  const { named_files: named = [] } = report
  const sizes = new Map(report.files?.map(({ digest, size }) => [digest, size]))
  // A node describes the files that it has, and no others.
  const facts = (report.file_facts ?? []).flatMap((each) => (sizes.has(each.digest) ? [{ ...each, size: sizes.get(each.digest) }] : []))
  const isReporter = sql`exists (select from nodes where id = ${node.id} and incarnation = ${node.incarnation} and approved_at is not null)`
  if (facts.length > 0)
    await retryConflicts(() =>
      sql`
      insert into file_contents as c (digest, size_bytes, facts, is_verified)
      select f.digest, f.size, f.facts, true from jsonb_to_recordset(${JSON.stringify(facts)}::jsonb)
        as f (digest text, size bigint, facts jsonb)
      where ${isReporter} and not exists (select from file_contents k where k.digest = f.digest and k.is_verified
        and coalesce((k.facts ->> 'reader')::int, 0) >= (f.facts ->> 'reader')::int)
      order by f.digest
      on conflict (digest) do update set size_bytes = coalesce(excluded.size_bytes, c.size_bytes), facts = excluded.facts, is_verified = true, updated_at = now()
        where not c.is_verified or coalesce((c.facts ->> 'reader')::int, 0) < (excluded.facts ->> 'reader')::int`.execute(db),
    )
  if (named.length > 0)
    await retryConflicts(() =>
      sql`
      insert into model_files as c (model, filename, digest, size_bytes)
      select f.model, f.filename, f.digest, f.size from jsonb_to_recordset(${JSON.stringify(named)}::jsonb)
        as f (model text, filename text, digest text, size bigint) join models m on m.name = f.model
      where ${isReporter} and not exists (select from model_files k where k.model = f.model and k.filename = f.filename and k.digest = f.digest)
      order by f.model, f.filename
      on conflict (model, filename) do update set digest = excluded.digest, size_bytes = excluded.size_bytes, facts = null, updated_at = now()`.execute(
        db,
      ),
    )
}

/** The header of a file, as its source sent it. `digest`: as the configuration names it; null: keyed by model and name. */
export interface RemoteFile {
  readonly model: ModelName
  readonly filename: string
  readonly digest: Digest | null
  readonly size: number | null
  readonly facts: GgufFacts | null
}

export class FileContentStore {
  readonly #db: Kysely<Database>

  constructor(db: Kysely<Database>) {
    this.#db = db
  }

  /** Keeps the newest. Content that is still in use returns with the next inventory of a node that has it. */
  async prune({ keep }: { keep: number }): Promise<void> {
    await sql`delete from file_contents where digest in (select digest from file_contents order by updated_at desc, digest offset ${keep})`.execute(
      this.#db,
    )
  }

  async recordRemote({ model, filename, digest, size, facts }: RemoteFile): Promise<void> {
    const header = facts === null ? null : JSON.stringify(facts)
    if (digest !== null)
      await sql`
        insert into file_contents as c (digest, size_bytes, facts, is_verified) values (${digest}, ${size}, ${header}::jsonb, false)
        on conflict (digest) do update set size_bytes = excluded.size_bytes, facts = excluded.facts, updated_at = now() where not c.is_verified`.execute(
        this.#db,
      )
    else
      await sql`
        insert into model_files as c (model, filename, size_bytes, facts) select m.name, ${filename}, ${size}::bigint, ${header}::jsonb from models m where m.name = ${model}
        on conflict (model, filename) do update set size_bytes = excluded.size_bytes, facts = excluded.facts, updated_at = now() where c.digest is null`.execute(
        this.#db,
      )
  }
}
