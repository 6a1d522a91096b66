// Opens the database of a controller, given by URL or embedded.
import { fileURLToPath } from 'node:url'
import { Secret, type Clock, type DataDir, type Log } from '@muster/host'
import type { Kysely } from 'kysely'
import { startEmbedded } from '../postgres/embedded.ts'
import { connectDatabase } from './connect.ts'
import { migrate } from './migrate.ts'
import type { Database } from './tables.ts'
import { whileUnavailable } from './errors.ts'

export interface OpenDatabase {
  readonly db: Kysely<Database>
  /** Migrates, and runs `afterwards` under the lock of the migration; waits for an unavailable database. */
  prepare<T>(options: { signal: AbortSignal; afterwards: () => Promise<T> }): Promise<T>
  /** Runs `work` again while the database is unavailable, for steps of a start: a busy machine delays a start and does not fail it. */
  waitFor<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T>
  /** Calls back on each notification, and when one may have been lost. */
  listen(channel: string, onNotify: () => void): { stop(): Promise<void> }
  /** Ends all waits for a database that does not answer; they fail now. */
  abandon(): void
  close(): Promise<void>
}

const migrations = fileURLToPath(new URL('./migrations', import.meta.url))

export interface OpenDatabaseOptions {
  /** Default: an embedded server in the data directory. */
  readonly url: Secret | undefined
  readonly dataDir: DataDir
  readonly clock: Clock
  readonly log: Log
  /** Aborts the start of an embedded server. */
  readonly signal?: AbortSignal | undefined
}

export async function openDatabase({ url, dataDir, clock, log, signal: giveUp }: OpenDatabaseOptions): Promise<OpenDatabase> {
  const embedded = url === undefined ? await startEmbedded({ dataDir: dataDir.root, clock, log, signal: giveUp }) : null
  const to =
    embedded === null
      ? { url: url?.reveal() ?? '' }
      : { connection: { ...embedded.connection, password: new Secret(embedded.connection.password) } }
  const connected = connectDatabase<Database>({ to, applicationName: 'muster controller', clock, log })

  const waitFor: OpenDatabase['waitFor'] = (signal, work) => whileUnavailable({ clock, log, signal }, work)
  let isAbandoned = false
  return {
    db: connected.db,
    waitFor,
    prepare: ({ signal, afterwards }) =>
      waitFor(signal, () => migrate({ pool: connected.pool, directory: migrations, log, signal, afterwards })),

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
