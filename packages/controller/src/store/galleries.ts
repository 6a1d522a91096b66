// Queries about galleries, the versions that they offer, and the duty to check for newer ones. Galleries of the command line
// cannot be changed by the API.
import type { GalleryAddress, GalleryView } from '@muster/protocol'
import { type Kysely, sql } from 'kysely'
import type { AvailableBackendsTable, Database } from './tables.ts'

type Row = Omit<GalleryView, 'from'> & { readonly origin: 'setting' | 'api' }
const columns = ['name', 'url', 'kind', 'origin', 'created_at'] as const

export class GalleryStore {
  readonly #db: Kysely<Database>

  constructor(db: Kysely<Database>) {
    this.#db = db
  }

  /** Oldest first: if several galleries offer a name, the oldest one wins, so a new gallery overrides nothing. */
  async list(): Promise<GalleryView[]> {
    const rows = await this.#db.selectFrom('galleries').select(columns).orderBy('created_at').orderBy('name').execute()
    return rows.map(viewOf)
  }

  /** Null when the gallery comes from the command line. */
  async put(gallery: GalleryAddress): Promise<GalleryView | null> {
    const { name, url, kind } = gallery
    const row = await this.#db
      .insertInto('galleries')
      .values({ name, url, kind, origin: 'api' })
      .onConflict((conflict) => conflict.column('name').doUpdateSet({ url, kind }).where('galleries.origin', '=', 'api'))
      .returning(columns)
      .executeTakeFirst()
    return row === undefined ? null : viewOf(row)
  }

  async remove(name: string): Promise<'removed' | 'unknown' | 'setting'> {
    const result = await this.#db.deleteFrom('galleries').where('name', '=', name).where('origin', '=', 'api').executeTakeFirst()
    if (result.numDeletedRows > 0n) return 'removed'
    const left = await this.#db.selectFrom('galleries').select('name').where('name', '=', name).executeTakeFirst()
    return left === undefined ? 'unknown' : 'setting'
  }

  /** Replaces the galleries of the command line. A gallery that an administrator added under such a name is replaced too. */
  async syncSettings(galleries: readonly GalleryAddress[]): Promise<void> {
    await this.#db.transaction().execute(async (tx) => {
      // Serialized: of two controllers that start at once with different settings, one wins completely.
      await sql`lock table galleries in share row exclusive mode`.execute(tx)
      const names = galleries.map((gallery) => gallery.name)
      await tx
        .deleteFrom('galleries')
        .where('origin', '=', 'setting')
        .$if(names.length > 0, (query) => query.where('name', 'not in', names))
        .execute()
      for (const { name, url, kind } of galleries) {
        await tx
          .insertInto('galleries')
          .values({ name, url, kind, origin: 'setting', created_at: sql<string>`clock_timestamp()` })
          .onConflict((conflict) => conflict.column('name').doUpdateSet({ url, kind, origin: 'setting' }))
          .execute()
      }
    })
  }
}

const viewOf = ({ origin, ...row }: Row): GalleryView => ({ ...row, from: origin })

// The versions that galleries and registries offered at the last check, for installed backends.

/**
 * `concrete`: the matching entry of the gallery, or the URI of a backend that is in no gallery. `platform`: the kind of node,
 * such as `linux/amd64 nvidia-cuda-12`.
 */
export type AvailableBackend = Readonly<Record<Exclude<keyof AvailableBackendsTable, 'checked_at'>, string>>

type CheckResult = Readonly<{
  duty: string
  holder: string
  found: readonly AvailableBackend[]
  /** The check failed for these; their stored versions stay. */
  unknown: readonly Pick<AvailableBackend, 'backend' | 'platform'>[]
  report: object
}>

const availableColumns = ['backend', 'concrete', 'platform', 'uri', 'digest', 'version'] as const

export class AvailableStore {
  readonly #db: Kysely<Database>

  constructor(db: Kysely<Database>) {
    this.#db = db
  }

  async list(): Promise<AvailableBackend[]> {
    return await this.#db.selectFrom('available_backends').select(availableColumns).execute()
  }

  /** Stores the result and completes the duty. False, and nothing is changed, when the lease of the duty was lost. */
  async record({ duty, holder, found, unknown, report }: CheckResult): Promise<boolean> {
    return await this.#db.transaction().execute(async (tx) => {
      const { rows } = await sql`
        update duties set done_at = now(), report = ${JSON.stringify(report)}::jsonb, holder = null, lease_until = null
        where name = ${duty} and holder = ${holder} and lease_until > now() returning name`.execute(tx)
      if (rows.length === 0) return false
      const before = await tx.selectFrom('available_backends').select(availableColumns).execute()
      const isUnknown = (row: AvailableBackend): boolean =>
        unknown.some(({ backend, platform }) => backend === row.backend && platform === row.platform)
      const gone = before.filter((row) => !isUnknown(row) && !found.some((each) => keyOf(each) === keyOf(row)))
      const changed = found.filter((each) => !before.some((row) => availableColumns.every((column) => row[column] === each[column])))
      for (const { backend, concrete, platform } of gone) {
        await tx
          .deleteFrom('available_backends')
          .where('backend', '=', backend)
          .where('concrete', '=', concrete)
          .where('platform', '=', platform)
          .execute()
      }
      for (const row of changed) {
        await tx
          .insertInto('available_backends')
          .values(row)
          .onConflict((conflict) => conflict.columns(['backend', 'concrete', 'platform']).doUpdateSet({ ...row, checked_at: sql`now()` }))
          .execute()
      }
      // Always in the same order, so that concurrent writers do not deadlock.
      const names = [...new Set([...gone, ...changed].map(({ backend }) => backend))].toSorted()
      for (const name of names) await sql`select record_change('backend', ${name}, false)`.execute(tx)
      return true
    })
  }
}

const keyOf = ({ backend, concrete, platform }: AvailableBackend): string => JSON.stringify([backend, concrete, platform])

// Duties: periodic work that one controller at a time does for all, such as the check for newer versions. A duty has a
// lease, not a lock: nothing is locked while the work runs, and a controller that lost the lease writes nothing.

type Duty = Readonly<{ doneAt: string | null; report: unknown }>

export class DutyStore {
  readonly #db: Kysely<Database>

  constructor(db: Kysely<Database>) {
    this.#db = db
  }

  /** True: this holder has the duty until the lease ends. False when another holder has it, or when it was done recently. */
  async take(name: string, { holder, leaseMs, unlessDoneWithinMs }: { holder: string; leaseMs: number; unlessDoneWithinMs: number }) {
    const { rows } = await sql`
      insert into duties (name, holder, lease_until) values (${name}, ${holder}, now() + make_interval(secs => ${leaseMs / 1000}))
      on conflict (name) do update set holder = excluded.holder, lease_until = excluded.lease_until
      where (duties.lease_until is null or duties.lease_until < now() or duties.holder = excluded.holder)
        and (duties.done_at is null or duties.done_at <= now() - make_interval(secs => ${unlessDoneWithinMs / 1000}))
      returning name`.execute(this.#db)
    return rows.length > 0
  }

  async release(name: string, holder: string): Promise<void> {
    await this.#db
      .updateTable('duties')
      .set({ holder: null, lease_until: null })
      .where('name', '=', name)
      .where('holder', '=', holder)
      .execute()
  }

  async read(name: string): Promise<Duty> {
    const row = await this.#db.selectFrom('duties').select(['done_at', 'report']).where('name', '=', name).executeTakeFirst()
    return { doneAt: row?.done_at ?? null, report: row?.report ?? {} }
  }
}
