// Whether the truth can be read and written: as the controller sees it, else by looking at the server.
import { plainText } from '../output/plain-text.ts'
import { queryController, type ControllerReport } from './ask-controller.ts'
import { judgeEmbedded, inspectEmbedded } from './embedded-postgres.ts'
import type { KnownTarget } from './known-target.ts'
import { examinePostgres } from './postgres-server.ts'
import { judgeUnreported } from './untold.ts'
import { type Check, fail, ok, type Verdict } from './verdict.ts'

const oldestPostgres = 15

/** Null: the controller told nothing of its database. */
export function judgeDatabaseOfController(word: ControllerReport): Verdict | null {
  if (word.kind === 'ready') return ok('works: the controller is ready')
  if (word.kind !== 'status') return null
  const version = plainText(word.status.database.version)
  const major = Number(/\d+/.exec(version)?.[0] ?? 0)
  if (major < oldestPostgres) return fail(`the controller uses PostgreSQL ${version}`, `use PostgreSQL ${oldestPostgres} or newer`)
  return ok(`the controller uses PostgreSQL ${version}`)
}

export const databaseCheck = ({
  known,
  databaseUrl,
  dataDir,
}: {
  known: KnownTarget
  databaseUrl: string | undefined
  dataDir: string
}): Check => ({
  name: 'database',
  run: async (signal) => {
    const word = await queryController(known, signal)
    const told = judgeDatabaseOfController(word)
    if (told !== null) return told
    const embedded = await inspectEmbedded(dataDir)
    const isHere = databaseUrl !== undefined || embedded.state !== 'none'
    const local = databaseUrl === undefined ? judgeEmbedded(embedded) : await examinePostgres(databaseUrl, signal)
    return judgeUnreported(word, isHere ? local : null, '--database-url') ?? local
  },
})
