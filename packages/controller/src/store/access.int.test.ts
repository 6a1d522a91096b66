import { fileURLToPath } from 'node:url'
import { sha256Hex, silentLog } from '@muster/host'
import { createTestDatabase } from '@muster/testkit'
import type { Kysely } from 'kysely'
import { expect, it } from 'vitest'
import { AccessStore } from './access.ts'
import { connectDatabase } from './connect.ts'
import { migrate } from './migrate.ts'
import type { Database } from './tables.ts'

async function withAccess(use: (access: AccessStore, db: Kysely<Database>) => Promise<void>): Promise<void> {
  await using database = await createTestDatabase()
  const { db, pool, close } = connectDatabase<Database>({ to: { url: database.url }, log: silentLog, applicationName: 'test' })
  try {
    await migrate({
      pool,
      directory: fileURLToPath(new URL('./migrations', import.meta.url)),
      log: silentLog,
      afterwards: async () => undefined,
    })
    await use(new AccessStore(db), db)
  } finally {
    await close()
  }
}

it('a join token is replaced or stays: there is never none', () =>
  withAccess(async (access) => {
    const [first, second] = [sha256Hex('first'), sha256Hex('second')]
    await access.replaceJoinTokens(first)
    await expect(access.replaceJoinTokens('not a hash')).rejects.toThrow()
    expect(await access.hasJoinToken(first)).toBe(true)
    await access.replaceJoinTokens(second)
    await access.replaceJoinTokens(second)
    expect([await access.hasJoinToken(first), await access.hasJoinToken(second)]).toEqual([false, true])
  }))

it('a join token for a while works until it is over, is removed then, and is not the one that a cluster needs', () =>
  withAccess(async (access, db) => {
    const [lasting, valid, expired] = [sha256Hex('lasting'), sha256Hex('valid'), sha256Hex('expired')]
    expect(Date.parse(await access.insertJoinToken(valid, 3_600_000))).toBeGreaterThan(Date.now() + 3_500_000)
    await access.insertJoinToken(expired, -1_000)
    expect([await access.hasJoinToken(valid), await access.hasJoinToken(expired)]).toEqual([true, false])
    expect(await access.countJoinTokens()).toBe(0)
    await access.removeExpired()
    expect(await db.selectFrom('join_tokens').select('secret_sha256').execute()).toEqual([{ secret_sha256: valid }])
    // Giving a cluster its token takes back all others, these too.
    await access.replaceJoinTokens(lasting)
    expect([await access.hasJoinToken(valid), await access.countJoinTokens()]).toEqual([false, 1])
  }))

it('SEC10 a login link works once, until it expires, for a session that expires', () =>
  withAccess(async (access, db) => {
    const use = (link: string, session: string, sessionMs: number): Promise<boolean> =>
      access.useLoginLink({ secretSha256: sha256Hex(link), sessionSha256: sha256Hex(session), sessionMs })
    await access.insertLoginLink(sha256Hex('valid'), 60_000)
    await access.insertLoginLink(sha256Hex('expired'), -1)
    expect(await use('expired', 'of-the-expired', 60_000)).toBe(false)
    expect(await use('valid', 'first', 60_000)).toBe(true)
    expect(await use('valid', 'second', 60_000)).toBe(false)
    const sessions = await db.selectFrom('browser_sessions').select('secret_sha256').execute()
    expect(sessions).toEqual([{ secret_sha256: sha256Hex('first') }])
    expect(await db.selectFrom('login_links').selectAll().execute()).toEqual([])
  }))

it('SEC10 a session is found until it expires or its key is revoked, and is removed after that', () =>
  withAccess(async (access, db) => {
    for (const id of ['k1', 'k2']) await access.insertKey({ id, name: id, scope: 'admin', secretSha256: sha256Hex(id) })
    const [lasting, expired, ofKey] = [sha256Hex('lasting'), sha256Hex('expired'), sha256Hex('of-key')]
    expect(await access.insertSession({ secretSha256: lasting, keyId: 'k2', sessionMs: 60_000 })).toBe(true)
    await access.insertSession({ secretSha256: expired, keyId: 'k2', sessionMs: -1 })
    await access.insertSession({ secretSha256: ofKey, keyId: 'k1', sessionMs: 60_000 })
    expect((await access.findSession(lasting, 'k2'))?.leftMs).toBeGreaterThan(50_000)
    expect(await access.findSession(expired, null)).toBeNull()
    expect(await access.stillValid({ keys: ['k1', 'k2'], sessions: [lasting, expired, ofKey] })).toEqual({
      keys: new Set(['k1', 'k2']),
      sessions: new Set([lasting, ofKey]),
    })
    expect(await access.removeKey('k1')).toBe(true)
    expect(await access.findSession(ofKey, 'k1')).toBeNull()
    expect(await access.insertSession({ secretSha256: sha256Hex('late'), keyId: 'k1', sessionMs: 60_000 })).toBe(false)
    expect((await access.stillValid({ keys: ['k1', 'k2'], sessions: [] })).keys).toEqual(new Set(['k2']))
    await access.removeExpired()
    const left = await db.selectFrom('browser_sessions').select('secret_sha256').orderBy('secret_sha256').execute()
    expect(left.map((row) => row.secret_sha256)).toEqual([lasting, ofKey].toSorted())
  }))
