// Maps errors of pg to failures. No other file reads their codes and texts.
import { setTimeout as pause } from 'node:timers/promises'
import { type Clock, errorCode, type Log } from '@muster/host'
import { failureOf, FleetError } from '@muster/protocol'

/** PostgreSQL's codes: https://www.postgresql.org/docs/current/errcodes-appendix.html */
const unavailable: readonly [pattern: RegExp, meaning: string][] = [
  [/^08...$/, 'the connection to the database was lost'],
  [/^57P0[1-5]$/, 'the database is shutting down, starting or dropped the connection'],
  [/^53100$/, 'the disk of the database is full'],
  [/^53...$/, 'the database is out of connections or memory'],
  [/^(57014|55P03)$/, 'the database took too long'],
  [/^25P0[34]$/, 'the transaction took too long'],
  [/^25006$/, 'the database is read-only at the moment'],
  [/^58...$/, 'the database cannot access its files'],
  [/^(40001|40P01)$/, 'concurrent transactions conflicted'],
  [/^(ECONNREFUSED|ENOENT|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|EHOSTDOWN|ETIMEDOUT)$/, 'the database is unreachable'],
  [/^(ECONNRESET|EPIPE|ENOTCONN)$/, 'the connection to the database was lost'],
]

/** pg gives these errors no code. */
const unavailableTexts: readonly [text: string, meaning: string][] = [
  ['timeout exceeded when trying to connect', 'all connections to the database are in use'],
  ['Connection terminated due to connection timeout', 'the database does not answer'],
  ['timeout expired', 'the database does not answer'],
  ['Query read timeout', 'the database took too long'],
  ['Connection terminated', 'the connection to the database was lost'],
  ['Client has encountered a connection error and is not queryable', 'the connection to the database was lost'],
  ['Client was closed and is not queryable', 'the connection to the database was lost'],
  ['Cannot use a pool after calling end on the pool', 'this controller is stopping'],
  ['Postgres connection has been discarded', 'the connection to the database was lost'],
]

/** The client gave up; the connection still waits for the answer and must not be used for anything else. */
export function isClientTimeout(error: unknown): boolean {
  return error instanceof Error && error.message === 'Query read timeout'
}

/** The statement is correct, but the database could not execute it now. A commit may have succeeded nevertheless. */
export function isUnavailable(error: unknown): boolean {
  return meaningOf(error) !== null
}

const retryEveryMs = 1_000

/**
 * Repeats a step of a start while the database is unavailable: a busy machine delays a start and does not fail it. Waiting does not
 * repair a wrong password or a broken migration, so other errors are thrown at once.
 */
export async function whileUnavailable<T>(
  { clock, log, signal }: { clock: Clock; log: Log; signal: AbortSignal },
  work: () => Promise<T>,
): Promise<T> {
  for (;;) {
    try {
      return await work()
    } catch (error) {
      if (!isUnavailable(error) || signal.aborted) throw error
      log.warn('database is not ready; retrying', { error })
      await clock.sleep(retryEveryMs, signal)
    }
  }
}

/** Any error but an unavailable database is a bug, and reported as internal. */
export function toFleetError(error: unknown): FleetError {
  if (error instanceof FleetError) return error
  const meaning = meaningOf(error)
  if (meaning === null) return new FleetError(failureOf(error), { cause: error })
  return new FleetError({ code: 'unavailable', retry: 'backoff', message: `${meaning}; try again in a moment` }, { cause: error })
}

/** Searches the causes of the error too. */
function meaningOf(error: unknown, depth = 0): string | null {
  if (!(error instanceof Error) || depth > 5) return null
  const code = codeOf(error)
  const byCode = unavailable.find(([pattern]) => pattern.test(code))
  const byText = unavailableTexts.find(([text]) => error.message.startsWith(text))
  return byCode?.[1] ?? byText?.[1] ?? meaningOf(error.cause, depth + 1)
}

function codeOf(error: unknown): string {
  return String(errorCode(error) ?? '')
}

/** A prepared statement returns other columns than before: a newer controller has migrated the schema meanwhile. */
export const isPlanOutdated = (error: unknown): boolean =>
  codeOf(error) === '0A000' && error instanceof Error && error.message.includes('cached plan')

// Statements that touch many rows can deadlock; PostgreSQL then aborts one of them. It has written nothing, so it is run again
// after a pause in which the other one finishes.

/** Deadlock, serialization failure. */
const conflicts = new Set<unknown>(['40P01', '40001'])
const tries = 5

export async function retryConflicts<T>(run: () => Promise<T>): Promise<T> {
  for (let left = tries; ; left -= 1) {
    try {
      return await run()
    } catch (error) {
      if (left <= 1 || !conflicts.has(errorCode(error))) throw error
      await pause((tries - left + 1) * 20)
    }
  }
}
