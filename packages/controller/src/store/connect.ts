// The connection to PostgreSQL: a pool in which every wait has a timeout, kysely on top of it, and LISTEN beside it.
import { Kysely, PostgresDialect, type PostgresPool } from 'kysely'
import { Client, type ClientBase, type ClientConfig, type CustomTypesConfig, Pool, types } from 'pg'
import { type Clock, type Log, type Secret, systemClock } from '@muster/host'
import { type Listener, type ListenOptions, startListener } from './changes.ts'
import { isClientTimeout, isPlanOutdated } from './errors.ts'

export interface Limits {
  readonly connections: number
  /** Timeout for a connection from the pool, idle or new. */
  readonly acquireMs: number
  readonly lockMs: number
  readonly statementMs: number
  /** Timeout for a server that does not answer. Longer than the server's own limit, whose error explains more. */
  readonly answerMs: number
  readonly idleInTransactionMs: number
  /** events/checkpoint.pure.ts settles by age because of this limit. PostgreSQL 17 and newer. */
  readonly transactionMs: number
}

const defaultLimits: Limits = {
  connections: 10,
  acquireMs: 2_000,
  lockMs: 3_000,
  statementMs: 5_000,
  answerMs: 6_000,
  idleInTransactionMs: 8_000,
  transactionMs: 20_000,
}

export type DatabaseAddress = Readonly<{ host: string; port: number; user: string; database: string; password: Secret }>

export interface ConnectOptions {
  /** A URL, or the embedded server's address. */
  readonly to: { readonly url: string } | { readonly connection: DatabaseAddress }
  /** Shown in pg_stat_activity. */
  readonly applicationName: string
  readonly log: Log
  readonly clock?: Clock
  readonly random?: () => number
  readonly limits?: Partial<Limits>
}

export interface ConnectedDatabase<Tables> {
  readonly db: Kysely<Tables>
  readonly pool: Pool
  listen(options: ListenOptions): Listener
  /** Breaks all connections and opens no new ones: every waiting query fails. */
  abandon(): void
  /** Lets running queries finish within the answer timeout; resolves when every connection is closed. */
  close(): Promise<void>
}

/** Never fails: the first query connects. */
export function connectDatabase<Tables>({ to, ...options }: ConnectOptions): ConnectedDatabase<Tables> {
  const { applicationName, log, clock = systemClock, random = Math.random } = options
  const limit = { ...defaultLimits, ...options.limits }
  const config: ClientConfig = {
    ...('url' in to ? { connectionString: to.url } : { ...to.connection, password: to.connection.password.reveal() }),
    application_name: applicationName,
    connectionTimeoutMillis: limit.acquireMs,
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
    types: valueParsers,
  }
  // The pool awaits this promise, although its types do not declare it.
  const onConnect: (client: ClientBase) => unknown = (client) => setLimits(client, limit)
  const pool = new Pool({ ...config, max: limit.connections, query_timeout: limit.answerMs, onConnect })
  const connections = trackConnections(pool, log)
  const listeners = new Set<Listener>()
  let isEnded = false
  const endPool = (): void => {
    // The pool ends when every connection is released; `closed` breaks connections that never are.
    if (!isEnded) void pool.end()
    isEnded = true
  }
  const db = new Kysely<Tables>({ dialect: new PostgresDialect({ pool: withoutStuckConnections(pool) }) })
  return {
    db,
    pool,
    listen: (channel) => {
      const listener = startListener({ newClient: () => new Client(config), clock, random, log }, channel)
      listeners.add(listener)
      return listener
    },
    abandon: () => {
      endPool()
      connections.break()
    },
    close: async () => {
      await Promise.all([...listeners].map((each) => each.stop()))
      await db.destroy()
      endPool()
      const done = new AbortController()
      await connections.closed(clock.sleep(limit.answerMs, done.signal).catch(() => {}))
      done.abort()
    },
  }
}

// A statement instead of connection parameters: poolers refuse unknown parameters, and PostgreSQL before version 17 refuses the
// last one.
async function setLimits(client: ClientBase, limit: Limits): Promise<void> {
  const settings = [
    ['TimeZone', 'UTC'],
    ['lock_timeout', limit.lockMs],
    ['statement_timeout', limit.statementMs],
    ['idle_in_transaction_session_timeout', limit.idleInTransactionMs],
    // As for a cached database. With the default, statements that are prepared while a table is small read all of it, and keep
    // that plan while the table grows.
    ['random_page_cost', 1.1],
  ]
  const set = settings.map(([name, value]) => `set_config('${name}', '${value}', false)`)
  const query = {
    text: `select ${set.join(', ')}, case when current_setting('server_version_num')::int >= 170000
      then set_config('transaction_timeout', '${limit.transactionMs}', false) end`,
    query_timeout: limit.acquireMs, // Missing in the types of pg.
  }
  await client.query(query)
}

// An 'error' event without a listener ends the process. pg emits one whenever a connection drops, also for connections in use;
// their query fails too.
function trackConnections(pool: Pool, log: Log): { closed(patience: Promise<void>): Promise<void>; break(): void } {
  const open = new Map<ClientBase, Promise<void>>()
  pool.on('error', (error) => log.warn('idle database connection lost', { error }))
  pool.on('connect', (client) => {
    client.on('error', (error) => log.debug('database connection lost', { error }))
    const ended = Promise.withResolvers<void>()
    open.set(client, ended.promise)
    client.on('end', () => {
      open.delete(client)
      ended.resolve()
    })
  })
  const breakAll = (): void => {
    if (open.size > 0) log.warn('database connections still in use; closing them', { connections: open.size })
    for (const client of open.keys()) if (client instanceof Client) client.connection.stream.destroy()
  }
  return {
    break: breakAll,
    // The pool reports its end when its connections are closing, not when they are closed.
    closed: async (patience) => {
      const all = Promise.all(open.values())
      await Promise.race([all, patience])
      breakAll()
      await all
    },
  }
}

// kysely releases a connection to the pool after a query that timed out here, although the connection still waits for the answer.
// The next query would wait behind it, so such a connection is closed instead (D5).
function withoutStuckConnections(pool: Pool): PostgresPool {
  const names = createStatementNames()
  return {
    options: pool.options,
    end: async () => {}, // `close` ends the pool; kysely would wait for connections that are never released.
    connect: async () => {
      const client = await pool.connect()
      let stuckBy: Error | null = null
      const query = async (sql: string, parameters: readonly unknown[]) => {
        if (stuckBy !== null) throw stuckBy
        const name = names.nameOf(sql)
        try {
          return await client.query({ text: sql, values: [...parameters], ...(name === undefined ? {} : { name }) })
        } catch (error) {
          if (error instanceof Error && isClientTimeout(error)) stuckBy = error
          if (name === undefined || !isPlanOutdated(error)) throw error
          // Refused before execution, so outside of a transaction it can be sent again.
          names.forget(sql)
          return await client.query(sql, [...parameters])
        }
      }
      return Object.assign(Object.create(client), {
        query,
        release: (destroy?: boolean) => client.release(destroy === true || stuckBy !== null),
      })
    },
  }
}

// Repeated statements are prepared once per connection, because planning the statements of the queue costs PostgreSQL more than
// running them. A text gets a name after a few uses, so that texts that differ each time (lists of other lengths) are not stored.
const comesAgainAfter = 3
const maxNames = 200
const maxWatched = 2_000

interface StatementNames {
  /** Undefined: send it without a name. */
  nameOf(text: string): string | undefined
  /** The statement cannot be prepared any more: a migration changed its columns while this process runs. */
  forget(text: string): void
}

export function createStatementNames(): StatementNames {
  const seen = new Map<string, number>()
  const names = new Map<string, string | undefined>()
  return {
    nameOf(text) {
      if (names.has(text)) return names.get(text)
      const times = (seen.get(text) ?? 0) + 1
      if (times < comesAgainAfter) {
        if (seen.size >= maxWatched) seen.clear()
        seen.set(text, times)
        return undefined
      }
      seen.delete(text)
      if (names.size >= maxNames) return undefined
      const name = `s${names.size}`
      names.set(text, name)
      return name
    },
    forget: (text) => void names.set(text, undefined),
  }
}

// Converts values of the database. Set for each pool, because pg's own table of parsers is global.

const { INT8, TIMESTAMPTZ, TIMESTAMP, DATE, INTERVAL } = types.builtins
const [int8Array, timestamptzArray] = [1016, 1185]

/** A number above 2^53 would lose digits silently; no column reaches that. */
export function parseInt8(text: string): number {
  const value = Number(text)
  if (!Number.isSafeInteger(value)) throw new RangeError(`${text} does not fit into a JavaScript number`)
  return value
}

/** RFC 3339 in UTC with milliseconds, as in the API. PostgreSQL's microseconds are cut off. */
export function parseTimestamp(text: string): string {
  const [, date, time, fraction = '', sign, hours, minutes = '00'] =
    /^(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d)(?:\.(\d+))?([+-])(\d\d)(?::(\d\d))?$/.exec(text) ?? []
  if (date === undefined || hours === undefined) throw new RangeError(`${text} is not a time between the years 1 and 9999`)
  return new Date(`${date}T${time}.${fraction.slice(0, 3).padEnd(3, '0')}${sign}${hours}:${minutes}`).toISOString()
}

type Parser = (text: string) => unknown

// Elements of these arrays contain neither quotes nor commas; only times are quoted.
const arrayOf =
  (parse: Parser): Parser =>
  (text) =>
    text === '{}'
      ? []
      : text
          .slice(1, -1)
          .split(',')
          .map((each) => (each === 'NULL' ? null : parse(each.replaceAll('"', ''))))

const asText: Parser = (text) => text

const parsers: ReadonlyMap<number, Parser> = new Map<number, Parser>([
  [INT8, parseInt8],
  [int8Array, arrayOf(parseInt8)],
  [TIMESTAMPTZ, parseTimestamp],
  [timestamptzArray, arrayOf(parseTimestamp)],
  // Types without a time zone are not converted: pg would use the time zone of this machine.
  [TIMESTAMP, asText],
  [DATE, asText],
  [INTERVAL, asText],
])

const valueParsers: CustomTypesConfig = {
  getTypeParser: (oid, format) => (format === 'binary' ? undefined : parsers.get(oid)) ?? types.getTypeParser(oid, format),
}
