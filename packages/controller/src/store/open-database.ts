// The database of a controller, wherever it is: given by URL, or embedded; migrated before it is used.
import { fileURLToPath } from 'node:url'
import type { Clock, DataDir, Log, Secret } from '@muster/host'
import type { Kysely } from 'kysely'
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
