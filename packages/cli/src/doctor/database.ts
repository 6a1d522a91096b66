// Whether the truth can be read and written: as the controller sees it, else by looking at the server.
import { systemRoutes } from '@muster/protocol'
import { plainText } from '../output/plain-text.ts'
import { askHttp, type HttpFinding } from './ask-http.ts'
import { judgeEmbedded, lookAtEmbedded } from './embedded-postgres.ts'
import type { KnownTarget } from './known-target.ts'
import { examinePostgres } from './postgres-server.ts'
import { type Check, fail, ok, type Verdict } from './verdict.ts'

const oldest = 15

/** Null: the controller told nothing of its database. */
export function judgeDatabaseOfController(finding: HttpFinding | null): Verdict | null {
  if (finding === null || !finding.answered) return null
  const status = systemRoutes.status.response?.safeParse(finding.json)
  if (status?.success !== true) return null
  const version = plainText(status.data.database.version)
  const major = Number(/\d+/.exec(version)?.[0] ?? 0)
  if (major < oldest) return fail(`the controller uses PostgreSQL ${version}`, `use PostgreSQL ${oldest} or newer`)
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
    const told = judgeDatabaseOfController(known.target === null ? null : await askHttp(known.target, systemRoutes.status.path, signal))
    if (told !== null) return told
    return databaseUrl === undefined ? judgeEmbedded(await lookAtEmbedded(dataDir)) : examinePostgres(databaseUrl, signal)
  },
})
