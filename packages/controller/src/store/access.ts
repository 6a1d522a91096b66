// Queries about access: API keys, join tokens, login links and browser sessions. Secrets are stored as hashes only.
import type { KeyView, Scope } from '@muster/protocol'
import { sql, type Kysely } from 'kysely'
import type { Database } from './tables.ts'

export class AccessStore {
  readonly #db: Kysely<Database>

  constructor(db: Kysely<Database>) {
    this.#db = db
  }

  async findKey(secretSha256: string): Promise<{ id: string; name: string; scope: Scope } | null> {
    const row = await this.#db
      .selectFrom('api_keys')
      .select(['id', 'name', 'scope'])
      .where('secret_sha256', '=', secretSha256)
      .executeTakeFirst()
    return row ?? null
  }

  async listKeys(): Promise<KeyView[]> {
    return await this.#db
      .selectFrom('api_keys')
      .select(['id', 'name', 'scope', 'created_at', 'last_used_at'])
      .orderBy('created_at')
      .orderBy('id')
      .execute()
  }

  async countKeys(): Promise<number> {
    const row = await this.#db
      .selectFrom('api_keys')
      .select((e) => e.fn.countAll<number>().as('keys'))
      .executeTakeFirstOrThrow()
    return row.keys
  }

  /** Returns the key with this secret; creates it if it does not exist. */
  async insertKey(key: { id: string; name: string; scope: Scope; secretSha256: string }): Promise<KeyView> {
    return await this.#db
      .insertInto('api_keys')
      .values({ id: key.id, name: key.name, scope: key.scope, secret_sha256: key.secretSha256 })
      .onConflict((conflict) => conflict.column('secret_sha256').doUpdateSet({ secret_sha256: key.secretSha256 }))
      .returning(['id', 'name', 'scope', 'created_at', 'last_used_at'])
      .executeTakeFirstOrThrow()
  }

  /** False: this is the last admin key, which cannot be removed. Null: the key does not exist. */
  async removeKey(id: string): Promise<boolean | null> {
    return await this.#db.transaction().execute(async (tx) => {
      // Locks all admin keys, because two callers could each remove the other's key.
      const admins = await tx.selectFrom('api_keys').select('id').where('scope', '=', 'admin').orderBy('id').forUpdate().execute()
      if (admins.length === 1 && admins[0]?.id === id) return false
      const result = await tx.deleteFrom('api_keys').where('id', '=', id).executeTakeFirst()
      return result.numDeletedRows > 0n ? true : null
    })
  }

  async touchKeys(ids: readonly string[]): Promise<void> {
    if (ids.length > 0)
      await this.#db
        .updateTable('api_keys')
        .set({ last_used_at: sql<string>`now()` })
        .where('id', 'in', ids)
        .execute()
  }

  async hasJoinToken(secretSha256: string): Promise<boolean> {
    const row = await this.#db
      .selectFrom('join_tokens')
      .select('created_at')
      .where('secret_sha256', '=', secretSha256)
      .where((e) => e.or([e('expires_at', 'is', null), e('expires_at', '>', sql<string>`now()`)]))
      .executeTakeFirst()
    return row !== undefined
  }

  /** Adds a join token that expires. */
  async insertJoinToken(secretSha256: string, validMs: number): Promise<string> {
    const row = await this.#db
      .insertInto('join_tokens')
      .values({ secret_sha256: secretSha256, expires_at: sql<string>`now() + make_interval(secs => ${validMs / 1000})` })
      .returning('expires_at')
      .executeTakeFirstOrThrow()
    if (row.expires_at === null) throw new Error('a temporary join token has no expiry')
    return row.expires_at
  }

  /** Counts the join tokens that do not expire. */
  async countJoinTokens(): Promise<number> {
    const row = await this.#db
      .selectFrom('join_tokens')
      .select((e) => e.fn.countAll<number>().as('tokens'))
      .where('expires_at', 'is', null)
      .executeTakeFirstOrThrow()
    return row.tokens
  }

  /** Makes this the only join token. One statement, so that the cluster always has one. */
  async replaceJoinTokens(secretSha256: string): Promise<void> {
    await sql`
      with others as (delete from join_tokens where secret_sha256 <> ${secretSha256})
      insert into join_tokens (secret_sha256) values (${secretSha256}) on conflict do nothing`.execute(this.#db)
  }

  async insertLoginLink(secretSha256: string, validMs: number): Promise<string> {
    const row = await this.#db
      .insertInto('login_links')
      .values({ secret_sha256: secretSha256, expires_at: sql<string>`now() + make_interval(secs => ${validMs / 1000})` })
      .returning('expires_at')
      .executeTakeFirstOrThrow()
    return row.expires_at
  }

  /** One statement, so that only one of two browsers with the same link logs in. */
  async useLoginLink(link: { secretSha256: string; sessionSha256: string; sessionMs: number }): Promise<boolean> {
    const result = await sql`
      with used as (delete from login_links where secret_sha256 = ${link.secretSha256} and expires_at > now() returning 1),
        stale as (delete from login_links where expires_at <= now())
      insert into browser_sessions (secret_sha256, expires_at)
      select ${link.sessionSha256}, now() + make_interval(secs => ${link.sessionMs / 1000}) from used`.execute(this.#db)
    return (result.numAffectedRows ?? 0n) > 0n
  }

  /** False when the admin key of the new session was revoked meanwhile. */
  async insertSession(session: { secretSha256: string; keyId: string; sessionMs: number }): Promise<boolean> {
    const result = await sql`
      insert into browser_sessions (secret_sha256, expires_at)
      select ${session.secretSha256}, now() + make_interval(secs => ${session.sessionMs / 1000})
      from api_keys where id = ${session.keyId} and scope = 'admin'`.execute(this.#db)
    return (result.numAffectedRows ?? 0n) > 0n
  }

  /** `keyId`: the session ends when this key is revoked. Null when the session does not exist or has expired. */
  async findSession(secretSha256: string, keyId: string | null): Promise<{ leftMs: number } | null> {
    const row = await this.#db
      .selectFrom('browser_sessions')
      .select(sql<number>`(extract(epoch from expires_at - now()) * 1000)::float8`.as('leftMs'))
      .where('secret_sha256', '=', secretSha256)
      .where('expires_at', '>', sql<string>`now()`)
      .$if(keyId !== null, (query) =>
        query.where(({ exists, selectFrom }) => exists(selectFrom('api_keys').select('api_keys.id').where('api_keys.id', '=', keyId))),
      )
      .executeTakeFirst()
    return row ?? null
  }

  /** Returns those of these keys (by ID) and sessions (by hash) that still exist. */
  async stillValid(given: { keys: readonly string[]; sessions: readonly string[] }): Promise<Record<'keys' | 'sessions', Set<string>>> {
    const { rows } = await sql<{ id: string; is_key: boolean }>`
      select id, true as is_key from api_keys where id = any(${given.keys})
      union all
      select secret_sha256, false from browser_sessions where secret_sha256 = any(${given.sessions}) and expires_at > now()`.execute(
      this.#db,
    )
    const idsOf = (isKey: boolean): Set<string> => new Set(rows.filter((row) => row.is_key === isKey).map((row) => row.id))
    return { keys: idsOf(true), sessions: idsOf(false) }
  }

  async removeSession(secretSha256: string): Promise<void> {
    await this.#db.deleteFrom('browser_sessions').where('secret_sha256', '=', secretSha256).execute()
  }

  async removeExpired(): Promise<void> {
    await this.#db
      .deleteFrom('browser_sessions')
      .where('expires_at', '<=', sql<string>`now()`)
      .execute()
    await this.#db
      .deleteFrom('login_links')
      .where('expires_at', '<=', sql<string>`now()`)
      .execute()
    await this.#db
      .deleteFrom('join_tokens')
      .where('expires_at', '<=', sql<string>`now()`)
      .execute()
  }
}
