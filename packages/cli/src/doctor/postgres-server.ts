// Whether a PostgreSQL server is there: it answers a request for encryption with one letter, before
// any user or password is asked for.
import type { NetConnectOpts } from 'node:net'
import { probeSocket, type SocketFinding } from './ask-socket.ts'
import { fail, ok, type Verdict } from './verdict.ts'

/** Length 8 and the code 80877103 (PostgreSQL protocol, SSLRequest). */
const sslRequest = Buffer.from([0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f])

export function judgePostgresServer(at: string, finding: SocketFinding): Verdict {
  const answer = finding.answered ? finding.data.toString('latin1')[0] : undefined
  if (answer === 'S' || answer === 'N') return ok(`PostgreSQL answers at ${at}`)
  const found = finding.answered ? `what answers at ${at} is not PostgreSQL` : `PostgreSQL does not answer at ${at}: ${finding.reason}`
  return fail(found, 'start the server there, or correct --database-url')
}

export async function examinePostgres(databaseUrl: string, signal: AbortSignal): Promise<Verdict> {
  const place = addressOf(databaseUrl)
  if (place === null)
    return fail(
      '--database-url is not a PostgreSQL URL',
      'write it as postgres://user@host:5432/database, with the password in MUSTER_DATABASE_URL',
    )
  return judgePostgresServer(place.shown, await probeSocket({ to: place.to, send: sslRequest, isWhole: (data) => data.length > 0, signal }))
}

/** Where a database URL leads, without its user and password. A host that begins with / is a directory with a socket. */
export function addressOf(databaseUrl: string): { shown: string; to: NetConnectOpts } | null {
  // `postgres:///db?host=/run/postgresql` has no host, which only special schemes may not.
  const url = URL.parse(databaseUrl)
  if (url === null || (url.protocol !== 'postgres:' && url.protocol !== 'postgresql:')) return null
  const host = url.searchParams.get('host') ?? (decodeURIComponent(url.hostname) || 'localhost')
  const port = Number(url.searchParams.get('port') ?? (url.port || 5432))
  if (!host.startsWith('/')) return { shown: `${host}:${port}`, to: { host: host.replace(/^\[|\]$/g, ''), port } }
  const path = `${host.replace(/\/$/, '')}/.s.PGSQL.${port}`
  return { shown: path, to: { path } }
}
