// The database: as the controller reports it, else by connecting to the server or inspecting the embedded one.
import { access, readdir, readFile } from 'node:fs/promises'
import type { NetConnectOpts } from 'node:net'
import { join } from 'node:path'
import { errorCode, isAlive, parseJson, readIdentity } from '@muster/host'
import { plainText } from '../output/text.ts'
import { type Check, fail, ok, type Verdict, warn } from './checks.ts'
import { type ControllerReport, judgeUnreported, type KnownTarget, queryController } from './controller-report.ts'
import { probeSocket, type SocketFinding } from './probes.ts'

const oldestPostgres = 15

/** Null: the controller reported nothing about its database. */
export function judgeDatabaseOfController(report: ControllerReport): Verdict | null {
  if (report.kind === 'ready') return ok('works: the controller is ready')
  if (report.kind !== 'status') return null
  const version = plainText(report.status.database.version)
  const major = Number(/\d+/.exec(version)?.[0] ?? 0)
  if (major < oldestPostgres) return fail(`the controller uses PostgreSQL ${version}`, `use PostgreSQL ${oldestPostgres} or newer`)
  return ok(`the controller uses PostgreSQL ${version}`)
}

type DatabaseFacts = Readonly<{ known: KnownTarget; databaseUrl: string | undefined; dataDir: string }>

export const databaseCheck = ({ known, databaseUrl, dataDir }: DatabaseFacts): Check => ({
  name: 'database',
  run: async (signal) => {
    const report = await queryController(known, signal)
    const reported = judgeDatabaseOfController(report)
    if (reported !== null) return reported
    const embedded = await inspectEmbedded(dataDir)
    const isHere = databaseUrl !== undefined || embedded.state !== 'none'
    const local = databaseUrl === undefined ? judgeEmbedded(embedded) : await examinePostgres(databaseUrl, signal)
    return judgeUnreported(report, isHere ? local : null, '--database-url') ?? local
  },
})

type ProcessState = { readonly pid: number; readonly alive: boolean }

type EmbeddedFacts =
  | { readonly state: 'none' }
  /** Root keeps it in another directory, which is missing. */
  | { readonly state: 'gone'; readonly home: string; readonly dataDir: string }
  | { readonly state: 'made'; readonly home: string; readonly holder: ProcessState | null; readonly server: ProcessState | null }

export function judgeEmbedded(facts: EmbeddedFacts): Verdict {
  if (facts.state === 'none') return ok('embedded: not created yet, the first start of `muster up` creates it')
  if (facts.state === 'gone') {
    const { home, dataDir } = facts
    // The same message as that of `muster up`.
    return fail(
      `embedded: the database of ${dataDir} was in ${home}, which is gone`,
      `bring that directory back (in a container: keep ${systemBase} on a volume, or run Muster as an ordinary user), ` +
        `or remove ${join(dataDir, 'postgres')} to begin with an empty database`,
    )
  }
  const { home, holder, server } = facts
  if (holder?.alive === true)
    return ok(`embedded: used by the Muster process ${holder.pid}${server?.alive === true ? `, server ${server.pid}` : ''}`)
  if (server?.alive === true)
    return warn(
      `embedded: the server ${server.pid} still runs, and the Muster process that started it has ended`,
      'the next `muster up` stops and recovers it; nothing is lost',
    )
  return ok(`embedded: in ${home}, stopped`)
}

/** Where root keeps the servers' files; those of other users are in the data directory. */
const systemBase = '/var/lib/muster-postgres'

async function inspectEmbedded(dataDir: string): Promise<EmbeddedFacts> {
  const own = join(dataDir, 'postgres')
  const location = record(parseJson((await readIfThere(join(own, 'location.json'))) ?? ''))
  const id = location?.['id']
  const home = typeof id === 'string' && /^[a-z0-9]{8,64}$/.test(id) ? join(systemBase, id) : own
  if (home !== own && (await isMissing(join(home, 'owner.json')))) return { state: 'gone', home, dataDir }
  const names = await readdir(join(home, 'holders')).catch(() => null)
  if (names === null) return { state: 'none' }
  const last = Math.max(0, ...names.map((name) => Number(/^(\d+)\.json$/.exec(name)?.[1] ?? 0)))
  const claim = record(parseJson((await readIfThere(join(home, 'holders', `${last}.json`))) ?? ''))
  return {
    state: 'made',
    home,
    holder: claim?.['released'] === true ? null : processState(claim?.['muster']),
    server: processState(claim?.['server']),
  }
}

function processState(value: unknown): ProcessState | null {
  const identity = readIdentity(value)
  return identity === null ? null : { pid: identity.pid, alive: isAlive(identity) }
}

function record(value: unknown): Readonly<Record<string, unknown>> | null {
  return typeof value === 'object' && value !== null ? { ...value } : null
}

/** An unreadable path is not missing. */
const isMissing = (path: string): Promise<boolean> =>
  access(path).then(
    () => false,
    (error: unknown) => errorCode(error) === 'ENOENT',
  )

async function readIfThere(path: string): Promise<string | null> {
  return readFile(path, 'utf8').catch(() => null)
}

// A PostgreSQL server answers a request for encryption with one letter, before it requests a user or password.
/** Length 8 and the code 80877103 (PostgreSQL protocol, SSLRequest). */
const sslRequest = Buffer.from([0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f])

export function judgePostgresServer(at: string, finding: SocketFinding): Verdict {
  const answer = finding.answered ? finding.data.toString('latin1')[0] : undefined
  if (answer === 'S' || answer === 'N') return ok(`PostgreSQL answers at ${at}`)
  const found = finding.answered ? `the server at ${at} is not PostgreSQL` : `PostgreSQL does not answer at ${at}: ${finding.reason}`
  return fail(found, 'start the server there, or correct --database-url')
}

async function examinePostgres(databaseUrl: string, signal: AbortSignal): Promise<Verdict> {
  const address = addressOf(databaseUrl)
  if (address === null)
    return fail(
      '--database-url is not a PostgreSQL URL',
      'write it as postgres://user@host:5432/database, with the password in MUSTER_DATABASE_URL',
    )
  return judgePostgresServer(
    address.shown,
    await probeSocket({ to: address.to, send: sslRequest, isWhole: (data) => data.length > 0, signal }),
  )
}

/** The address of a database URL, without user and password. A host that begins with / is a directory with a socket. */
export function addressOf(databaseUrl: string): { shown: string; to: NetConnectOpts } | null {
  // `postgres:///db?host=/run/postgresql` has no host.
  const url = URL.parse(databaseUrl)
  if (url === null || (url.protocol !== 'postgres:' && url.protocol !== 'postgresql:')) return null
  const host = url.searchParams.get('host') ?? (decodeURIComponent(url.hostname) || 'localhost')
  const port = Number(url.searchParams.get('port') ?? (url.port || 5432))
  if (!host.startsWith('/')) return { shown: `${host}:${port}`, to: { host: host.replace(/^\[|\]$/g, ''), port } }
  const path = `${host.replace(/\/$/, '')}/.s.PGSQL.${port}`
  return { shown: path, to: { path } }
}
