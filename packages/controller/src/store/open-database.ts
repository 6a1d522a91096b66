// The database of a controller, wherever it is: given by URL, or embedded; migrated before it is used.
import { fileURLToPath } from 'node:url'
import { Secret, type Clock, type DataDir, type Log } from '@muster/host'
import type { Kysely } from 'kysely'
import { startEmbedded } from '../postgres/embedded.ts'
import { connectDatabase } from './connect.ts'
import { migrate } from './migrate.ts'
import type { Database } from './tables.ts'
import { isUnavailable } from './errors.ts'

export interface OpenDatabase {
  readonly db: Kysely<Database>
  /** Migrates, and runs `afterwards` under the migration's lock; waits for a database that is away. */
  prepare<T>(options: { signal: AbortSignal; afterwards: () => Promise<T> }): Promise<T>
  /** Calls back on each notification, and whenever one may have been missed. */
  listen(channel: string, onNotify: () => void): { stop(): Promise<void> }
  /** The database does not answer and nobody wants to wait: everything that does fails now. */
  abandon(): void
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
  /** Gives up the start of an embedded server. */
  readonly signal?: AbortSignal | undefined
}

export async function openDatabase({ url, dataDir, clock, log, signal: giveUp }: OpenDatabaseOptions): Promise<OpenDatabase> {
  const embedded = url === undefined ? await startEmbedded({ dataDir: dataDir.root, clock, log, signal: giveUp }) : null
  const to =
    embedded === null
      ? { url: url?.reveal() ?? '' }
      : { connection: { ...embedded.connection, password: new Secret(embedded.connection.password) } }
  const connected = connectDatabase<Database>({ to, applicationName: 'muster controller', clock, log })

  let isAbandoned = false
  return {
    db: connected.db,

    async prepare({ signal, afterwards }) {
      for (;;) {
        try {
          return await migrate({ pool: connected.pool, directory: migrations, log, signal, afterwards })
        } catch (error) {
          // Waiting does not help with a wrong password or a broken migration: the operator has to know at once.
          if (!isUnavailable(error) || signal.aborted) throw error
          log.warn('the database is not ready; trying again', { error })
          await clock.sleep(retryEveryMs, signal)
        }
      }
    },

    listen(channel, onNotify) {
      return connected.listen({ channel, onNotify })
    },

    abandon() {
      isAbandoned = true
      connected.abandon()
    },

    async close() {
      try {
        await connected.close()
      } finally {
        await embedded?.stop(isAbandoned ? 'at once' : 'in order')
      }
    },
  }
}
