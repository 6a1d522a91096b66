// Two controllers reduced to their stores, on one real database. Tests let them decide on the same rows at the same time.
import { silentLog } from '@muster/host'
import { NodeId, Registration } from '@muster/protocol'
import { createTestDatabase, waitFor } from '@muster/testkit'
import { type RawBuilder, sql } from 'kysely'
import { connectDatabase } from '../src/store/connect.ts'
import { createStore, type Store } from '../src/store/store.ts'
import type { Database } from '../src/store/tables.ts'

export type TwoControllers = Awaited<ReturnType<typeof openTwoControllers>>

export async function openTwoControllers() {
  const database = await createTestDatabase()
  const connect = () => connectDatabase<Database>({ to: { url: database.url }, log: silentLog, applicationName: 'test' })
  const connections = [connect(), connect(), connect()] as const
  const [{ db }, ...own] = connections
  const [a, b] = own.map((connection) => createStore(connection.db)) as [Store, Store]
  let made = 0

  return {
    ...{ a, b, db },
    async addNode(name: string): Promise<NodeId> {
      const id = NodeId.parse(name)
      const key = `U${Array.from(String(++made).padStart(55, '0'), (digit) => 'ABCDEFGHIJ'[Number(digit)]).join('')}`
      const registration = Registration.parse({ name, public_key: key, incarnation: 'i', features: ['async'] })
      await a.nodes.insert(id, registration, { approvedBy: 'test', signedAt: new Date() })
      await sql`update node_pulses set liveness = 'present', answering = 'yes', last_seen_at = now() where node_id = ${id}`.execute(db)
      return id
    },
    /**
     * Starts both while `lock`, a query with `for update`, holds the rows that they write, and releases the rows when both wait for
     * them: each has decided before the other has written.
     */
    async atOnce<A, B>(lock: RawBuilder<unknown>, first: () => Promise<A>, second: () => Promise<B>): Promise<[A, B]> {
      let ended = 0
      const count = <T>(result: Promise<T>): Promise<T> => result.finally(() => (ended += 1))
      const both = await db.transaction().execute(async (tx) => {
        await lock.execute(tx)
        const results = Promise.all([count(first()), count(second())])
        results.catch(() => undefined)
        await waitFor(async () => ended + (await countWaiting()) >= 2, { what: 'both to wait for the rows' })
        return { results }
      })
      return await both.results
    },
    async [Symbol.asyncDispose](): Promise<void> {
      for (const { close } of connections) await close()
      await database.drop()
    },
  }

  async function countWaiting(): Promise<number> {
    const { rows } = await sql<{ waiting: number }>`
      select count(*)::int as waiting from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`.execute(db)
    return rows[0]?.waiting ?? 0
  }
}
