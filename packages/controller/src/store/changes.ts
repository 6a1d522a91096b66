// Queries about changes, and the listener for notifications of new changes.
import { type Kysely, sql } from 'kysely'
import { type Client, escapeIdentifier } from 'pg'
import type { Clock, Log } from '@muster/host'
import { backoffMs } from '@muster/protocol'
import type { Database } from './tables.ts'

export interface Change {
  readonly kind: string
  readonly id: string
  readonly seq: number
  readonly deleted: boolean
}
export interface ChangeRead {
  readonly changes: readonly Change[]
  /** Every transaction with a smaller ID had ended when the snapshot was taken. */
  readonly xmin: bigint
  /**
   * Drawn after the changes were read, so it is larger than the ID of any transaction that drew one of their numbers or a smaller
   * one. Null when there were no changes. (Not the upper bound of the snapshot: PostgreSQL counts that from the last transaction
   * that *ended*, not from the last one that began.)
   */
  readonly xid: bigint | null
  /** Deletions up to this number are no longer stored. */
  readonly floor: number
  readonly last: number
}

interface Row {
  readonly kind: string | null
  readonly id: string
  readonly seq: number
  readonly deleted: boolean
  readonly xmin: string
  readonly xid: string | null
  readonly floor: number
  readonly last: number
}

export class ChangeStore {
  readonly #db: Kysely<Database>

  constructor(db: Kysely<Database>) {
    this.#db = db
  }

  /** Reads all changes after `seq` and their snapshot in one statement. */
  async readSince(seq: number): Promise<ChangeRead> {
    const { rows } = await sql<Row>`
      select c.kind, c.id, c.seq, c.deleted, s.xmin, s.floor, s.last, case when c.kind is not null then pg_current_xact_id()::text end as xid
      from (
        select pg_snapshot_xmin(pg_current_snapshot())::text as xmin, f.seq as floor, greatest((select max(seq) from changes), f.seq) as last
        from change_floor f
      ) s left join changes c on c.seq > ${seq} order by c.seq`.execute(this.#db)
    const [first] = rows
    if (first === undefined) throw new Error('change_floor has always one row')
    return {
      changes: rows.flatMap((row) => (row.kind === null ? [] : [{ kind: row.kind, id: row.id, seq: row.seq, deleted: row.deleted }])),
      xmin: BigInt(first.xmin),
      xid: first.xid === null ? null : BigInt(first.xid),
      floor: first.floor,
      last: first.last,
    }
  }

  async floor(): Promise<number> {
    const row = await this.#db.selectFrom('change_floor').select('seq').executeTakeFirstOrThrow()
    return row.seq
  }

  async forgetDeleted(olderThanMs: number): Promise<void> {
    await sql`
      with gone as (delete from changes where deleted and at < now() - make_interval(secs => ${olderThanMs / 1000}) returning seq)
      update change_floor set seq = greatest(change_floor.seq, (select max(seq) from gone)) where exists (select 1 from gone)`.execute(
      this.#db,
    )
  }
}

// Listens for NOTIFY on its own connection and reconnects when that is lost (D11). Notifications are lost meanwhile, so the
// listener is also woken after each reconnect and has to read the changes. It must also poll now and then.

export interface ListenOptions {
  readonly channel: string
  /** Null: the connection is new, and notifications may have been lost. */
  readonly onNotify: (payload: string | null) => void
}

export interface Listener {
  stop(): Promise<void>
}

interface ListenDeps {
  /** Not connected yet. */
  readonly newClient: () => Client
  readonly clock: Clock
  readonly random: () => number
  readonly log: Log
}

/** A connection that died silently is detected by a query. */
const [askEveryMs, answerWithinMs, goodbyeMs] = [15_000, 5_000, 500]

export function startListener(deps: ListenDeps, options: ListenOptions): Listener {
  const stopping = new AbortController()
  const running = listenForEver(deps, options, stopping.signal)
  return {
    stop: async () => {
      stopping.abort()
      await running
    },
  }
}

async function listenForEver(deps: ListenDeps, options: ListenOptions, signal: AbortSignal): Promise<void> {
  const { clock, random, log } = deps
  for (let failures = 1; !signal.aborted; failures += 1) {
    const error = await listenOnce(deps, options, {
      signal,
      onListening: () => {
        failures = 0
        options.onNotify(null)
      },
    })
    if (signal.aborted) return
    log.warn('change listener disconnected; reconnecting', { channel: options.channel, error })
    await clock.sleep(backoffMs(failures + 1, { baseMs: 100, maxMs: 2_000, jitter: 0.2 }, random()), signal).catch(() => {})
  }
}

/** True when the server answers. */
async function closeClient(client: Client, clock: Clock): Promise<void> {
  const done = new AbortController()
  await Promise.race([client.end(), clock.sleep(goodbyeMs, done.signal).catch(() => {})])
  done.abort()
  client.connection.stream.destroy()
}

/** Resolves with the cause when the connection is lost. */
async function listenOnce(
  { newClient, clock }: ListenDeps,
  { channel, onNotify }: ListenOptions,
  { signal, onListening }: { signal: AbortSignal; onListening: () => void },
): Promise<unknown> {
  const client = newClient()
  const lost = new AbortController()
  const lose = (error: unknown): void => lost.abort(error)
  client.on('error', lose)
  client.on('end', () => lose(new Error('the connection was closed')))
  client.on('notification', (message) => onNotify(message.payload ?? ''))
  const ending = AbortSignal.any([signal, lost.signal])
  try {
    await unless(ending, client.connect())
    await unless(ending, query(client, `listen ${escapeIdentifier(channel)}`))
    onListening()
    while (!ending.aborted) {
      await clock.sleep(askEveryMs, ending)
      await unless(ending, query(client, 'select 1'))
    }
    return ending.reason
  } catch (error) {
    return error
  } finally {
    await closeClient(client, clock)
  }
}

async function query(client: Client, text: string): Promise<void> {
  const request = { text, query_timeout: answerWithinMs } // Missing in the types of pg.
  await client.query(request)
}

/** Stops waiting when the signal aborts: a server that does not answer must not delay shutdown. */
async function unless(signal: AbortSignal, work: Promise<unknown>): Promise<void> {
  const aborted = Promise.withResolvers<never>()
  const onAbort = (): void => aborted.reject(signal.reason)
  if (signal.aborted) onAbort()
  signal.addEventListener('abort', onAbort)
  try {
    await Promise.race([work, aborted.promise])
  } finally {
    signal.removeEventListener('abort', onAbort)
  }
}
