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
