// Every query about galleries. Those of the command line are the command line's to change.
import type { GalleryAddress, GalleryView } from '@muster/protocol'
import { sql, type Kysely } from 'kysely'
import type { Database } from './tables.ts'

type Row = Omit<GalleryView, 'from'> & { readonly origin: 'setting' | 'api' }
const columns = ['name', 'url', 'kind', 'origin', 'created_at'] as const

export class GalleryStore {
  readonly #db: Kysely<Database>

  constructor(db: Kysely<Database>) {
    this.#db = db
  }

  /** The oldest first: a name that several offer is the first one's, so a new gallery takes over nothing. */
  async list(): Promise<GalleryView[]> {
    const rows = await this.#db.selectFrom('galleries').select(columns).orderBy('created_at').orderBy('name').execute()
    return rows.map(viewOf)
  }

  /** Null when the command line has it. */
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

  /** Makes the galleries of the command line exactly these. One that an administrator added under such a name gives way. */
  async syncSettings(galleries: readonly GalleryAddress[]): Promise<void> {
    await this.#db.transaction().execute(async (tx) => {
      // One controller after the other: of two that start at once with other settings, one wins as a whole.
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
