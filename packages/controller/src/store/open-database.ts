// The database of a controller, wherever it is: given by URL, or embedded; migrated before it is used.
import { fileURLToPath } from 'node:url'
import { Secret, type Clock, type DataDir, type Log } from '@muster/host'
import type { Kysely } from 'kysely'
import type { Pool } from 'pg'
import { startEmbedded } from '../postgres/embedded.ts'
import { connectDatabase } from './connect.ts'
import { migrate } from './migrate.ts'
import type { Database } from './tables.ts'
import { isUnavailable } from './translate-error.ts'

export interface OpenDatabase {
  readonly db: Kysely<Database>
  /** Migrates, and runs `afterwards` under the migration's lock; waits for a database that is away. */
  prepare<T>(options: { signal: AbortSignal; afterwards: () => Promise<T> }): Promise<T>
  /** Calls back on each notification, and whenever one may have been missed. */
  listen(channel: string, onNotify: () => void): { stop(): Promise<void> }
  close(): Promise<void>
}

const migrations = fileURLToPath(new URL('./migrations', import.meta.url))
const retryEveryMs = 1_000

export interface OpenDatabaseOptions {
  /** Left out: an embedded server in the data directory. */
  readonly url: Secret | undefined
  readonly dataDir: DataDir
  readonly clock: Clock
  readonly log: Log
}

export async function openDatabase({ url, dataDir, clock, log }: OpenDatabaseOptions): Promise<OpenDatabase> {
  const embedded = url === undefined ? await startEmbedded({ dataDir: dataDir.root, clock, log }) : null
  const to =
    embedded === null
      ? { url: url?.reveal() ?? '' }
      : { connection: { ...embedded.connection, password: new Secret(embedded.connection.password) } }
  const connected = connectDatabase<Database>({ to, applicationName: 'muster controller', clock, log })

  return {
    db: connected.db,

    async prepare({ signal, afterwards }) {
      for (;;) {
        try {
          return await prepareOnce({ pool: connected.pool, log, signal, afterwards })
        } catch (error) {
          // What waiting can't heal (a wrong password, a broken migration) is for the operator to hear at once.
          if (!isUnavailable(error) || signal.aborted) throw error
          log.warn('the database is not ready; trying again', { error })
          await clock.sleep(retryEveryMs, signal)
        }
      }
    },

    listen(channel, onNotify) {
      return connected.listen({ channel, onNotify })
    },

    async close() {
      await connected.close()
      await embedded?.stop()
    },
  }
}

async function prepareOnce<T>(options: { pool: Pool; log: Log; signal: AbortSignal; afterwards: () => Promise<T> }): Promise<T> {
  const { pool, log, signal } = options
  const done: T[] = []
  const afterwards = async (): Promise<void> => {
    done.push(await options.afterwards())
  }
  await migrate({ pool, directory: migrations, log, signal, afterwards })
  const [result] = done
  if (done.length === 0) throw new Error('migrate() ended without calling back')
  return result as T
}
