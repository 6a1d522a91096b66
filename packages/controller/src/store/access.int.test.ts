import { fileURLToPath } from 'node:url'
import { sha256Hex, silentLog } from '@muster/host'
import { createTestDatabase } from '@muster/testkit'
import { expect, it } from 'vitest'
import { AccessStore } from './access.ts'
import { connectDatabase } from './connect.ts'
import { migrate } from './migrate.ts'
import type { Database } from './tables.ts'

it('a join token is replaced or stays: there is never none', async () => {
  await using database = await createTestDatabase()
  const { db, pool, close } = connectDatabase<Database>({ to: { url: database.url }, log: silentLog, applicationName: 'test' })
  try {
    await migrate({
      pool,
      directory: fileURLToPath(new URL('./migrations', import.meta.url)),
      log: silentLog,
      afterwards: async () => undefined,
    })
    const access = new AccessStore(db)
    const [first, second] = [sha256Hex('first'), sha256Hex('second')]
    await access.replaceJoinTokens(first)
    await expect(access.replaceJoinTokens('not a hash')).rejects.toThrow()
    expect(await access.hasJoinToken(first)).toBe(true)
    await access.replaceJoinTokens(second)
    await access.replaceJoinTokens(second)
    expect([await access.hasJoinToken(first), await access.hasJoinToken(second)]).toEqual([false, true])
  } finally {
    await close()
  }
})
